"""The options of TACCL, and what they mean together with the sketch."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar

import numpy as np

from tutti.models.taccl.demand import Paths
from tutti.models.taccl.sketch import Sketch, read_sketch
from tutti.models.taccl.solving import StageLimits, mip_options
from tutti.models.taccl.transfers import Contiguity
from tutti.topologies.errors import InputError
from tutti.topologies.options import Choice, Number, Options, Whole
from tutti.topologies.topology import Topology
from tutti.topologies.units import parse_size

PATHS = Choice(tuple(Paths), words=f"allowed: {', '.join(Paths)}")
CONTIGUITIES = Choice(tuple(Contiguity), words=f"allowed: {', '.join(Contiguity)}")


@dataclass(frozen=True)
class TacclOptions(Options):
    """The options of TACCL.

    Parameters
    ----------
    sketch
        A shipped sketch (``dgx2-sk-1``, ...) or a file, ``.toml`` or ``.json``; None: all links of a network
        without switches.
    chunks
        Equal chunks a shard; None: the sketch's, or 1.
    input_size
        M, such as ``"16MB"``, for which one schedule is made and then run at all sizes. None: the sketch's
        size, or one schedule for each size.
    symmetry
        Whether transfers are the same under the sketch's symmetry or, without a sketch, under automorphisms.
    paths
        Which ranks a chunk may pass: ``"sketch"``, ``"logical"`` or ``"all"`` (`models.taccl.demand`).
    contiguity
        Which links may send several chunks as one message: those ``"between"`` hosts, ``"all"``, ``"none"``.
    concurrent_receives
        Whether a rank that reduces may receive several parts of a chunk at the same time.
    reroutes
        How often routing is solved again where no order meets its time.
    restarts
        The number of disturbed orders of a routing that are tried; None: as many as its size allows.
    solver
        What solves both mixed-integer programs: ``"highs"``, ``"scip"``, ``"cp-sat"`` or ``"gurobi"``.
    time_limit
        Seconds of the whole synthesis; None for no limit. After it the best schedule so far is returned.
        There is none if not each chunk could be routed once.
    relative_gap
        Relative gap at which a solve may stop.
    infer_hosts
        Whether hosts that the network does not name are inferred where its links make them plain.

    Raises
    ------
    InputError
        If a value is out of range, or a sketch can't be read.
    Unsupported
        If the solver does no mixed-integer programs.
    """

    OWNER: ClassVar[str] = "taccl"

    sketch: str | None = None
    chunks: Annotated[int | None, Whole(1)] = None
    input_size: str | None = None
    symmetry: bool = True
    paths: Annotated[Paths, PATHS] = Paths.SKETCH
    contiguity: Annotated[Contiguity, CONTIGUITIES] = Contiguity.BETWEEN
    concurrent_receives: bool = False
    reroutes: Annotated[int, Whole(0)] = 2
    restarts: Annotated[int | None, Whole(0)] = None
    solver: str = "highs"
    time_limit: Annotated[float | None, Number(above=0)] = 60.0
    relative_gap: Annotated[float, Number(above=0)] = 1e-4
    infer_hosts: bool = True

    def __post_init__(self) -> None:
        """Check the values, that the sketch can be read, and that the solver is installed."""
        super().__post_init__()
        if self.input_size is not None:
            try:
                parse_size(self.input_size)
            except InputError as error:
                raise InputError(f"taccl option input_size: {error}") from None
        if self.sketch is not None:
            if not isinstance(self.sketch, str):
                raise InputError(f"taccl option sketch is {self.sketch!r}; it must be a name or a file")
            read_sketch(self.sketch)
        if self.solver != "highs":
            mip_options(StageLimits(self.solver))

    def size(self) -> Fraction | None:
        """Return M in bytes for which a schedule is made at every size that is asked for, if it is fixed."""
        if self.input_size is not None:
            return parse_size(self.input_size)
        sketch = self.read()
        return None if sketch is None else sketch.size

    def read(self) -> Sketch | None:
        """Return the sketch, if any."""
        return None if self.sketch is None else read_sketch(self.sketch)

    def per_item(self) -> int:
        """Return the chunks a shard."""
        sketch = self.read()
        if self.chunks is not None:
            return self.chunks
        return 1 if sketch is None else sketch.chunks

    def joins_on(self, topology: Topology) -> bool:
        """Return whether chunks may be joined on some link of a network."""
        hosts = topology.hosts
        between = hosts is not None and len(np.unique(hosts)) > 1
        return self.contiguity == "all" or (self.contiguity == "between" and between)
