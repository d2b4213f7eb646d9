"""Random problems, and what becomes of a method on one: a schedule that holds, its own refusal, or a fault.

A case is its seed: that draws a method, a small network of any family (uneven, with failures, with ranks left
out), a collective (in groups, of uneven shards, several kinds at once), a size and options. What the method
declares that it supports, it must do, or refuse by an error of its own, in time; `best` must do it where any
method does. A long run prints the seeds that fail and goes on:

    python -m tests.random_problems --cases 10000 --seed 1
"""

from __future__ import annotations

import argparse
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from tutti.experiments.methods.best import ORDER
from tutti.experiments.registry import METHODS
from tutti.models.bounds import best_bound
from tutti.schedules import KINDS, Problem, Schedule, groups
from tutti.schedules.capabilities import Groups, Shape
from tutti.schedules.collective import Collective, Kind, collective, concurrent
from tutti.schedules.method import Method
from tutti.schedules.simulation.simulate import best_slices
from tutti.schedules.verify import VerificationError, verify
from tutti.topologies import InputError, Link, NoSchedule, Topology, Unsupported, parse_topology
from tutti.topologies.errors import TuttiError
from tutti.topologies.exact import Rationals
from tutti.topologies.options import Choice, Flag, Whole, _ranges
from tutti.topologies.processes import CallEnd, Caller, Worker
from tutti.topologies.text import FAMILIES
from tutti.topologies.transforms import without

MOST_RANKS, MOST_BASE = 12, 48
"""Of a network, and of one of which ranks are left out."""
DRAWS = 60
"""Of a problem that a method supports, or of the arguments of a family."""
SECONDS, SLACK, HANGING = 0.5, 30.0, 120.0
"""The limit of methods that have one, what they may take beyond it on a busy machine, and when to kill."""
BANDWIDTHS = ("1GB/s", "2GB/s", "3GB/s", "7GB/s", "12.5GB/s", "25GB/s", "50GB/s", "400GB/s", "123456789B/s")
ALPHAS = ("0us", "1ns", "0.5us", "1us", "3.3us", "10us")
SIZES = (1, 7, 1000, 2**10, 12345, 10**6, 2**20, 10**8 + 7, 10**9)
NOTATIONS = (
    *("K_2", "K_4", "K_{2,2}", "UniRing(1,3)", "UniRing(2,3)", "BiRing(2,5)", "BiRing(4,3)", "C(5,{1,2})"),
    *("Pi_{2,5}", "DBJ(2,2)", "DiCirculant(2)", "Diamond", "L(K_3)", "L(UniRing(2,2))", "L(K_{2,2})"),
    *("K_2 x K_3", "UniRing(1,3) x K_2", "BiRing(2,3)^2", "(K_2)^3", "Bi(L(K_3))", "K_2 * 3"),
    "L(K_2 x UniRing(1,3))",
)
FITTING = {
    Shape.GRID: ("torus", "mesh", "hypercube", "switch2d", "rfs", "dgx_a100", "dgx_h100", "fat_tree"),
    Shape.TORUS: ("torus", "mesh"),
    Shape.EVEN_TORUS: ("torus", "hypercube"),
    Shape.MESH: ("mesh",),
    Shape.CIRCULANT: ("circulant", "least_circulant", "ring"),
    Shape.HOSTS: ("dgx_a100", "dgx_h100", "switch2d", "rail_only", "rail_spine", "ndv2"),
    Shape.ONE_HOST: ("dgx_a100", "dgx_h100", "dgx1", "switch2d", "rail_only", "rail_spine", "ndv2"),
    Shape.PLANES: ("dgx_a100", "dgx_h100", "switch2d", "rail_only", "rail_spine", "torus_of_boxes"),
    Shape.SHARP: ("dgx_h100", "gb200_nvl72", "switch2d", "fat_tree"),
    Shape.DGX1: ("dgx1",),
    Shape.NOTATION: (),
    Shape.ANY: (),
}
"""Families that often have a shape."""
OFTEN = tuple(
    name for name, m in METHODS.items() for _ in range(1 + 2 * (m.capabilities.groups is Groups.ANY))
)
"""Methods that do groups have more to get wrong."""
GOOD = {"verified", "refused", "Unsupported", "NoSchedule", "InputError"}
"""Refused: before anything is made."""


@dataclass(frozen=True)
class Case:
    """What a seed stands for; `options` are those given."""

    seed: int
    name: str
    problem: Problem
    given: dict[str, Any]

    def __str__(self) -> str:
        what, size = self.problem.collective, self.problem.size
        return f"{self.name} {self.given} on {self.problem.topology.name}: {what}, {size} B"


