"""Panels of what the lower bounds of a topology rest on, and of what an allreduce gains.

The cut bound rests on the links out of a set of nodes, and the partition bound of allreduce on the links
between parts. The bounds of linear programs (``mcf`` of all-to-all, ``lp`` of allreduce) rest on links with a
length, their dual. All of them are here links with a *length* (1 in a cut), and nodes with a *part*. Of the
bounds of a collective the largest is shown, of equal ones the one that says most: on the network, or as bars
if the network is large.

A reduce-scatter and then an allgather take at least their bottleneck cuts' times, one after the other. An
allreduce takes the optimum of linear program (B.5), or at least the partition bound: ``docs/allreduce.md``.
The two are bars, each at its best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from types import SimpleNamespace
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pandas as pd
from markupsafe import Markup

from tutti.experiments.report.charts import Figure
from tutti.experiments.report.results import LOOKS
from tutti.experiments.report.tables import TEXTS, Panel, counted, number
from tutti.experiments.report.utilisation import Usages
from tutti.experiments.show.drawing import Mark, link_names, marked, node_names
from tutti.models.allreduce.optimum import TREES, lp_bound
from tutti.models.bounds import Bound, best_bound, lower_bounds
from tutti.schedules.collective import KINDS, Collective, Kind, collective
from tutti.topologies.errors import TuttiError
from tutti.topologies.exact import NONE, BoolArray, Int64Array
from tutti.topologies.topology import Topology
from tutti.topologies.units import GIGA, format_bandwidth

TELLING = ("degree", "cut", "lp", "partition", "mcf")
"""The kinds of bounds that can be drawn. Of equal bounds the last of these is shown."""


@dataclass(frozen=True, eq=False)
class Bottleneck:
    """The links and nodes on which one bound depends.

    Parameters
    ----------
    bound
        The bound with its certificate.
    lengths
        A whole number for each link, which is 0 if the bound does not depend on the link.
    part
        int64, shape (nodes,). For a cut, it is 0 inside and `NONE` outside. For a partition, it is the number
        of the part. It is `NONE` for nodes that the certificate does not name.
    """

    topology: Topology
    bound: Bound
    lengths: Sequence[int]
    part: Int64Array

    @cached_property
    def felt(self) -> BoolArray:
        """The links that the certificate names, shape (links,)."""
        links = self.bound.certificate.get("links")
        return np.array(self.lengths) > 0 if links is None else np.isin(np.arange(len(self.lengths)), links)

    @property
    def has_lengths(self) -> bool:
        """Whether it is the dual of a linear program, not a cut or a partition."""
        return self.bound.kind in ("mcf", "lp")

    @property
    def longest(self) -> int:
        """The largest length."""
        return max(self.lengths)

    @cached_property
    def sizes(self) -> Int64Array:
        """Nodes of each part, shape (parts,)."""
        return np.bincount(self.part[self.part != NONE])

    @property
    def capacity(self) -> Fraction:
        """The bandwidth of the links that it feels, bytes/s."""
        total = sum(self.topology.bandwidth.numerators[self.felt].tolist())
        return Fraction(total, self.topology.bandwidth.denominator)


def known_collective(text: str, num_ranks: int) -> Collective | None:
    """Return the collective that a row names, None where it says more than a kind."""
    return collective(text, num_ranks) if text in set(KINDS) else None


def bounds(topology: Topology, what: Collective) -> list[Bound]:
    """Return the bandwidth bounds that can be drawn, and the allreduce LP's where it is quick."""
    found = [bound for bound in lower_bounds(topology, what) if bound.kind in TELLING]
    partition = next((bound for bound in found if bound.kind == "partition"), None)
    return [*found, *filter(None, [lp_bound(topology, what, partition)])]


def largest(found: Sequence[Bound]) -> Bound:
    """Return the largest bound, of equal ones the one that says most."""
    return max(found, key=lambda bound: (bound.value, TELLING.index(bound.kind)))


def read(topology: Topology, bound: Bound) -> Bottleneck:
    """Return what a bound's certificate says of links and nodes.

    A cut is a partition with one part, and so is the rank of a degree bound. The dual of a flow may name the
    cut that proves as much.
    """
    certificate = bound.certificate
    cut = certificate if bound.kind == "cut" else certificate.get("cut")
    inside = [[*cut["ranks"], *cut["switches"]]] if cut else []
    known: dict[str, Any] = {"partition": certificate.get("parts"), "degree": [[certificate.get("node")]]}
    parts: list[list[int]] = known.get(bound.kind, inside)
    part = np.full(topology.num_nodes, NONE)
    for index, members in enumerate(parts):
        part[members] = index
    end = topology.target if certificate.get("direction") == "in" else topology.source
    between = (part[topology.source] != part[topology.target]) & (part[end] != NONE)
    return Bottleneck(topology, bound, certificate.get("lengths") or between.astype(int).tolist(), part)


