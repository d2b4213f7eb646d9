"""The bounds of several collectives together, over groups that share ranks, against all cuts."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tutti.models.bounds import lower_bounds
from tutti.schedules.collective import KINDS, Kind, collective, concurrent, grouped
from tutti.topologies.text import parse_topology

NETWORKS = ("ring:5", "mesh:2x3", "switch2d:2x2", "mesh:2x3?bandwidth=50GB/s,20GB/s", "gen_kautz:2,6")
KINDS_OF_ITEMS = {
    Kind.ALLGATHER: lambda g, root: [({r}, g, Fraction(1, len(g))) for r in g],
    Kind.REDUCE_SCATTER: lambda g, root: [(g, {r}, Fraction(1, len(g))) for r in g],
    Kind.ALLREDUCE: lambda g, root: [(g, g, Fraction(1))],
    Kind.BROADCAST: lambda g, root: [({root}, g, Fraction(1))],
    Kind.REDUCE: lambda g, root: [(g, {root}, Fraction(1))],
    Kind.GATHER: lambda g, root: [({r}, {root}, Fraction(1, len(g))) for r in g],
    Kind.SCATTER: lambda g, root: [({root}, {r}, Fraction(1, len(g))) for r in g],
    Kind.ALL_TO_ALL: lambda g, root: [({a}, {b}, Fraction(1, len(g))) for a in g for b in g],
}
"""The starts and ends of each datum and its share of M, from what the collectives mean."""


def worst(topology, items):
    """Return the largest share that must leave a set of nodes over the bandwidth out of it."""
    links = [topology.link(number) for number in range(topology.num_links)]
    found = Fraction(0)
    for inside in product((False, True), repeat=topology.num_nodes):
        chosen = {node for node, there in enumerate(inside) if there}
        share = sum(share for start, end, share in items if start & chosen and not end <= chosen)
        if share:
            out = sum(link.bandwidth for link in links if link.source in chosen and link.target not in chosen)
            found = max(found, share / out)
    return found


def some_parts(rng, ranks):
    """Return parts over random groups with random weights, and their items."""
    parts, items = [], []
    weights = [Fraction(int(rng.integers(1, 5))) for _ in range(2)]
    for weight in weights:
        kind, order = rng.choice(list(KINDS)), rng.permutation(ranks).tolist()
        size = int(rng.integers(2, 4))
        groups = [order[first : first + size] for first in range(0, ranks - size + 1, size)]
        groups = groups[: int(rng.integers(1, 3))]
        parts.append(collective(kind, ranks, groups=groups))
        for group in groups:
            own = KINDS_OF_ITEMS[Kind(kind)](set(group), group[0])
            items += [(start, end, share * weight / max(weights)) for start, end, share in own]
    return concurrent(parts, weights), items


@pytest.mark.parametrize("network", NETWORKS)
def test_the_joint_cut_is_the_worst_of_all(network):
    topology = parse_topology(network)
    for seed in range(6):
        what, items = some_parts(np.random.default_rng(seed), topology.num_ranks)
        bound = lower_bounds(topology, what)[0]
        assert bound.kind == "cut"
        assert bound.value == worst(topology, items), str(what)
        assert bound.certificate["maximum"] is True


@pytest.mark.parametrize("network", NETWORKS)
def test_every_certificate_is_checked_and_parts_prove_no_more_than_the_whole(network):
    """A bound of one part alone holds beside others, too, and a joint bound is at least each part's."""
    topology = parse_topology(network)
    for seed in range(6):
        what, _ = some_parts(np.random.default_rng(seed), topology.num_ranks)
        for size in (1000, 10**9):
            bounds = lower_bounds(topology, what, size)
            for bound in bounds:
                bound.check(topology, what)
            whole = {bound.kind: bound.time(size) for bound in bounds}
            for weight, part in zip(what.part_weights, what.parts, strict=True):
                for bound in lower_bounds(topology, part, size * weight):
                    if bound.kind in ("cut", "degree", "distance", "first_hop"):
                        assert bound.time(size * weight) <= whole[bound.kind], (bound.kind, str(what))


def test_rows_and_columns_of_a_torus_by_hand():
    """Rows of 4 contracted, an allreduce in each column takes 2 * 3 M over 4 rows of 2 * 4 links out."""
    torus, link = parse_topology("torus:4x4"), 50 * 10**9
    what, _ = grouped("tp=4:allreduce@64MB,dp=4:allreduce@256MB", 16, "")
    bounds = {bound.kind: bound.value for bound in lower_bounds(torus, what)}
    assert bounds["partition"] == Fraction(4 * 2 * 3, 4 * 2 * 4 * link)
    # each half of the columns' ranks, 2 rows, lets 4 M out over 4 links each way round
    assert bounds["cut"] == Fraction(4, 2 * 4 * link)
    assert bounds["degree"] == (1 + Fraction(1, 4)) / (4 * link)