@dataclass(frozen=True)
class Result:
    """What became of a case."""

    name: str
    outcome: str
    seconds: float
    text: str


def drawn(seed: int, names: Sequence[str] = OFTEN) -> Case:
    """Return the case of a seed: of several problems the first that its method supports, if one is."""
    rng = np.random.default_rng(seed)
    name = _one(rng, names)
    method = METHODS[name]
    for _ in range(DRAWS):
        topology = network(rng, FITTING[method.capabilities.shape] if rng.random() < 0.7 else ())
        kinds = [kind for kind in method.capabilities.collectives if kind is not Kind.MIXED]
        mixed = Kind.MIXED in method.capabilities.collectives and rng.random() < 0.2
        what = several(topology.num_ranks, rng) if mixed else asked(_one(rng, kinds), topology.num_ranks, rng)
        case = Case(seed, name, Problem(topology, what, Fraction(_one(rng, SIZES))), options(method, rng))
        try:
            method.supports(case.problem, limited(method, case.given))
        except TuttiError:
            continue
        break
    return case


def _one(rng: np.random.Generator, choices: Sequence[Any]) -> Any:
    return choices[int(rng.integers(len(choices)))]


def limited(method: Method, given: dict[str, Any]) -> Any:
    return groups.limited(method.options(**given), SECONDS)


def options(method: Method, rng: np.random.Generator) -> dict[str, Any]:
    """Return options in their ranges; mostly the defaults."""
    given = {}
    for name, (range_, _) in _ranges(method.options).items():
        if rng.random() > 0.15:
            continue
        if isinstance(range_, Flag):
            given[name] = bool(rng.integers(2))
        if isinstance(range_, Choice):
            given[name] = str(_one(rng, list(range_.allowed)))
        if isinstance(range_, Whole):
            given[name] = range_.least + int(rng.integers(3))
    try:
        method.options(**given)
    except TuttiError:
        return {}
    return given


def network(rng: np.random.Generator, families: Sequence[str] = ()) -> Topology:
    """Return a network of 2 to `MOST_RANKS` ranks, of one of these families if any are given."""
    while True:
        kind = rng.random()
        try:
            if families or kind < 0.7:
                made = of_family(_one(rng, families or list(FAMILIES)), rng)
            else:
                made = circles(rng) if kind < 0.85 else parse_topology(_one(rng, NOTATIONS))
            made = with_failures(made, rng)
            made = uneven(made, rng) if rng.random() < 0.3 else made
        except InputError:
            continue
        if 2 <= made.num_ranks <= MOST_RANKS:
            return made


def of_family(name: str, rng: np.random.Generator) -> Topology:
    """Return a network of a family: random arguments, bandwidths and α, or its example's."""
    family = FAMILIES[name]
    least, most = family.arguments
    for _ in range(10 * DRAWS):
        count = int(rng.integers(least, (least + 2 if most is None else most) + 1))
        numbers = [str(rng.integers(1, 2 + rng.integers(1, 9))) for _ in range(count)]
        try:
            made = parse_topology(name + ":" * bool(numbers) + family.separator.join(numbers) + _keys(rng))
        except InputError:
            continue
        if made.num_ranks <= MOST_BASE:
            return made
    return parse_topology(family.example)


def _keys(rng: np.random.Generator) -> str:
    pools = {"bandwidth": BANDWIDTHS, "alpha": ALPHAS}
    keys = [
        f"{key}={','.join(_one(rng, pool) for _ in range(rng.integers(1, 4)))}"
        for key, pool in pools.items()
        if rng.random() < 0.3
    ]
    keys += ["links=2"] if rng.random() < 0.1 else []
    keys += ["switches=sharp"] if rng.random() < 0.1 else []
    return "?" * bool(keys) + "&".join(keys)


def circles(rng: np.random.Generator) -> Topology:
    """Return links through all ranks and switches in a circle, and others through some, perhaps both ways."""
    ranks, switches = int(rng.integers(2, 8)), int(rng.integers(0, 3))
    ends = []
    for number in range(int(rng.integers(1, 5))):
        circle = rng.permutation(ranks + switches)
        circle = circle if number == 0 else circle[: rng.integers(2, len(circle) + 1)]
        ends += zip(circle.tolist(), np.roll(circle, 1).tolist(), strict=True)
    if rng.random() < 0.5:
        ends += [(head, tail) for tail, head in ends]
    if rng.random() < 0.8:
        ends = list(dict.fromkeys(ends))
    able = [node for node in range(ranks, ranks + switches) if rng.random() < 0.3]
    return Topology.from_links(
        "circles",
        ranks,
        [Link(*pair) for pair in ends],
        num_switches=switches,
        multicast=able,
        aggregate=able,
    )


