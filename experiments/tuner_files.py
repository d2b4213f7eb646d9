"""Files of tuners: which of a runtime's own algorithms it takes at which size, on the ranks of a network.

``nccl-tuner`` is the CSV of the example in NCCL's repository, which that plug-in loads (``plugins/tuner``): a
line a range of sizes with algorithm and protocol, of NCCL's own model or of the simulator. ``ompi-rules`` is
the file of dynamic rules of Open MPI's component ``tuned``, whose algorithms are made as schedules and
simulated. Sizes are those of M, as both runtimes count them. A range of the model ends at the byte where its
choice changes, one of the simulator where the lines of two neighbours through their times cross.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from tutti.experiments.registry import find_method
from tutti.experiments.tuning import Tuning, choose
from tutti.heuristics.nccl.constants import VERSION
from tutti.heuristics.nccl.machine import NcclOptions
from tutti.heuristics.nccl.method import METHOD, found, reckoned
from tutti.heuristics.nccl.model import KINDS, jumps
from tutti.schedules.collective import Collective, Kind
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Schedule
from tutti.schedules.simulation.pipelining import best_slices
from tutti.schedules.verify import verify
from tutti.topologies.errors import InputError
from tutti.topologies.exact import INT64_MAX, FloatArray
from tutti.topologies.options import Choice, Options
from tutti.topologies.topology import Topology

MODEL, SIMULATOR = "model", "simulator"


class TunerRule(NamedTuple):
    """What to take for M of `low` to `high` bytes: algorithm and protocol, or its number and name."""

    low: int
    high: int
    takes: tuple[str, str]


@dataclass(frozen=True)
class NcclTunerOptions(NcclOptions):
    """Options of NCCL's tuner file.

    Parameters
    ----------
    by
        Whose times count: of NCCL's model, or of the simulator, which says nothing of protocols: there an
        algorithm's is the model's.

    Raises
    ------
    InputError
        As `NcclOptions`, and if `by` is neither.
    """

    OWNER: ClassVar[str] = "nccl-tuner"

    by: Annotated[str, Choice((MODEL, SIMULATOR))] = MODEL


@dataclass(frozen=True)
class OmpiRulesOptions(Options):
    """Options of Open MPI's rules; there are none."""

    OWNER: ClassVar[str] = "ompi-rules"


class Ompi(NamedTuple):
    """A collective's number in Open MPI, and for numbers of its algorithms the method that makes the same."""

    number: int
    algorithms: Mapping[int, tuple[str, Mapping[str, Any]]]


ONE_WAY = {"one_way": True}
OMPI: Mapping[Kind, Ompi] = {
    Kind.ALLGATHER: Ompi(0, {2: ("bruck", {}), 3: ("rhd", {}), 4: ("ring", ONE_WAY)}),
    Kind.ALLREDUCE: Ompi(2, {3: ("recursive_doubling", {}), 4: ("ring", ONE_WAY), 6: ("rhd", {})}),
    Kind.ALL_TO_ALL: Ompi(3, {1: ("direct", {}), 2: ("pairwise", {}), 3: ("bruck", {})}),
    Kind.REDUCE_SCATTER: Ompi(12, {2: ("rhd", {}), 3: ("ring", ONE_WAY)}),
}


@dataclass(frozen=True)
class TunerFormat:
    """A format of rules.

    Parameters
    ----------
    name, file
        As ``--format`` has it, and the file that is written.
    options
        The class of its options.
    rules
        ``(topology, collective, sizes, options) -> rules``.
    lines
        ``(topology, collective, rules, options) -> the file's lines``.
    notes
        ``(topology, collective, options) -> what is assumed or left out``, for the reader and the file.
    loader
        What the environment must have for a runtime to load the file of that name.
    """

    name: str
    file: str
    options: type[Any]
    rules: Callable[[Topology, Collective, Sequence[int], Any], list[TunerRule]]
    lines: Callable[[Topology, Collective, Sequence[TunerRule], Any], Iterator[str]]
    notes: Callable[[Topology, Collective, Any], list[str]]
    loader: str