DRAWN = SimpleNamespace(**LOOKS["limits"]["bottleneck"])
"""Limits on what is drawn or listed of a bound and of a gain."""


class Gain(NamedTuple):
    """Least times in s/B of M.

    Parameters
    ----------
    halves
        The least time of a reduce-scatter and then an allgather.
    whole
        The least time of an allreduce.
    proof
        ``"optimal"``: no schedule is faster than `whole`, and one is as fast; ``"trees"``: the same among
        tree schedules; ``"bound"``: none is faster.
    """

    halves: Fraction
    whole: Fraction
    proof: str

    @property
    def ratio(self) -> Fraction:
        """The time of the halves over that of an allreduce."""
        return self.halves / self.whole

    @property
    def numbers(self) -> tuple[float, float, float]:
        """The algbw of both in GB/s, and the ratio."""
        return (float(1 / (self.halves * GIGA)), float(1 / (self.whole * GIGA)), float(self.ratio))

    @property
    def cells(self) -> tuple[str, ...]:
        """The numbers as a table has them, and how far the optimum is proven."""
        return (*map(number, self.numbers), TEXTS["gain"]["proven"][self.proof])


def gain(topology: Topology, what: Collective, found: Sequence[Bound]) -> Gain | None:
    """Return the gain, None for other collectives, for groups, and for more than `DRAWN.gain` ranks.

    Parameters
    ----------
    topology, what
        The problem.
    found
        Its bandwidth bounds, the LP's included where it is known.
    """
    ranks = topology.num_ranks
    if what.kind is not Kind.ALLREDUCE or what.groups is not None or ranks > DRAWN.gain:
        return None
    parts = (collective(kind, ranks) for kind in ("reduce-scatter", "allgather"))
    halves = sum((best_bound(topology, part).value for part in parts), Fraction(0))
    trees = next((bound for bound in found if bound.kind == "lp"), None)
    best = max(bound.value for bound in found)
    if trees is None or not trees.certificate["attained"]:
        return Gain(halves, best, "bound")
    proven = all(bound.value <= trees.value for bound in found) and trees.certificate["scope"] != TREES
    return Gain(halves, trees.value, "optimal" if proven else "trees")


def gain_sentence(found: Gain) -> str:
    """Return what the bars say, and how far it is proven."""
    said = f"{number(float(found.ratio), 4)} ({found.ratio}) times as fast."
    if found.ratio == 1:
        said = "Nothing is gained: the halves are an optimal allreduce."
    return f"{said} {TEXTS['gain']['proofs'][found.proof]}."


PARTS = tuple(colour for colour in range(len(LOOKS["light"])) if colour != 1)
"""Colours of parts, of the series' ones; that of the links is left out."""
NAMED = {"mcf": "Multi-commodity flow", "lp": "Linear program"}
"""The names of bounds whose kinds are abbreviations."""


def chart(found: Bottleneck, label: str) -> Markup | Figure:
    """Return the picture of a bottleneck; `label` says of what, to those who can't see it.

    A large network has bars: the lengths, longest first, or of a cut or a partition its share of the whole.
    """
    told = f"bottleneck, {label}"
    if found.topology.num_nodes <= DRAWN.nodes and found.topology.num_links <= DRAWN.links:
        return marked(found.topology, _links(found), _nodes(found), told)
    if not found.has_lengths:
        return Figure("parts", told, data=pd.DataFrame(_shares(found), columns=["what", "percent", "told"]))
    lengths, counts = np.unique(found.lengths, return_counts=True)
    percent, links = 100 * (lengths / found.longest)[::-1], np.append(0, counts[::-1].cumsum())
    data = pd.DataFrame({"links": links, "percent": np.append(percent, percent[-1])})
    return Figure("lengths", told, data=data)