def with_failures(made: Topology, rng: np.random.Generator) -> Topology:
    """Return a connected part of a network with too many ranks; of another perhaps without a few links."""
    if made.num_ranks > MOST_RANKS or rng.random() < 0.15:
        kept = _around(made, int(rng.integers(2, 1 + min(MOST_RANKS, made.num_ranks))), rng)
        gone = [rank for rank in range(made.num_ranks) if rank not in kept]
        labels = ",".join(made.labels[rank] for rank in gone)
        sign = "&" if "?" in made.name else "?"
        made = without(made, nodes=gone, name=f"{made.name}{sign}drop_nodes={labels}") if gone else made
    if rng.random() < 0.2:
        gone = rng.choice(made.num_links, int(rng.integers(1, 3))).tolist()
        made = without(made, links=gone, name=f"{made.name} without links {gone}")
    return made


def _around(made: Topology, count: int, rng: np.random.Generator) -> set[int]:
    """Return so many ranks near to each other."""
    order = [int(rng.integers(made.num_ranks))]
    for node in order:
        far = [*made.target[made.source == node].tolist(), *made.source[made.target == node].tolist()]
        order += [other for other in dict.fromkeys(rng.permutation(far).tolist()) if other not in order]
    return set([node for node in order if node < made.num_ranks][:count])


def uneven(made: Topology, rng: np.random.Generator) -> Topology:
    """Return the network with random bandwidths and α; perhaps those of a link and its reverse are equal."""
    speeds = [10**9, 2 * 10**9, 3 * 10**9, 50 * 10**9] + [123456789] * (rng.random() < 0.15)
    pools = [[Fraction(b) for b in speeds], [Fraction(a, 10**9) for a in (0, 1, 500, 500, 10000)]]
    both = rng.random() < 0.6
    pairs = zip(made.source.tolist(), made.target.tolist(), strict=True)
    keys = [(min(pair), max(pair)) if both else number for number, pair in enumerate(pairs)]
    columns = []
    for pool in pools:
        of = {key: _one(rng, pool) for key in dict.fromkeys(keys)}
        columns.append(Rationals.of(of[key] for key in keys))
    return replace(made, name=f"uneven {made.name}", bandwidth=columns[0], alpha=columns[1], expression=None)


def asked(kind: Kind, ranks: int, rng: np.random.Generator) -> Collective:
    """Return a collective: of all ranks, of some or in groups, with equal or other shards."""
    groups = _groups(ranks, rng) if rng.random() < 0.5 else None
    return _of(kind, ranks, groups, rng)


def _of(kind: Kind, ranks: int, groups: list[list[int]] | None, rng: np.random.Generator) -> Collective:
    sizes = {len(group) for group in groups} if groups else {ranks}
    root = int(rng.integers(min(sizes))) if kind.rooted else None
    shards = None
    if kind not in (Kind.BROADCAST, Kind.REDUCE) and len(sizes) == 1 and rng.random() < 0.25:
        shards = rng.integers(0, 4, size=min(sizes)).tolist()
        shards[int(rng.integers(len(shards)))] += 1
    return collective(kind, ranks, root=root, shards=shards, groups=groups)