def nccl_rules(
    topology: Topology, what: Collective, sizes: Sequence[int], options: NcclTunerOptions
) -> list[TunerRule]:
    """Return what NCCL should take at which size.

    Raises
    ------
    Unsupported
        If NCCL has no such collective, or the network no hosts, or the options leave nothing.
    """
    METHOD.supports(Problem(topology, what), options)
    cluster = found(topology, options)[-1]
    if options.by == MODEL:

        def takes(size: int) -> tuple[str, str]:
            least = min(reckoned(cluster, what.kind, Fraction(size), options), key=lambda one: one.micros)
            return str(least.algorithm), str(least.protocol)

        return _exact_ranges(takes, sizes, jumps(cluster))
    asked = [reckoned(cluster, what.kind, Fraction(size), options) for size in sizes]
    pairs = [(str(one.algorithm), str(one.protocol)) for one in asked[0]]
    times = np.array([[one.micros for one in row] for row in asked]).T
    for algorithm in dict(pairs):
        own = [place for place, pair in enumerate(pairs) if pair[0] == algorithm]
        given = replace(options, algorithm=algorithm, protocol=None)
        times[own] *= _seconds(topology, what, sizes, METHOD, given) / times[own].min(axis=0)
    return _ranges(sizes, times, pairs)


def nccl_lines(
    topology: Topology, what: Collective, rules: Sequence[TunerRule], options: NcclTunerOptions
) -> Iterator[str]:
    """Yield the lines of the CSV.

    The collective's name has no hyphen there. With 0 channels NCCL chooses; with -1 the plug-in sets one.
    """
    cluster = found(topology, options)[-1]
    yield from (f"# {note}" for note in nccl_notes(topology, what, options))
    yield "# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks"
    for rule in rules:
        size = f"{rule.low},{rule.high}"
        ranks = f"{cluster.hosts},{cluster.ranks}"
        yield f"{what.kind.replace('-', '')},{size},{','.join(rule.takes)},0,{ranks}"


def nccl_notes(topology: Topology, what: Collective, options: NcclTunerOptions) -> list[str]:
    """Return notes: whose times decide, what is assumed of the machine, and what the file does not cover."""
    whose = "its model" if options.by == MODEL else "simulated schedules"
    others = ", ".join(kind for kind in KINDS if kind is not what.kind)
    return [
        f"NCCL {VERSION}, by {whose}",
        f"assumed: {found(topology, options)[-1]}",
        f"the plug-in gives one channel to what has no line: add lines for {others}",
    ]


def ompi_rules(
    topology: Topology, what: Collective, sizes: Sequence[int], options: OmpiRulesOptions
) -> list[TunerRule]:
    """Return which of Open MPI's algorithms is the fastest at which size, by simulated schedules.

    Raises
    ------
    InputError
        If there is no such collective, or no algorithm for the network.
    """
    if what.kind not in OMPI:
        raise InputError(f"format 'ompi-rules' has {', '.join(OMPI)}; not {what.kind}")
    times, numbers = [], []
    for number, (name, given) in OMPI[what.kind].algorithms.items():
        method = find_method(name)
        made = method.options(**given)
        if not method.refusal(Problem(topology, what), made):
            times.append(_seconds(topology, what, sizes, method, made))
            numbers.append((str(number), name))
    if not times:
        reasons = "; ".join(ompi_notes(topology, what, options))
        raise InputError(f"format 'ompi-rules' has no algorithm: {reasons}")
    return _ranges(sizes, np.array(times), numbers)


def ompi_notes(topology: Topology, what: Collective, options: OmpiRulesOptions) -> list[str]:
    """Return which algorithms are left out, as there is no schedule of them."""
    left_out = []
    for number, (name, given) in OMPI[what.kind].algorithms.items():
        method = find_method(name)
        if reason := method.refusal(Problem(topology, what), method.options(**given)):
            left_out.append(f"without {number}: {reason}")
    return left_out


