"""List schedules: the kernel against a plain twin, dependencies by brute force, legality, mirroring."""

import heapq
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from tests.sweep import for_each
from tutti.experiments.registry import METHODS
from tutti.models.bounds import best_bound
from tutti.schedules import Clock, Problem, collective
from tutti.schedules.list_scheduling import Rules, can_be_listed, in_messages, list_schedule
from tutti.schedules.list_scheduling.flows import CutFlow, First, edges_of, timed_routes
from tutti.schedules.list_scheduling.kernel import DurationLimits, send
from tutti.schedules.message_durations import messages, transfer_ticks
from tutti.schedules.reversal import reverse
from tutti.schedules.schedule import Chunks, Schedule
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies import Unsupported
from tutti.topologies.text import parse_topology

GIGABYTE = Fraction(10**9)
NETWORKS = ("ring:4", "mesh:2x3?bandwidth=50GB/s,25GB/s", "dgx_a100:2?drop_nodes=0", "dgx_h100:1")
KINDS = ("allgather", "reduce-scatter", "allreduce", "broadcast")
RULES = (
    Rules(64),
    Rules(256, share=0.5, weight=0.0, first=First.IN_TURN, filling=False),
    Rules(32, first=First.MIXED, weight=3.0),
)


def flow(text, kind, size=GIGABYTE):
    topology = parse_topology(text)
    rooted = {"root": 1} if kind == "broadcast" else {}
    problem = Problem(topology, collective(kind, topology.num_ranks, **rooted), size)
    method = METHODS["forestcoll"]
    return method.synthesize(problem, method.options(), np.random.default_rng(0))


def last_arrival(schedule):
    grouped = messages(schedule)
    return int((grouped.order + transfer_ticks(schedule, grouped).until_arrival).max()) * schedule.tick


@for_each("text", NETWORKS)
@pytest.mark.parametrize("kind", KINDS)
@for_each("rules", RULES)
def test_it_is_legal_moves_the_same_and_takes_no_longer_than_planned(text, kind, rules):
    given = flow(text, kind)
    made = list_schedule(given, GIGABYTE, rules)
    verify(made)
    assert made.clock is Clock.TIME
    assert made.size == GIGABYTE
    moved = [
        np.bincount(s.route, s.load / s.chunks.denominator, len(given.route_table)) for s in (given, made)
    ]
    assert moved[0] == pytest.approx(moved[1])
    assert simulate(made, GIGABYTE).time <= float(last_arrival(made)) * (1 + 1e-9)


@pytest.mark.parametrize("text", NETWORKS)
def test_a_reduce_scatter_lasts_as_long_as_the_allgather_that_it_mirrors(text):
    gather = flow(text, "allgather")
    turned = reverse(gather)
    assert last_arrival(list_schedule(turned, GIGABYTE, RULES[0])) == last_arrival(
        list_schedule(gather, GIGABYTE, RULES[0])
    )


@pytest.mark.parametrize("text", [*NETWORKS[:2], NETWORKS[-1]])
@pytest.mark.parametrize("kind", ["allgather", "allreduce"])
def test_an_edge_waits_for_all_that_wrote_its_chunk_at_its_source_before(text, kind):
    given = flow(text, kind)
    edges = edges_of(given)
    table = list(zip(edges.row.tolist(), edges.chunk.tolist(), strict=True))
    source, target = given.source.tolist(), given.target.tolist()
    waits = [
        {b for b, (r, c) in enumerate(table[:e]) if c == chunk and target[r] == source[row]}
        for e, (row, chunk) in enumerate(table)
    ]
    assert edges.need.tolist() == [len(before) for before in waits]
    followers = [
        set(edges.follower[a:b].tolist()) for a, b in zip(edges.after[:-1], edges.after[1:], strict=True)
    ]
    assert followers == [{e for e, before in enumerate(waits) if b in before} for b in range(len(table))]
    for edge, after in enumerate(followers):
        assert edges.hops[edge] == max((edges.hops[other] + 1 for other in after), default=0)