def _groups(ranks: int, rng: np.random.Generator, least: int = 1) -> list[list[int]] | None:
    """Return disjoint groups of at least two ranks, at least so many of them; None if there are too few."""
    if ranks < 2 * least:
        return None
    count = int(rng.integers(least, max(least, ranks // 2) + 1))
    size = int(rng.integers(2, ranks // count + 1))
    order = rng.permutation(ranks).tolist()
    groups = [order[i * size : (i + 1) * size] for i in range(count)]
    if rng.random() < 0.4:  # of unlike sizes
        groups[-1] += order[count * size :][: int(rng.integers(3))]
    return groups


def several(ranks: int, rng: np.random.Generator) -> Collective:
    """Return several kinds at once, or one where there are too few ranks."""
    groups = _groups(ranks, rng, least=2)
    if groups is None:
        return asked(_one(rng, KINDS), ranks, rng)
    return concurrent([_of(_one(rng, KINDS), ranks, [group], rng) for group in groups[:3]])


def attempt(case: Case) -> Result:
    """Return what becomes of a case. One that takes too long is given a second try: kernels compile once."""
    result = _attempt(case)
    return _attempt(case) if result.outcome == "late" else result


def _attempt(case: Case) -> Result:
    began = time.monotonic()
    try:
        outcome, text = _outcome(case)
    except VerificationError as error:
        outcome, text = "illegal", str(error)
    except (Unsupported, NoSchedule, InputError) as error:
        outcome, text = type(error).__name__, str(error)
    except Exception as error:  # noqa: BLE001 (that is what is looked for)
        where = traceback.extract_tb(error.__traceback__)[-1]
        outcome, text = "fault", f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})"
    seconds = time.monotonic() - began
    if outcome in GOOD and seconds > SECONDS + SLACK:
        outcome, text = "late", f"{seconds:.1f} s, {outcome} {text}"
    return Result(case.name, outcome, seconds, text)


def _outcome(case: Case) -> tuple[str, str]:
    method = METHODS[case.name]
    own = limited(method, case.given)
    try:
        method.supports(case.problem, own)
    except Unsupported as error:
        return "refused", str(error)
    try:
        schedule = method.synthesize(case.problem, own, np.random.default_rng(case.seed))
    except TuttiError as error:
        able = (name for name in ORDER if case.name == "best" and _does(replace(case, name=name, given={})))
        name = next(able, None)
        if name is None:
            raise
        return "fault", f"{name} has one; {error}"
    verify(schedule)
    return _judged(schedule, case.problem)


def _does(case: Case) -> bool:
    return _attempt(case).outcome == "verified"


def _judged(schedule: Schedule, problem: Problem) -> tuple[str, str]:
    """Return what a verified schedule is found to be."""
    if schedule.topology != problem.topology or schedule.collective != problem.collective:
        return "fault", f"a schedule of {schedule.collective} on {schedule.topology.name}"
    seconds = best_slices(schedule, problem.size or Fraction(1))[1]
    bound = best_bound(problem.topology, problem.collective, problem.size)
    least = float(bound.time(problem.size or Fraction(1)))
    if seconds < least * (1 - 1e-9):
        return "too fast", f"{seconds} s, and the bound {bound.kind} is {least} s"
    return "verified", ""


def serve(caller: Caller) -> None:
    """Be the process in which a long run's cases are tried, so that one that hangs can be killed."""

    def perform(seed: int) -> Result:
        caller.start_clock()
        return attempt(drawn(seed))

    caller.serve(perform)


def run(seeds: Sequence[int], say: Callable[[str], None] = print) -> Counter[tuple[str, str]]:
    """Try the cases of these seeds, print those that fail, and return how often each method ended how."""
    counts: Counter[tuple[str, str]] = Counter()
    spent: Counter[str] = Counter()
    worker = Worker.fresh("tests.random_problems:serve")
    try:
        for done, seed in enumerate(seeds, 1):
            worker.give(seed, HANGING)
            ended = worker.finish()
            result = ended.answer
            if ended.how is not CallEnd.ANSWER:
                result = Result(drawn(seed).name, "killed", ended.seconds, f"{ended.how}, {ended.cause}")
                worker = Worker.fresh("tests.random_problems:serve")
            counts[result.name, result.outcome] += 1
            spent[result.name] += result.seconds
            if result.outcome not in GOOD:
                say(f"seed {seed}: {result.outcome}: {result.text}\n    {drawn(seed)}")
            if done % 500 == 0:
                say(f"{done} cases; the next seed is {seed + 1}")
    except KeyboardInterrupt:
        say(f"ended before seed {seed}")
    finally:
        worker.end(1.0)
    _say_counts(counts, spent, say)
    return counts


def _say_counts(counts: Counter[tuple[str, str]], spent: Counter[str], say: Callable[[str], None]) -> None:
    outcomes = sorted({outcome for _, outcome in counts}, key=lambda outcome: (outcome not in GOOD, outcome))
    say("".join(f"{word:>20}" for word in ["method", *outcomes, "seconds"]))
    for name in METHODS:
        numbers = [counts[name, outcome] for outcome in outcomes]
        say("".join(f"{cell:>20}" for cell in [name, *numbers, f"{spent[name]:.1f}"]))


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.random_problems", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1, help="the first; each case has the next")
    given = parser.parse_args()
    counts = run(range(given.seed, given.seed + given.cases), lambda text: print(text, flush=True))  # noqa: T201
    raise SystemExit(any(outcome not in GOOD for _, outcome in counts))


if __name__ == "__main__":
    main()