def ompi_lines(
    topology: Topology, what: Collective, rules: Sequence[TunerRule], options: OmpiRulesOptions
) -> Iterator[str]:
    """Yield the lines of the rules: of one collective on one number of ranks."""
    yield "1  # collectives"
    yield f"{OMPI[what.kind].number}  # {what.kind}"
    yield "1  # numbers of ranks"
    yield f"{topology.num_ranks}  # ranks"
    yield f"{len(rules)}  # sizes from which on: algorithm, fan-out, bytes of a segment"
    for rule in rules:
        yield f"{rule.low} {rule.takes[0]} 0 0  # {rule.takes[1]}"
    yield from (f"# {note}" for note in ompi_notes(topology, what, options))


def _exact_ranges(
    takes: Callable[[int], tuple[str, str]], sizes: Sequence[int], jumps: Sequence[int]
) -> list[TunerRule]:
    """Return what is taken, by the byte from the first size to the last.

    From one jump to the next times are linear in the size, so that the fastest at both ends is so between.
    """
    first, last = sizes[0], sizes[-1]
    within = {edge for jump in jumps if first < jump <= last for edge in (jump - 1, jump)}
    edges = sorted({first, last, *within})
    starts = [change for low, high in pairwise(edges) for change in _changes(takes, low, high)]
    lows, highs = [0, *starts], [*(start - 1 for start in starts), INT64_MAX]
    return [TunerRule(low, high, takes(max(low, first))) for low, high in zip(lows, highs, strict=True)]


def _changes(takes: Callable[[int], tuple[str, str]], low: int, high: int) -> Iterator[int]:
    """Yield the sizes up to `high` from which on something else is taken, from `low` on."""
    if takes(low) == takes(high):
        return
    middle = (low + high) // 2
    if middle == low:
        yield high
        return
    yield from _changes(takes, low, middle)
    yield from _changes(takes, middle, high)


def _ranges(sizes: Sequence[int], times: FloatArray, takes: Sequence[tuple[str, str]]) -> list[TunerRule]:
    """Return the fastest at each size, those of neighbouring sizes as one."""
    winners = list(choose(times, len(sizes)))
    tuning = Tuning(np.array(sizes), [], times, np.zeros(len(sizes)), winners)
    rules = []
    for winner in winners:
        low, below = tuning.limits(winner)
        rules.append(TunerRule(low, INT64_MAX if below is None else below - 1, takes[winner.candidate]))
    return rules


def _seconds(
    topology: Topology, what: Collective, sizes: Sequence[int], method: Method, options: Any
) -> FloatArray:
    """Return the simulated time of a method's verified schedules at all sizes."""
    made: dict[Fraction | None, Schedule] = {}
    times = []
    for size in map(Fraction, sizes):
        problem = Problem(topology, what, size)
        key = size if method.size_dependent(problem, options) else None
        if key not in made:
            method.supports(problem, options)
            made[key] = method.synthesize(problem, options, np.random.default_rng(0))
            verify(made[key])
        times.append(best_slices(made[key], size)[1])
    return np.array(times)


_NCCL = "NCCL_TUNER_PLUGIN=libnccl-tuner-example.so NCCL_TUNER_CONFIG_FILE={}"
_OMPI = "OMPI_MCA_coll_tuned_use_dynamic_rules=1 OMPI_MCA_coll_tuned_dynamic_rules_filename={}"
_FORMATS = (
    TunerFormat("nccl-tuner", "nccl_tuner.conf", NcclTunerOptions, nccl_rules, nccl_lines, nccl_notes, _NCCL),
    TunerFormat("ompi-rules", "ompi_rules.conf", OmpiRulesOptions, ompi_rules, ompi_lines, ompi_notes, _OMPI),
)
TUNERS: Mapping[str, TunerFormat] = {form.name: form for form in _FORMATS}