def _links(found: Bottleneck) -> Iterator[Mark]:
    """Yield the links; one that the bound feels is the wider the longer it is."""
    wide = DRAWN.thin if found.felt.sum() > DRAWN.many else 1.0
    for link, name in enumerate(link_names(found.topology)):
        share = found.lengths[link] / found.longest
        tip = f"{name}, {format_bandwidth(found.topology.bandwidth[link])}"
        if found.has_lengths:
            tip += f"\nlength {number(share, 3)} of the longest"
        elif found.felt[link]:
            tip += "\nbetween parts" if found.bound.kind == "partition" else "\nin the cut"
        width = wide * (1.1 + 1.3 * share)
        looks = {"stroke-width": f"{width:.2f}", "stroke-opacity": f"{0.4 + 0.6 * share:.2f}"}
        yield Mark(tip, "felt", more=looks) if found.felt[link] else Mark(tip)


def _nodes(found: Bottleneck) -> Iterator[Mark]:
    for node, (name, colour) in enumerate(zip(node_names(found.topology), colours_of(found), strict=True)):
        index = int(found.part[node])
        where = "outside the cut" if index == NONE else "inside the cut"
        if found.bound.kind == "partition":
            where = "in no part" if index == NONE else f"part {index + 1} of {len(found.sizes)}"
        text = str(node) if node < found.topology.num_ranks else ""
        tip = f"{name}, {where}" if len(found.sizes) else name
        yield Mark(tip, "" if colour is None else f"c{colour}", text)


def colours_of(found: Bottleneck) -> list[int | None]:
    """Return the colour of each node; None for those in no part, or in one by themselves among several.

    Parts that a link joins differ in colour where five colours suffice for a greedy choice.
    """
    shown = np.flatnonzero(found.sizes > (len(found.sizes) > 1)).tolist()
    parts = nx.Graph(found.part[np.stack([found.topology.source, found.topology.target], axis=1)].tolist())
    parts.add_nodes_from(shown)
    chosen = nx.greedy_color(parts.subgraph(shown), strategy=lambda graph, _: sorted(graph))
    return [PARTS[chosen[index] % len(PARTS)] if index in chosen else None for index in found.part.tolist()]


def _shares(found: Bottleneck) -> Iterator[tuple[str, float, str]]:
    """Yield what is counted, its share of the whole in percent, and the numbers as text."""
    topology, kind = found.topology, found.bound.kind
    where = {"partition": "between parts", "cut": "out of the cut"}.get(kind, "at the rank")
    inside, ranks = int((found.part[: topology.num_ranks] != NONE).sum()), topology.num_ranks
    what, count = ("parts, of ranks", len(found.sizes)) if kind == "partition" else ("ranks inside", inside)
    yield what, 100 * count / ranks, f"{count:,} of {ranks:,}"
    felt, links = int(found.felt.sum()), topology.num_links
    yield f"links {where}", 100 * felt / links, f"{felt:,} of {links:,}"
    whole = Fraction(sum(topology.bandwidth.numerators.tolist()), topology.bandwidth.denominator)
    yield f"bandwidth {where}", float(100 * found.capacity / whole), format_bandwidth(found.capacity)


def sentence(found: Bottleneck) -> str:
    """Return what the picture shows, in words and numbers."""
    kind, certificate = found.bound.kind, found.bound.certificate
    limit = number(float(1 / (found.bound.value * GIGA)))
    whom = ", for tree schedules" if certificate.get("scope") == TREES else ""
    inside = names(found.topology.num_ranks, np.flatnonzero(found.part == 0).tolist())
    together = "" if found.felt.sum() == 1 else " together"
    over = f"over {counted(int(found.felt.sum()), 'link')} of {format_bandwidth(found.capacity)}{together}"
    if kind == "partition":
        said = f"{_parts(found)}; {certificate['transfers']} M must go between them, {over}"
    elif kind == "mcf":
        said = _felt(found)
        said += f"; they prove as much as the links out of {inside} alone" if "cut" in certificate else ""
    elif kind == "lp":
        said = f"{counted(len(certificate['cuts']), 'weighted cut')}; {_felt(found)}"
    else:
        way = "into" if certificate.get("direction") == "in" else "out of"
        said = f"{certificate['share']} M must go {way} {inside}, {over}"
    return f"{NAMED.get(kind, kind.capitalize())} bound, algbw at most {limit} GB/s{whom}: {said}."


