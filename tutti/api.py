"""The public names of `tutti`, wired from parts that are public as well.

Every function takes a network as a text (``"dgx_a100:2"``), a path, a networkx graph or a `Topology`, and a
size as a text or a number of bytes. Times are seconds, bandwidths bytes a second. No other module of the
package imports this one.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
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
        ``bandwidth`` and ``alpha``, nodes ``kind`` and ``host``),
        or a topology.

    Raises
    ------
    InputError
        If it is none of these, or no network.
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
        As of `topology`.
    root, shards, groups
        The root of the last four; relative sizes of uneven shards; groups of ranks, each of which does it.
    matrix
        Of an all-to-all: what each rank sends to each, a square array of bytes, or a text: the name of a
        .csv or .npy file, ``"random?seed=1"``, ``"zipf:1.2"``, ``"hot:0.5"``, ``"block:8:0.5"``.

    Raises
    ------
    InputError
        If they do not fit each other.
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
    """Return a verified schedule, its time, and how far that is from what is proven.

    Parameters
    ----------
    network, kind, root, shards, groups, matrix
        As of `topology` and `collective`.
    size
        M: a text such as ``"64MB"``, or bytes; None: the largest row of a matrix of bytes, else 1 MB.
    method
        One of `methods`; ``"best"`` tries all that are sensible, for ten seconds unless `options` says
        otherwise (``time_limit="1min"``).
    seeds
        Of how many tries the best is kept, where the method is random.
    options
        Of the method.

    Raises
    ------
    InputError
        For what makes no sense; the message says what does.
    Unsupported, NoSchedule
        Where the method does not do that, or finds nothing.
    Interrupted
        A KeyboardInterrupt, if Ctrl-C stopped it when there was a schedule. The result for the best one is in
        ``found``.
    """
    where, how = topology(network), find_method(method)
    what = collective(kind, where, root=root, shards=shards, groups=groups, matrix=matrix)
    given = {**how.quick, **current_options(how.name, options)}
    chosen = build_options(how, given)
    count = _size((what.own_size or "1MB") if size is None else size)
    problem = Problem(where, what)
    if how.size_dependent(problem, chosen):
        problem = replace(problem, size=count)
    exact_for = how.exactness(chosen, problem)
    try:
        made = synthesize_best(how, problem, chosen, first_seeds(how, seeds), count)
    except Interrupted as stop:
        found = Result.of(stop.found, count, how.name, options_text(given), exact_for=exact_for)
        raise Interrupted(found) from stop
    return Result.of(made, count, how.name, options_text(given), exact_for=exact_for)


def verify(schedule: Result | Schedule | str | Path) -> Schedule:
    """Replay a schedule, or one in a file, and return it.

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
    """Return when each message of a schedule starts and ends; it is verified first.

    Parameters
    ----------
    schedule, size
        As of `verify` and `synthesize`.
    options
        ``slices``, ``store_and_forward``, ``overlap_alpha``, ``gamma``, ``congestion``
        (`schedules.simulation.simulate.SimulationOptions`).

    Raises
    ------
    VerificationError, InputError
        As `verify`; for a size that is none.
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
        A result or a schedule, or the path of a file with one, which is verified first; or a network, as of
        `topology`.
    size
        Of a schedule, as of `synthesize`; by default a result's, that which it was made for, or 1 MB.
    path
        Where to write the page too.

    Returns
    -------
    Page
        With ``save(path)``.

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
    """Return the largest lower bound on the time of any schedule; ``check()`` recomputes its certificate.

    Parameters
    ----------
    network, kind, size
        As of `synthesize`.
    lp
        Whether linear programs are asked, too, as ``tutti bound --lp`` does: for up to minutes.
    what
        ``root``, ``shards``, ``groups``.

    Raises
    ------
    InputError
        As `synthesize`.
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
    """Return one row a case, with the columns of an experiment's ``results.csv``.

    Besides, ``time`` and ``bound`` in seconds. What a method refuses or fails at is a row too, whose
    ``status`` says so.

    Parameters
    ----------
    networks, kinds, sizes
        One or several, as of `synthesize`.
    methods
        Names, or pairs of a name and its options.
    seeds
        As of `synthesize`.

    Raises
    ------
    InputError
        For what makes no sense, before anything is run.
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
    """Return the Pareto frontier of the networks of so many nodes and ports: T_L growing, T_B falling.

    Columns: ``topology`` (a text), ``nodes``, ``degree``, ``tl_steps``, ``tb_factor`` (a Fraction, in M/B),
    ``exact`` (whether they are proven, or at most so large), ``bidirectional``.

    Raises
    ------
    InputError
        If there is no such network.
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
    """Return the methods: name, kind, the sense in which one is exact, summary, collectives, and options."""
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
    """Make a method, family of networks, bound or solver of one's own known by its name (docs/plugins.md).

    Parameters
    ----------
    plugin
        A `schedules.Method`, `topologies.Family`, `models.bounds.BoundKind` or `models.solvers.Backend`, or
        the path of a Python file with some of these.
    replace
        Whether it may take the place of what was registered under its name before, as when a cell of a
        notebook is run again or the file was edited; tutti's own names are never given away.

    Raises
    ------
    InputError
        If it is none of these, is not whole, or its name is taken; naming the line of a fault in the file.
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
