"""The panels of a topology on what its lower bounds rest on, and on what an allreduce gains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from experiments.report.bottleneck import MOST_NODES, bounds, known_collective, largest, read
from experiments.report.bottleneck_chart import chart, sentence
from experiments.report.gain import Gain, gain, gain_chart, gain_sentence
from experiments.report.panels import Panel
from experiments.report.utilisation import Usages
from schedules.collective import Collective
from topologies.errors import TuttiError
from topologies.topology import Topology

GAIN = "allreduce past reduce-scatter + allgather"


@dataclass(frozen=True)
class Bottlenecks:
    """The panels of a topology; and the gain of its allreduce, where there is one."""

    panels: tuple[Panel, ...] = ()
    gain: Gain | None = None


def bottlenecks(
    topology: Topology | None, used: Mapping[str, Usages], numbers: Mapping[str, int]
) -> Bottlenecks:
    """Return a panel for each collective whose bounds are quickly computed, and one for the allreduce's gain.

    Parameters
    ----------
    topology
        The network; None if it is gone since the run.
    used
        For each collective of the topology, what was replayed: its files have the collective.
    numbers
        The place of each collective in the run.
    """
    if topology is None or topology.num_nodes > MOST_NODES:
        return Bottlenecks()
    found = [_of(topology, text, usages, numbers[text]) for text, usages in used.items()]
    panels = tuple(panel for each in found for panel in each.panels)
    return Bottlenecks(panels, next((each.gain for each in found if each.gain), None))


def _of(topology: Topology, text: str, used: Usages, which: int) -> Bottlenecks:
    shown = [usage.collective for usage in used.shown]
    what = shown[0] if shown else known_collective(text, topology.num_ranks)
    if what is None:
        return Bottlenecks()
    try:
        return drawn(topology, what, text, which)
    except TuttiError:  # a network that has no bound in 64 bits has no picture either
        return Bottlenecks()


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
    panels = [Panel(text, which, chart(shown, label), sentence(shown))]
    if gained is not None:
        panels.append(Panel(GAIN, which, gain_chart(gained, label), gain_sentence(gained)))
    return Bottlenecks(tuple(panels), gained)