class Twin:
    """The event loop over sorted lists and dictionaries."""

    def __init__(self, cut, net, priority, limits):
        self.cut, self.net, self.priority, self.limits = cut, net, priority, limits
        self.edges, self.route = cut.edges, cut.flow.route[cut.edges.row].tolist()
        pieces = cut.parts[self.edges.chunk]
        self.bytes = cut.transfers.amount
        self.job = [(e, p) for e in range(len(pieces)) for p in range(pieces[e])]
        self.left = {(e, p): int(self.edges.need[e]) for e, p in self.job}
        self.number = {job: number for number, job in enumerate(self.job)}
        self.paths = [net.links[a:b].tolist() for a, b in zip(net.offsets, net.offsets[1:], strict=False)]
        self.waiting = {route: [] for route in range(len(self.paths))}
        self.free = dict.fromkeys(range(len(net.alpha)), 0.0)
        self.touched, self.sent, self.events = [], [], []

    def wait(self, job):
        route = self.route[job[0]]
        self.waiting[route].append((self.priority[self.number[job]], self.number[job]))
        self.touch(self.paths[route][0])

    def touch(self, link):
        if link not in self.touched:
            self.touched.append(link)

    def soonest(self, link, now):
        def key(route):
            head, delay = now, 0.0
            for on in self.paths[route]:
                delay += max(self.free[on] - head, 0.0)
                head = max(head, self.free[on]) + self.net.alpha[on]
            return delay, min(self.waiting[route])[0]

        routes = [r for r in self.waiting if self.waiting[r] and self.paths[r][0] == link]
        return min(routes, key=key, default=None)

    def message(self, route, now):
        slowest = max(self.net.seconds[on] for on in self.paths[route])
        room = self.limits.total - now
        room = min(room, now) if self.limits.filling else room
        taken, amount, hops = [], 0.0, 0
        for _, number in sorted(self.waiting[route]):
            edge = self.job[number][0]
            hops = max(hops, int(self.edges.hops[edge]))
            most = max(self.limits.least, self.limits.share * room / (1 + self.limits.weight * hops))
            if taken and (amount + self.bytes[number]) * slowest > most:
                break
            taken.append(number)
            amount += self.bytes[number]
        self.waiting[route] = [entry for entry in self.waiting[route] if entry[1] not in taken]
        return taken, amount

    def go(self, route, now):
        taken, amount = self.message(route, now)
        head, tail = now, 0.0
        for on in self.paths[route]:
            head = max(head, self.free[on]) + self.net.alpha[on]
            self.free[on] = head + amount * self.net.seconds[on]
            tail = max(tail + self.net.alpha[on], self.free[on])
        number = len(self.sent)
        self.sent.append((route, taken))
        heapq.heappush(self.events, (self.free[self.paths[route][0]], 2 * number))
        heapq.heappush(self.events, (tail, 2 * number + 1))
        return tail

    def run(self):
        now = end = 0.0
        for job in self.job:
            if self.left[job] == 0:
                self.wait(job)
        while True:
            while self.touched:
                link = self.touched.pop()
                route = self.soonest(link, now) if self.free[link] <= now else None
                if route is not None:
                    end = max(end, self.go(route, now))
            if not self.events:
                return self.sent, end
            now = self.events[0][0]
            while self.events and self.events[0][0] <= now:
                number, complete = divmod(heapq.heappop(self.events)[1], 2)
                if complete:
                    self.tell(self.sent[number][1])
                else:
                    self.touch(self.paths[self.sent[number][0]][0])

    def tell(self, done):
        for number in done:
            edge, piece = self.job[number]
            for other in self.edges.follower[self.edges.after[edge] : self.edges.after[edge + 1]].tolist():
                self.left[other, piece] -= 1
                if self.left[other, piece] == 0:
                    self.wait((other, piece))


