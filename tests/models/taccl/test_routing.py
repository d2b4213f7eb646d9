"""Routings against all trees, by every solver, and under the symmetry."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tests.models.taccl.cases import LISTING_1, demand, made, written
from tutti.models.taccl import routing
from tutti.models.taccl.demand import ChunkDemand
from tutti.models.taccl.routing import route
from tutti.models.taccl.solving import StageLimits
from tutti.topologies.errors import NoSchedule


def arborescences(d: ChunkDemand, c: int):
    """Yield all trees of a chunk to every other rank: an in-link each, without cycles."""
    links, start = d.logical.links, int(d.start[c])
    others = [r for r in range(d.logical.topology.num_ranks) if r != start]
    for chosen in itertools.product(*(d.logical.in_links[r] for r in others)):
        parent = {links[k].target: links[k].source for k in chosen}
        reached = {start}
        while grown := {r for r, p in parent.items() if p in reached} - reached:
            reached |= grown
        if len(reached) == len(others) + 1:
            yield chosen


def least_time(d: ChunkDemand, trees) -> Fraction:
    """Return the time of a routing in seconds: the longest path, or a port's sends after those they wait for.

    Without switches; hops[r] is how far rank r is from the start of a chunk over the best links, tail 0.
    """
    links = d.logical.links
    lat = [d.logical.latency(k, d.bytes) for k in range(len(links))]
    head = {}
    for start in range(d.logical.topology.num_ranks):
        head[start] = {start: Fraction(0)}
        for _ in links:
            for k, link in enumerate(links):
                if link.source in head[start]:
                    there = head[start][link.source] + lat[k]
                    head[start][link.target] = min(there, head[start].get(link.target, there))
    times = []
    for c, tree in enumerate(trees):
        into = {links[k].target: k for k in tree}
        for end in into:
            total, here = Fraction(0), end
            while here != d.start[c]:
                total, here = total + lat[into[here]], links[into[here]].source
            times.append(total)
    for k, link in enumerate(links):
        heads = sorted(head[int(d.start[c])][link.source] for c, tree in enumerate(trees) if k in tree)
        times += [least + lat[k] * len(heads[i:]) for i, least in enumerate(heads)]
    return max(times)


@pytest.mark.parametrize("text", ["mesh:2x2", "ring:3", "gen_kautz:2,4", "mesh:2x2?bandwidth=1GB/s,4GB/s"])
def test_routing_is_the_best_of_all_trees(text):
    d = demand(text)
    ways = [list(arborescences(d, c)) for c in range(len(d))]
    best = float(min(least_time(d, trees) for trees in itertools.product(*ways)))
    found = route(d, StageLimits())
    assert found.time == pytest.approx(best, rel=1e-9)
    assert found.bound == pytest.approx(best, rel=1e-4)


@pytest.mark.parametrize("solver", ["highs", "scip", "cp-sat"])
def test_every_solver_finds_a_routing_as_good(solver):
    found = route(demand("mesh:2x3"), StageLimits(solver))
    expected = route(demand("mesh:2x3"), StageLimits())
    assert found.time == pytest.approx(expected.time, rel=1e-9)
    if solver == "cp-sat":  # on its grid it proves nothing of the model as given
        assert found.stats["solver_gap"] is None
    else:
        assert found.bound == pytest.approx(found.time, rel=1e-4)


def test_transfers_are_alike_under_the_symmetry():
    d = demand("hypercube:3", symmetry=True)
    assert d.symmetry
    sent = route(d, StageLimits()).sent
    for permuted in d.symmetry:
        assert permuted.tied.all()
        assert np.array_equal(sent, sent[np.ix_(permuted.chunks, permuted.links)])


def test_sends_between_hosts_are_not_affected_by_a_symmetry_within_them(tmp_path):
    """TACCL 3.3, Example 3.4. The rotation by 2 within hosts takes link 0->4 to 2->6, which is none.

    Both optima are proven, and that with the symmetry can't be less than that without.
    """
    document = {
        **LISTING_1,
        "intranode_sketch": {**LISTING_1["intranode_sketch"], "switches": [[0, 1, 2, 3]]},
        "internode_sketch": {
            "strategy": "relay",
            "internode_conn": {"0": [0], "1": [2]},
            "beta_split": {"0": 1, "1": 1},
        },
        "symmetry_offsets": [[2, 4]],
    }
    sketch = written(tmp_path, document)
    network = "dgx_a100:2?ranks=4+4"
    tied, free = (
        route(demand(network, sketch=sketch, symmetry=symmetry), StageLimits()) for symmetry in (True, False)
    )
    (rotation,) = tied.demand.symmetry
    links = tied.demand.logical.links
    assert [(link.source, link.target) for k, link in enumerate(links) if not rotation.tied[k]] == [
        (0, 4), (1, 6), (4, 0), (5, 2)
    ]  # fmt: skip
    image = tied.sent[np.ix_(rotation.chunks, rotation.links)]
    assert np.array_equal(tied.sent[:, rotation.tied], image[:, rotation.tied])
    assert tied.stats["solver_gap"] == free.stats["solver_gap"] == 0
    assert tied.time == pytest.approx(free.time)


def test_a_limit_without_a_routing_is_said(monkeypatch):
    """A greedy routing is the first incumbent; where symmetry forbids it there may be none in time."""
    monkeypatch.setattr(routing, "greedy_routing", lambda costs, deadline: None)
    with pytest.raises(NoSchedule, match=r"^taccl: the routing stage of mesh:3x3: no time for its program"):
        made("mesh:3x3", "allgather", time_limit=1e-9)

    def hurried(compiled, solver, options, start=None, real=routing.solve):
        return real(compiled, solver, replace(options, time_limit=1e-9), start=start)

    monkeypatch.setattr(routing, "solve", hurried)
    with pytest.raises(
        NoSchedule, match=r"^taccl: the routing stage of mesh:3x3: highs stopped with 'time limit'"
    ):
        made("mesh:3x3", "allgather")
