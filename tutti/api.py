"""The public names of `tutti`, wired from parts that are public as well.

Every function takes a network as a text (``"dgx_a100:2"``), a path, a networkx graph or a `Topology`, and a
size as a text or a number of bytes. Times are seconds, bandwidths bytes a second. No other module of the
package imports this one.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tutti.experiments import plugins
from tutti.experiments.old_names import current_options
from tutti.experiments.registry import METHODS, find_method
from tutti.experiments.result import LowerBound, Result
from tutti.experiments.runner.plan import tasks_of
from tutti.experiments.runner.study import Workplace, perform
from tutti.experiments.runner.tasks import synthesize_best
from tutti.models.bounds import lower_bounds
from tutti.schedules.collective import Collective
from tutti.schedules.collective import collective as make_collective
from tutti.schedules.files.schedule_file import read_schedule
from tutti.schedules.method import Problem, first_seeds
from tutti.schedules.schedule import Schedule
from tutti.schedules.simulation.simulate import Simulation, SimulationOptions
from tutti.schedules.simulation.simulate import simulate as simulated
from tutti.schedules.verify import verify as replay
from tutti.topologies.errors import InputError, Interrupted, suggestion
from tutti.topologies.files import from_networkx
from tutti.topologies.graphs.grid_structure import check_hosts
from tutti.topologies.options import build_options, options_text
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Topology
from tutti.topologies.units import MICRO, checked_size, exact_number, parse_size

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

    from tutti.experiments.show.page import Page

FIRST = ("topology", "collective", "size_bytes", "method", "options", "status", "time", "bound", "gap")
"""Columns of `compare` that stand before the others."""


def topology(network: Topology | str | Path | nx.Graph) -> Topology:
    """Return a network.

    Parameters
    ----------
    network
        A text such as ``"torus:4x4?bandwidth=50GB/s"``, or ``"nccl:topo.xml?hosts=2"`` for the file of a tool
        (``tutti list topologies``), the path of a node-link JSON file, a networkx graph (edges may have
        ``bandwidth`` and ``alpha``, nodes ``kind`` and ``host``), or a `Topology`, which is returned.

    Returns
    -------
    Topology

    Raises
    ------
    InputError
        If it is none of these, or no network.

    Examples
    --------
    >>> topology("torus:4x4?alpha=1us")
    <Topology torus:4x4?alpha=1us: 16 ranks, 0 switches, 64 links>
    """
    plugins.load_installed()
    if isinstance(network, Topology):
        return network
    if isinstance(network, str | Path):
        return parse_topology(str(network))
    if not hasattr(network, "is_multigraph"):
        what = type(network).__name__
        raise InputError(f"{what} is no network; give a text, a path, a networkx graph or a Topology")
    topology = from_networkx(network)
    check_hosts(topology)
    return topology


def collective(
    kind: str | Collective,
    network: Topology | str | Path | nx.Graph,
    *,
    root: int | None = None,
    shards: Sequence[Any] | None = None,
    groups: Sequence[Sequence[int]] | None = None,
    matrix: Any = None,
) -> Collective:
    """Return a collective on all ranks of a network.

    Parameters
    ----------
    kind
        ``"allgather"``, ``"reduce-scatter"``, ``"allreduce"``, ``"all-to-all"``, ``"broadcast"``,
        ``"reduce"``, ``"gather"`` or ``"scatter"``.
    network
        The network, in any form that `topology` takes.
    root
        The rank that is the root of a broadcast, reduce, gather or scatter; by default rank 0.
    shards
        Relative sizes of uneven shards, one for each rank; by default all are equal.
    groups
        Disjoint lists of ranks. Each group does the collective by itself; by default all ranks are one group.
    matrix
        For an all-to-all: the bytes that each rank sends to each, as a square array, or a text: the name of a
        .csv or .npy file, ``"random?seed=1"``, ``"zipf:1.2"``, ``"hot:0.5"``, ``"block:8:0.5"``.

    Returns
    -------
    Collective

    Raises
    ------
    InputError
        If the arguments do not fit each other.

    Examples
    --------
    >>> collective("broadcast", "ring:4", root=2).root
    2
    """
    ranks = topology(network).num_ranks
    if not isinstance(kind, str | Collective):
        raise InputError(f"collective {kind!r}; it is a name such as 'allgather', or a Collective")
    if isinstance(kind, Collective):
        if (root, shards, groups) != (None, None, None) or matrix is not None:
            raise InputError("a Collective has its root, shards, groups and matrix already")
        return kind
    try:
        weights = None if shards is None else [exact_number(str(share)) for share in shards]
        members = None if groups is None else [[operator.index(rank) for rank in group] for group in groups]
        head = None if root is None else operator.index(root)
    except TypeError as error:
        raise InputError(f"root, shards or groups of {kind}: {error}") from None
    if isinstance(root, bool):
        raise InputError(f"root {root} of {kind}; it is the number of a rank")
    return make_collective(str(kind), ranks, root=head, shards=weights, groups=members, matrix=matrix)


def synthesize(
    network: Topology | str | Path | nx.Graph,
    kind: str | Collective = "allgather",
    size: str | float | Fraction | None = None,
    method: str = "best",
    *,
    root: int | None = None,
    shards: Sequence[Any] | None = None,
    groups: Sequence[Sequence[int]] | None = None,
    matrix: Any = None,
    seeds: int = 1,
    **options: Any,
) -> Result:
    """Make a schedule, verify it, and compare its time with a proven lower bound.

    Parameters
    ----------
    network
        The network: a text, a path, a networkx graph or a `Topology` (see `topology`).
    kind
        The collective: a name such as ``"allreduce"``, or a `Collective` (see `collective`).
    size
        M: a text such as ``"64MB"``, or a number of bytes. If it is None, it is the largest row of `matrix`,
        and 1 MB without a matrix.
    method
        The name of a method (see `methods`). ``"best"`` tries the sensible methods for ten seconds; the
        option ``time_limit="1min"`` gives it more time.
    root, shards, groups, matrix
        Further properties of the collective (see `collective`).
    seeds
        The number of seeds that a random method tries. The fastest schedule is kept.
    **options
        Options of the method. Its page lists them.

    Returns
    -------
    Result
        The verified schedule with its time, bound and gap.

    Raises
    ------
    InputError
        If an argument makes no sense. The message says what is allowed.
    Unsupported, NoSchedule
        If the method does not handle the problem, or finds no schedule.
    Interrupted
        A ``KeyboardInterrupt``, if Ctrl-C stopped a method that had a schedule. Its attribute ``found`` is
        the result of the fastest one.

    Examples
    --------
    >>> result = synthesize("ring:8", "allreduce", "64MB", method="ring")
    >>> f"{1000 * result.time:.2f} ms, {result.gap:.1%} over the bound"
    '1.13 ms, 0.5% over the bound'
    >>> synthesize("mesh:3x3", "broadcast", "1MB", method="direct", root=4).schedule.collective.root
    4
    """
    where, how = topology(network), find_method(method)
    what = collective(kind, where, root=root, shards=shards, groups=groups, matrix=matrix)
    given = {**how.quick, **current_options(how.name, options)}
    chosen = build_options(how, given)
    count = _size((what.own_size or "1MB") if size is None else size)
    problem = how.sized(Problem(where, what), chosen, count)
    exact_for = how.exactness(chosen, problem)
    try:
        made = synthesize_best(how, problem, chosen, first_seeds(how, seeds), count)
    except Interrupted as stop:
        found = Result.of(stop.found, count, how.name, options_text(given), exact_for=exact_for)
        raise Interrupted(found) from stop
    return Result.of(made, count, how.name, options_text(given), exact_for=exact_for)


def verify(schedule: Result | Schedule | str | Path) -> Schedule:
    """Replay a schedule, or one in a file, and return it.

    Parameters
    ----------
    schedule
        A `Result`, a `Schedule`, or the path of a schedule file.

    Returns
    -------
    Schedule

    Raises
    ------
    VerificationError
        If it is not legal, naming the first wrong transfer.
    InputError
        If the file holds no schedule.
    """
    read = _schedule(schedule)
    replay(read)
    return read


def simulate(
    schedule: Result | Schedule | str | Path, size: str | float | Fraction, **options: Any
) -> Simulation:
    """Verify a schedule, and return when each of its messages starts and ends.

    Parameters
    ----------
    schedule
        A `Result`, a `Schedule`, or the path of a schedule file.
    size
        M: a text such as ``"64MB"``, or a number of bytes.
    **options
        ``slices`` (the number of slices into which a flow schedule cuts each message), ``store_and_forward``
        and ``overlap_alpha`` (other rules of networks), ``gamma`` (seconds per byte that a rank reduces), and
        ``congestion`` (the cost of further connections of a switch's port).

    Returns
    -------
    Simulation
        ``time`` in seconds; ``start`` and ``finish``, seconds of each message; ``busy`` and ``bytes``,
        seconds and bytes of each link.

    Raises
    ------
    VerificationError, InputError
        If the schedule is not legal, or the size or an option makes no sense.
    """
    known = [field.name for field in fields(SimulationOptions)]
    unknown = next((name for name in options if name not in known), None)
    if unknown is not None:
        raise InputError(f"simulate: unknown option '{unknown}'{suggestion(unknown, known)}")
    return simulated(verify(schedule), _size(size), SimulationOptions(**options))


def show(
    what: Result | Schedule | Topology | str | Path | nx.Graph,
    size: str | float | Fraction | None = None,
    path: str | Path | None = None,
) -> Page:
    """Show a network drawn, or a schedule played: below a notebook's cell, else in the browser.

    Parameters
    ----------
    what
        A result, a schedule or the path of a file with one, which is verified first; or a network, in any
        form that `topology` takes.
    size
        The size at which a schedule is played. By default it is the size of the result, or the one that the
        schedule was made for, or 1 MB.
    path
        A file to which the page is also written.

    Returns
    -------
    Page
        Its method ``save(path)`` writes the page.

    Raises
    ------
    VerificationError, InputError
        If it is no legal schedule and no network, or the page can't be written.
    """
    from tutti.experiments.show.page import page_of, read_source

    if isinstance(what, Result) and size is None:
        size = what.size
    plugins.load_installed()
    if isinstance(what, Result | Schedule):
        found: Topology | Schedule = verify(what)
    else:
        found = read_source(str(what)) if isinstance(what, str | Path) else topology(what)
    return page_of(found, None if size is None else _size(size)).show(path)


def bound(
    network: Topology | str | Path | nx.Graph,
    kind: str | Collective = "allgather",
    size: str | float | Fraction = "1MB",
    *,
    lp: bool = False,
    **what: Any,
) -> LowerBound:
    """Return the largest lower bound on the time of any schedule.

    Parameters
    ----------
    network, kind, size
        The problem, as in `synthesize`.
    lp
        Whether bounds by linear programs are also computed, as by ``tutti bound --lp``. It can take minutes.
    **what
        ``root``, ``shards``, ``groups`` and ``matrix`` of the collective (see `collective`).

    Returns
    -------
    LowerBound
        Its method ``check()`` recomputes the bound from its certificate alone.

    Raises
    ------
    InputError
        If an argument makes no sense.

    Examples
    --------
    >>> least = bound("ring:8", "allgather", "1MB")
    >>> least.kind, least.check()
    ('first_hop', True)
    """
    where, amount = topology(network), _size(size)
    data = collective(kind, where, **what)
    best = max(lower_bounds(where, data, amount, lp=lp), key=lambda bound: bound.time(amount))
    return LowerBound(best, where, data, amount)


def compare(
    networks: Any,
    kinds: str | Collective | Iterable[str | Collective] = "allgather",
    sizes: str | Iterable[str] = "1MB",
    methods: str | Iterable[str | tuple[str, Mapping[str, Any]]] = "best",
    *,
    seeds: int = 1,
) -> pd.DataFrame:
    """Run methods on all combinations of networks, collectives and sizes, and return one row for each.

    A method that refuses a case, or fails at it, has a row as well; the column ``status`` says so.

    Parameters
    ----------
    networks, kinds, sizes
        One or several of each, in the forms that `synthesize` takes.
    methods
        Names of methods, or pairs of a name and a mapping of options.
    seeds
        The number of seeds that a random method tries. The fastest schedule is kept.

    Returns
    -------
    pandas.DataFrame
        The columns of ``results.csv``, and ``time`` and ``bound`` in seconds.

    Raises
    ------
    InputError
        If an argument makes no sense, before anything is run.

    Examples
    --------
    >>> table = compare("ring:4", "allgather", sizes=["1KB", "1MB"], methods=["ring", "bfb"])
    >>> len(table), table["status"].unique().tolist()
    (4, ['ok'])
    """
    cases = [methods] if isinstance(methods, str) else _several("methods", methods)
    asked = [_with_options(case) for case in cases]
    several = networks if isinstance(networks, list | tuple) else [networks]
    places = [topology(network) for network in several]
    known = {place.name: place for place in places}
    twice = next((place.name for place in places if known[place.name] != place), None)
    if twice is not None:
        raise InputError(f"two networks are named '{twice}'; give each a name of its own")
    every = [kinds] if isinstance(kinds, str | Collective) else _several("kinds", kinds)
    one_size = isinstance(sizes, str | int | float | Fraction)
    bytes_of = [_size(size) for size in ([sizes] if one_size else _several("sizes", sizes))]
    broken = next((size for size in bytes_of if size.denominator != 1), None)
    if broken is not None:
        raise InputError(f"size {broken} B; compare takes whole numbers of bytes")
    counts = tuple(map(int, bytes_of))
    tasks = []
    for place, kind, (name, given) in product(places, every, asked):
        method, problem = find_method(name), Problem(place, collective(kind, place))
        tasks += tasks_of(
            problem, method, {**method.quick, **current_options(method.name, given)}, counts, seeds
        )
    workplace = Workplace(METHODS, topology=known.__getitem__)
    from tutti.experiments.runner.results import to_table  # slow to import

    rows = [row for task in tasks for row in perform(task, workplace).rows]
    frame: pd.DataFrame = to_table(rows).to_pandas()
    frame = frame.assign(time=frame["time_us"] / MICRO, bound=frame["bound_us"] / MICRO)
    return frame[[*FIRST, *(name for name in frame.columns if name not in FIRST)]]


def find(nodes: int, degree: int, *, bidirectional: bool = False) -> pd.DataFrame:
    """Return networks of the catalogue that no other one of the same size beats in both T_L and T_B.

    Parameters
    ----------
    nodes
        The number of ranks.
    degree
        The number of links out of each rank.
    bidirectional
        Whether all links must go both ways.

    Returns
    -------
    pandas.DataFrame
        Columns: ``topology`` (a text), ``nodes``, ``degree``, ``tl_steps``, ``tb_factor`` (a Fraction, in
        units of M/B), ``exact`` (whether both are exact, or upper bounds), ``bidirectional``. T_L grows and
        T_B falls.

    Raises
    ------
    InputError
        If there is no such network.

    Examples
    --------
    >>> find(8, 4)["topology"].tolist()
    ['K_{4,4}']
    """
    import pandas as pd

    from tutti.expansions.finder import Finder

    for name, number in (("nodes", nodes), ("degree", degree)):
        if not isinstance(number, int | np.integer) or isinstance(number, bool):
            raise InputError(f"find: {name} is {number!r}; it is a whole number")
    return pd.DataFrame(
        {
            "topology": str(candidate.expression),
            "nodes": candidate.cost.nodes,
            "degree": candidate.cost.degree,
            "tl_steps": candidate.cost.tl,
            "tb_factor": candidate.cost.tb,
            "exact": candidate.cost.exact,
            "bidirectional": candidate.cost.bidirectional,
        }
        for candidate in Finder(bidirectional=bidirectional).find(nodes, degree)
    )


def methods() -> pd.DataFrame:
    """Return a table of all methods, those of plug-ins included.

    Returns
    -------
    pandas.DataFrame
        Columns: ``name``, ``kind``, ``exact_for`` (the sense in which an exact method is optimal),
        ``summary``, ``collectives``, ``seeded`` (whether it is random) and ``options``.
    """
    import pandas as pd

    plugins.load_installed()
    return pd.DataFrame(
        {
            "name": method.name,
            "kind": method.kind,
            "exact_for": method.exactness(method.options()),
            "summary": method.summary,
            "collectives": ", ".join(map(str, sorted(method.capabilities.collectives))),
            "seeded": method.seeded,
            "options": ", ".join(field.name for field in fields(method.options)),
        }
        for method in METHODS.values()
    )


def register(plugin: Any, *, replace: bool = False) -> None:
    """Register a method, family of networks, bound or solver of your own by its name (docs/plugins.md).

    Parameters
    ----------
    plugin
        A `schedules.Method`, `topologies.Family`, `models.bounds.BoundKind` or `models.solvers.Backend`, or
        the path of a Python file with some of these.
    replace
        Whether it may replace an earlier plug-in of the same name, for example when a cell of a notebook is
        run again. tutti's own names cannot be replaced.

    Raises
    ------
    InputError
        If it is none of these, is incomplete, or its name is taken. The message names the line of a fault in
        the file.
    """
    if isinstance(plugin, str | Path):
        plugins.load(plugin, replace=replace)
    else:
        plugins.register(plugin, replace=replace)


def _schedule(given: Result | Schedule | str | Path) -> Schedule:
    if isinstance(given, Result):
        return given.schedule
    if isinstance(given, Schedule):
        return given
    if not isinstance(given, str | Path):
        what = type(given).__name__
        raise InputError(f"{what} is no schedule; give a Result, a Schedule or the path of a file")
    return read_schedule(Path(given))


def _several(name: str, given: Any) -> list[Any]:
    if not isinstance(given, Iterable):
        raise InputError(f"compare: {name} is {given!r}; give one, or a list of them")
    return list(given)


def _with_options(case: Any) -> tuple[str, Mapping[str, Any]]:
    """Return the name of a method and its options."""
    if isinstance(case, str):
        return case, {}
    pair = isinstance(case, tuple | list) and len(case) == 2
    if not (pair and isinstance(case[0], str) and isinstance(case[1], Mapping)):
        raise InputError(f"compare: method {case!r}; it is a name, or a pair of a name and options")
    return case[0], case[1]


def _size(given: Any) -> Fraction:
    try:
        size = parse_size(given) if isinstance(given, str) else Fraction(operator.index(given))
    except TypeError:
        if not isinstance(given, float | Fraction | np.floating):
            raise InputError(f"size {given!r}; it is a text such as '1MB', or a number of bytes") from None
        size = given if isinstance(given, Fraction) else exact_number(repr(float(given)))
    return checked_size(size, given)
