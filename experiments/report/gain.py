"""What an allreduce gains over a reduce-scatter followed by an allgather, each at its best: two bars.

Reduce-scatter and allgather take at least their bottleneck cuts' times, one after the other. An allreduce
takes the optimum of linear program (B.5), or at least the partition bound: ``docs/allreduce.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from markupsafe import Markup

from experiments.report.svg import Frame, Scale, group, linear, tag
from experiments.report.text import number
from models.allreduce.bound import TREES
from models.bounds import Bound, best_bound
from schedules.collective import Collective, Kind, collective
from topologies.topology import Topology

MOST_RANKS = 64
BAR = 26.0
THICK = 13.0
NAMES = 168.0
GIGA = 10**9


@dataclass(frozen=True)
class Gain:
    """Least times in s/B of M.

    Parameters
    ----------
    halves
        Of a reduce-scatter and then an allgather.
    whole
        Of an allreduce.
    proof
        ``"optimal"``: no schedule is faster than `whole`, and one is as fast; ``"trees"``: the same among
        tree schedules; ``"bound"``: none is faster.
    """

    halves: Fraction
    whole: Fraction
    proof: str

    @property
    def limits(self) -> tuple[float, float]:
        """The algbw of both in GB/s."""
        return (float(1 / (self.halves * GIGA)), float(1 / (self.whole * GIGA)))

    @property
    def ratio(self) -> Fraction:
        """How many times faster an allreduce is."""
        return self.halves / self.whole

    @property
    def cells(self) -> tuple[str, ...]:
        """The limits and the ratio, as a table has them."""
        return (*(number(limit) for limit in self.limits), number(float(self.ratio)))

    @property
    def proven(self) -> str:
        """How far the optimum is proven, in a few words."""
        return {"optimal": "optimal", "trees": "optimal among tree schedules"}.get(self.proof, "a limit")


def gain(topology: Topology, what: Collective, found: Sequence[Bound]) -> Gain | None:
    """Return the gain, None for other collectives, for groups, and for more than `MOST_RANKS` ranks.

    Parameters
    ----------
    topology, what
        The problem.
    found
        Its bandwidth bounds, the LP's included where it is known.
    """
    ranks = topology.num_ranks
    if what.kind is not Kind.ALLREDUCE or what.groups is not None or ranks > MOST_RANKS:
        return None
    halves = sum(
        (best_bound(topology, collective(kind, ranks)).value for kind in ("reduce-scatter", "allgather")),
        Fraction(0),
    )
    trees = next((bound for bound in found if bound.kind == "lp"), None)
    best = max(bound.value for bound in found)
    if trees is None or not trees.certificate["attained"]:
        return Gain(halves, best, "bound")
    proven = all(bound.value <= trees.value for bound in found) and trees.certificate["scope"] != TREES
    return Gain(halves, trees.value, "optimal" if proven else "trees")


def gain_chart(found: Gain, label: str) -> Markup:
    """Return the two bars, in algbw for large M."""
    entries = (("reduce-scatter + allgather", 5), ("allreduce", 0))
    frame = Frame(height=BAR * len(entries) + 58, left=NAMES, right=92, top=8)
    x = linear(found.limits, frame.across, 4)
    parts = [frame.axes(x, Scale(float, ()), "algbw for large M, at best (GB/s)", "")]
    for place, ((name, colour), limit) in enumerate(zip(entries, found.limits, strict=True)):
        y, start, end = frame.top + BAR * (place + 0.5), x.place(0.0), x.place(limit)
        box = {"x": start, "y": y - THICK / 2, "width": end - start, "height": THICK}
        bar = tag("rect", class_=f"mark c{colour}", data_tip=f"{name}: {number(limit)} GB/s", **box)
        times = f" (×{number(float(found.ratio), 3)})" if place else ""
        parts.append(tag("text", name, class_="label end", x=start - 7, y=y + 3.5))
        parts += [bar, tag("text", f"{number(limit)}{times}", class_="label", x=end + 5, y=y + 3.5)]
    return frame.chart([group(parts)], f"allreduce past reduce-scatter + allgather, {label}")


def gain_sentence(found: Gain) -> str:
    """Return what the bars say, and how far it is proven."""
    proofs = {
        "optimal": "The allreduce is the LP's optimum, and the partition bound proves that nothing is faster",
        "trees": "The allreduce is the LP's optimum, the best of all tree schedules",
        "bound": "The allreduce is a lower bound on time, which perhaps nothing meets",
    }
    if found.ratio == 1:
        return f"Nothing is gained: the halves are an optimal allreduce. {proofs[found.proof]}."
    return f"{number(float(found.ratio), 4)} ({found.ratio}) times as fast. {proofs[found.proof]}."
