"""tutti in Python: schedules of collectives on any network, and how far each is from the best possible.

>>> import tutti
>>> result = tutti.synthesize("torus:4x4", "allgather", size="64MB", method="bfb")
>>> print(f"{result.time * 1e6:.0f} us, at most {result.gap:.1%} above what is possible")
302 us, at most 0.3% above what is possible
>>> result.bound.check()
True

The public names stand in `tutti.api` and are imported when they are first used. A process that needs only
`tutti.topologies.errors`, such as a solver's, starts without compiled kernels.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tutti.api import (
        bound,
        collective,
        compare,
        find,
        methods,
        register,
        show,
        simulate,
        synthesize,
        topology,
        verify,
    )
    from tutti.experiments.result import LowerBound, Result
    from tutti.schedules.schedule import Schedule
    from tutti.topologies.errors import Interrupted
    from tutti.topologies.topology import Topology

    __version__: str

__all__ = [
    "Interrupted",
    "LowerBound",
    "Result",
    "Schedule",
    "Topology",
    "__version__",
    "bound",
    "collective",
    "compare",
    "find",
    "methods",
    "register",
    "show",
    "simulate",
    "synthesize",
    "topology",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Return a public name, from `tutti.api`, or the version of the installed distribution."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "__version__":
        value: Any = import_module("tutti.experiments").installed_version()
    else:
        value = getattr(import_module("tutti.api"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
