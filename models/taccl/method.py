"""TACCL: routing, heuristic ordering, contiguity and exact scheduling (NSDI 2023, section 5 and Appendix B).

Without a sketch every link of a network without switches may be used, and the symmetry is found among the
network's automorphisms. `models.taccl.stages` has the stages one after the other.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tutti.models.taccl.options import TacclOptions
from tutti.schedules.capabilities import Capabilities
from tutti.schedules.collective import KINDS, Kind
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Schedule
from tutti.topologies.errors import InputError
from tutti.topologies.graphs.grid_structure import note_on_hosts, placed

DEFAULT_SIZE = Fraction(2**20)
"""M if none is given and none matters, because links are equal and all transfers take the same time."""


def synthesize(problem: Problem, options: TacclOptions, rng: np.random.Generator) -> Schedule:
    """Return a schedule in the time clock, with the solver's gap in its stats.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    InputError
        If the sketch does not fit the network, or a size is needed and missing.
    NoSchedule
        If the sketch leaves a chunk no path, or the solver stops without a routing.
    """
    from tutti.models.taccl.stages import synthesized  # Pyomo is slow to import

    METHOD.supports(problem, options)
    where, infer = problem.topology, options.infer_hosts
    sized = Problem(placed(where, infer=infer), problem.collective, _size(problem, options))
    made, note = synthesized(sized, options, rng).replace(topology=where), note_on_hosts(where, infer=infer)
    return made.replace(stats={**made.stats, "note": note}) if note else made


def _size(problem: Problem, options: TacclOptions) -> Fraction:
    """Return M: of the options or the sketch, else of the problem, else the default if it does not matter."""
    fixed = options.size()
    if fixed is not None:
        return fixed
    if problem.size is None and size_dependent(problem, options):
        raise InputError(
            f"taccl needs a size on {problem.topology.name}: its links differ or chunks are joined"
        )
    size = DEFAULT_SIZE if problem.size is None else Fraction(problem.size)
    if size <= 0:
        raise InputError(f"taccl: the size is {size} bytes; it must be positive")
    return size


def check(problem: Problem, options: TacclOptions) -> None:
    """Raise `Unsupported` for allreduces in groups, and where there are switches but no sketch.

    Raises
    ------
    Unsupported
        The message says what is missing.
    """
    what, where = problem.collective, problem.topology
    if what.kind is Kind.ALLREDUCE and len(what.members) > 1:
        raise METHOD.unsupported(f"needs one group of all ranks; this allreduce has {len(what.members)}")
    if where.num_switches and options.sketch is None:
        raise METHOD.unsupported(
            f"needs a sketch where there are switches, and {where.name} has {where.num_switches}: "
            "give one with the option sketch"
        )


def size_dependent(problem: Problem, options: TacclOptions) -> bool:
    """Return whether links differ or chunks are joined, and neither an option nor a sketch sets the size."""
    if options.size() is not None:
        return False
    if options.sketch is not None:
        return True
    return not problem.topology.homogeneous or options.joins_on(problem.topology)


METHOD = Method(
    name="taccl",
    kind="heuristic",
    synthesize=synthesize,
    options=TacclOptions,
    capabilities=Capabilities(KINDS, uneven_shards=False, further="a sketch where there are switches"),
    check=check,
    size_dependent=size_dependent,
    seeded=True,
    summary="routing, ordering and scheduling as mixed-integer programs, guided by a sketch (TACCL)",
)