def _parts(found: Bottleneck) -> str:
    """Return how many parts there are, and of how many ranks."""
    parts = found.part[: found.topology.num_ranks]
    ranks = np.bincount(parts[parts != NONE], minlength=len(found.sizes)).tolist()
    if set(ranks) == {1}:
        return f"{len(ranks)} parts, each rank by itself"
    if len(set(ranks)) == 1:
        return f"{len(ranks)} parts of {ranks[0]} ranks"
    alone = ranks.count(1)
    large = ", ".join(str(count) for count in sorted(ranks, reverse=True)[: DRAWN.named] if count > 1)
    return f"{len(ranks)} parts, of {large} ranks" + (f" and {alone} of one" if alone else "")


def _felt(found: Bottleneck) -> str:
    felt, links = int(found.felt.sum()), len(found.lengths)
    kept = {length for length, is_felt in zip(found.lengths, found.felt, strict=True) if is_felt}
    apart = f"the shortest {number(min(kept) / max(kept), 2)} of the longest"
    how = apart if len(kept) > 1 else "equal for all"
    which = f"all {links:,} links" if felt == links else f"{felt:,} of {links:,} links"
    return f"{which} have a length, {how}"


def names(num_ranks: int, nodes: Sequence[int]) -> str:
    """Return ranks and switches as runs of numbers.

    Examples
    --------
    >>> names(16, [0, 1, 2, 5, 17])
    'ranks 0–2, 5 and switch 17'
    """
    words = []
    ranks = [node for node in nodes if node < num_ranks]
    switches = [node for node in nodes if node >= num_ranks]
    for chosen, *forms in ((ranks, "ranks", "rank"), (switches, "switches", "switch")):
        if chosen:
            runs = np.split(chosen, np.flatnonzero(np.diff(chosen) != 1) + 1)
            texts = ["–".join(dict.fromkeys([str(run[0]), str(run[-1])])) for run in runs[: DRAWN.named]]
            more = f", ... ({len(chosen)} in all)" if len(runs) > DRAWN.named else ""
            words.append(f"{forms[len(chosen) == 1]} {', '.join(texts)}{more}")
    return " and ".join(words)


GAIN = "allreduce past reduce-scatter + allgather"


class Bottlenecks(NamedTuple):
    """The panels of a topology; and the gain of its allreduce, where there is one."""

    panels: tuple[Panel, ...] = ()
    gain: Gain | None = None


def bottlenecks(
    topology: Topology | None, used: Mapping[str, Usages], number: Callable[[str], int]
) -> Bottlenecks:
    """Return a panel for each collective whose bounds are quickly computed, and one for the allreduce's gain.

    Parameters
    ----------
    topology
        The network; None if its text names none any more.
    used
        For each collective of the topology, what was replayed: its files have the collective.
    number
        Returns the place of a collective in the run.
    """
    if topology is None or topology.num_nodes > DRAWN.bound:
        return Bottlenecks()
    panels: list[Panel] = []
    gained: Gain | None = None
    for text, usages in used.items():
        shown = next((usage.collective for usage in usages.shown), None)
        what = shown or known_collective(text, topology.num_ranks)
        with suppress(TuttiError):  # a network that has no bound in 64 bits has no picture either
            found = Bottlenecks() if what is None else drawn(topology, what, text, number(text))
            panels, gained = [*panels, *found.panels], gained or found.gain
    return Bottlenecks(tuple(panels), gained)


def drawn(topology: Topology, what: Collective, text: str, which: int) -> Bottlenecks:
    """Return the panels of one collective.

    Parameters
    ----------
    topology, what
        The problem.
    text, which
        The collective's name and its place in the run.

    Raises
    ------
    TuttiError
        If its bounds can't be computed.
    """
    found = bounds(topology, what)
    best = largest(found)
    if best.value <= 0:
        return Bottlenecks()
    shown, gained = read(topology, best), gain(topology, what, found)
    label = f"{topology.name}, {text}"
    panels = [Panel(text, f"k{which}", chart(shown, label), sentence(shown))]
    if gained is not None:
        halves, whole, ratio = gained.numbers
        told = [number(halves), f"{number(whole)} (×{number(ratio, 3)})"]
        parts = ["reduce-scatter + allgather", "allreduce"]  # two bars, in algbw for large M
        data = pd.DataFrame({"what": parts, "algbw_gbps": [halves, whole], "told": told})
        bars = Figure("gain", f"{GAIN}, {label}", data=data)
        panels.append(Panel(GAIN, f"k{which}", bars, gain_sentence(gained)))
    return Bottlenecks(tuple(panels), gained)
