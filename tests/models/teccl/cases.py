"""Problems and verified schedules that the tests of TE-CCL share."""

from fractions import Fraction

import numpy as np

from tutti.experiments.registry import METHODS
from tutti.models.bounds import lower_bounds
from tutti.models.teccl import Epochs
from tutti.models.time_expanded import ChunkInstance
from tutti.schedules import Problem, collective
from tutti.schedules.schedule import Clock
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies import Topology
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Link

METHOD = METHODS["teccl"]
SIZE = 2**20
UNEVEN = "mesh:2x3?bandwidth=50GB/s,25GB/s&alpha=0.5us"


def problem(text, kind="allgather", size=SIZE, **details):
    topology = parse_topology(text)
    what = collective(kind, topology.num_ranks, **details)
    return Problem(topology, what, None if size is None else Fraction(size))


def made(task, **options):
    chosen = METHOD.options(**options)
    METHOD.supports(task, chosen)
    schedule = METHOD.synthesize(task, chosen, np.random.default_rng(0))
    verify(schedule)
    assert schedule.clock is Clock.TIME
    return schedule


def epochs_of(task, chunks=1, length="fastest"):
    return Epochs(
        ChunkInstance(task.topology, task.collective, chunks, "teccl", switches=True), task.size, length
    )


def star(ranks, *, copies=False):
    """Ranks on one switch, links of 1 GB/s without α: a chunk is an epoch on each link."""
    links = [
        Link(*ends, Fraction(10**9), Fraction(0)) for n in range(ranks) for ends in ((n, ranks), (ranks, n))
    ]
    name = f"star of {ranks}"
    return Topology.from_links(name, ranks, links, num_switches=1, multicast=[ranks] if copies else [])


def made_on(topology, kind="allgather", details=None, size=SIZE, **options):
    what = collective(kind, topology.num_ranks, **(details or {}))
    task, chosen = Problem(topology, what, Fraction(size)), METHOD.options(**options)
    METHOD.supports(task, chosen)
    schedule = METHOD.synthesize(task, chosen, np.random.default_rng(0))
    verify(schedule)
    assert (schedule.topology, schedule.collective) == (topology, what)
    for bound in lower_bounds(topology, what, size):
        assert simulate(schedule, size).time >= float(bound.time(size)) * (1 - 1e-9), bound.kind
    return schedule


def network(ranks, ends, **switches):
    """Links (source, target, GB/s, α in us)."""
    links = [Link(a, b, Fraction(gb * 10**9), Fraction(us, 10**6)) for a, b, gb, us in ends]
    return Topology.from_links("mixed", ranks, links, **switches)