@for_each("text", NETWORKS)
@pytest.mark.parametrize("kind", ["allgather", "allreduce"])
@for_each("rules", RULES)
def test_the_event_loop_is_that_of_its_plain_twin(text, kind, rules):
    given = flow(text, kind)
    cut = CutFlow.of(given, edges_of(given), GIGABYTE, rules.pieces)
    limits = DurationLimits(0.005, rules.share, 2e-5, rules.weight, rules.filling, cut.hops)
    priority = cut.priority(rules.first)
    found = send(cut.transfers, timed_routes(given), priority, 0, limits)
    expected, last = Twin(cut, timed_routes(given), priority, limits).run()
    assert found.end == last
    first = found.sending.first
    taken = [found.sending.transfer[a:b].tolist() for a, b in pairwise(first)]
    route = [cut.transfers.route[jobs[0]] for jobs in taken]
    assert list(zip(route, taken, strict=True)) == expected
    assert sorted(job for jobs in taken for job in jobs) == list(range(len(priority)))


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("dgx1", Rules(4096)),
        ("dragonfly:4x5?bandwidth=400GB/s,200GB/s", Rules(1024, share=0.8, least=0.4, filling=False)),
        ("switch2d:8x4?bandwidth=300GB/s,25GB/s", Rules(1024, share=0.8, filling=False)),
        ("L(K_{4,4})", Rules(2048, share=0.8, filling=False)),
    ],
)
@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter"])
def test_a_gigabyte_is_within_a_hundredth_of_the_bound(text, rules, kind):
    made = list_schedule(flow(text, kind), GIGABYTE, rules)
    bound = best_bound(made.topology, made.collective, GIGABYTE)
    assert simulate(made, GIGABYTE).time <= 1.01 * float(bound.time(GIGABYTE))


@pytest.mark.parametrize("text", NETWORKS[:2])
def test_the_search_is_as_good_as_the_rules_that_it_starts_from_and_the_same_each_time(text):
    given, size = flow(text, "allgather"), Fraction(10**6)
    found = [list_schedule(given, size) for _ in range(2)]
    verify(found[0])
    assert np.array_equal(found[0].order, found[1].order)
    assert np.array_equal(found[0].chunk, found[1].chunk)
    assert simulate(found[0], size).time <= 1.01 * min(
        simulate(list_schedule(given, size, Rules(pieces)), size).time for pieces in (1, 8)
    )


def test_only_flows_can_be_listed():
    made = list_schedule(flow("ring:4", "allgather"), GIGABYTE, RULES[0])
    assert not can_be_listed(made)
    with pytest.raises(Unsupported, match=r"list schedule of allgather.*: needs a flow that moves"):
        list_schedule(made, GIGABYTE)


def test_routes_through_ranks_are_refused():
    topology = parse_topology("mesh:2x3?bandwidth=50GB/s,25GB/s")
    problem = Problem(topology, collective("all-to-all", 6), GIGABYTE)
    method = METHODS["mcf"]
    made = method.synthesize(problem, method.options(), np.random.default_rng(0))
    with pytest.raises(Unsupported, match="none begins inside another"):
        list_schedule(made, GIGABYTE)


def test_given_messages_go_one_after_the_other():
    """A one-way ring of three takes 2 hops of M/3 each, and all links are busy in both."""
    topology = parse_topology("uniring:3?bandwidth=50GB/s&alpha=1us")
    link = {int(a): i for i, a in enumerate(topology.source)}
    given = Schedule(
        topology,
        collective("allgather", 3),
        Clock.FLOW,
        Chunks.even(collective("allgather", 3)),
        chunk=np.array([0, 1, 2, 0, 1, 2], np.int32),
        route=np.array([link[0], link[1], link[2], link[1], link[2], link[0]], np.int32),
    )
    made = in_messages(given, np.array([0, 0, 0, 1, 1, 1]), Fraction(3 * 10**6))
    verify(made)
    assert simulate(made, Fraction(3 * 10**6)).time == pytest.approx(2 * (1e-6 + 10**6 / 50e9))
