"""The simulator against a plain twin, which applies the rules in exact numbers by searching lists."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tests.sweep import for_each
from tutti.experiments.registry import find_method
from tutti.schedules import Chunks, Clock, Routes, Schedule, collective
from tutti.schedules.cost import step_cost
from tutti.schedules.method import Problem
from tutti.schedules.simulation.events import in_order
from tutti.schedules.simulation.simulate import SimulationOptions, simulate, watch
from tutti.topologies import Link, Topology, parse_topology
from tutti.topologies.options import build_options


class Twin:
    def __init__(self, schedule, size, options):
        self.topology, self.options = schedule.topology, options
        table = schedule.route_table
        links = [table.links[a:b].tolist() for a, b in zip(table.offsets, table.offsets[1:], strict=False)]
        self.rows = []
        for row in range(len(schedule)):
            count = 1 if schedule.count is None else int(schedule.count[row])
            first = int(schedule.chunk[row])
            order = 0 if schedule.order is None else int(schedule.order[row])
            load = sum(int(s) for s in schedule.chunks.size[first : first + count])
            path = links[schedule.route[row]]
            self.rows.append((set(range(first, first + count)), int(schedule.route[row]), order, load, path))
        self.gamma = Fraction(options.gamma or 0)
        self.clock, self.schedule = schedule.clock, schedule
        self.unit = Fraction(size) / schedule.chunks.denominator
        self.messages = self.grouped()
        self.before = [self.waits_for(number) for number in range(len(self.messages))]

    def grouped(self):
        """Return messages as (rows, links, slice)."""
        if self.clock is Clock.FLOW:
            slices = range(self.options.slices)
            return [([r], self.places([r]), k) for r in range(len(self.rows)) for k in slices]
        keys = {}
        for number, (_, route, order, _, _) in enumerate(self.rows):
            keys.setdefault((route, order), []).append(number)
        return [(rows, self.places(rows), 0) for rows in sorted(keys.values())]

    def places(self, rows):
        """Return the links of the rows' route, then ("rank", r) if rank r needs time to reduce some rows."""
        path = self.rows[rows[0]][4]
        end = int(self.topology.target[path[-1]])
        reduces = self.gamma and end < self.topology.num_ranks and self.schedule.reduce[rows].any()
        return [*path, ("rank", end)] if reduces else path

    def reduced(self, number):
        rows = self.messages[number][0]
        loads = sum(self.rows[row][3] for row in rows if self.schedule.reduce[row])
        return loads * self.unit / self.options.slices

    def bytes(self, number, unit=None):
        loads = sum(self.rows[row][3] for row in self.messages[number][0])
        return loads * (self.unit if unit is None else unit) / self.options.slices

    def arrival_tick(self, number):
        unit = self.schedule.size / self.schedule.chunks.denominator
        path = self.path(number)
        alphas = sum(self.topology.alpha[link] for link in path)
        slowest = min(self.topology.bandwidth[link] for link in path)
        ticks = (alphas + self.bytes(number, unit) / slowest) / self.schedule.tick
        return self.rows[self.messages[number][0][0]][2] + -(-ticks // 1)

    def path(self, number):
        return self.rows[self.messages[number][0][0]][4]

    def precedes(self, one, other):
        """Return whether the schedule has message `one` done before `other` reads."""
        first, second = self.messages[one], self.messages[other]
        if self.clock is Clock.FLOW:
            return first[0][0] < second[0][0] and first[2] == second[2]
        start = self.rows[second[0][0]][2]
        if self.clock is Clock.STEP:
            return self.rows[first[0][0]][2] < start
        return self.arrival_tick(one) <= start

    def waits_for(self, number):
        source = self.topology.source[self.messages[number][1][0]]
        data = set().union(*(self.rows[row][0] for row in self.messages[number][0]))
        found = set()
        for other, (rows, _, _) in enumerate(self.messages):
            path = self.path(other)
            carried = set().union(*(self.rows[row][0] for row in rows))
            if self.topology.target[path[-1]] == source and carried & data and self.precedes(other, number):
                found.add(other)
        return found

    def turn(self, number, hop):
        """Return the turn of a message at a link; smaller turns enter first."""
        order = self.rows[self.messages[number][0][0]][2]
        if self.clock is Clock.STEP:
            return order
        if self.clock is Clock.FLOW or hop == len(self.path(number)):
            return 0
        alphas = sum(self.topology.alpha[link] for link in self.messages[number][1][:hop])
        return (order + -(-alphas // self.schedule.tick), number, hop)

    def run(self):
        now, number = Fraction(0), range(len(self.messages))
        ready = {(m, 0): now for m in number if not self.before[m]}
        todo = {(m, hop) for m in number for hop in range(len(self.messages[m][1]))}
        start, tail, finish, free = {}, {}, {}, {}
        while True:
            for link in [
                *range(self.topology.num_links),
                *(("rank", r) for r in range(self.topology.num_ranks)),
            ]:
                if free.get(link, now) > now:
                    continue
                hops = [(m, h) for m, h in todo if self.messages[m][1][h] == link]
                turn = min((self.turn(*hop) for hop in hops), default=None)
                able = [hop for hop in hops if self.turn(*hop) == turn and ready.get(hop, now + 1) <= now]
                if able:
                    m, h = min(able, key=lambda hop: (self.messages[hop[0]][2], ready[hop], hop))
                    todo.remove((m, h))
                    start.setdefault(m, now)
                    self.enter(m, h, now, tail, ready, free)
                    if h + 1 == len(self.messages[m][1]):
                        finish[m] = tail[m]
            moments = [t for t in [*ready.values(), *free.values(), *finish.values()] if t > now]
            if not moments:
                return [start[m] for m in number], [finish[m] for m in number]
            now = min(moments)
            for m in number:
                done = all(finish.get(other, now + 1) <= now for other in self.before[m])
                if (m, 0) not in ready and done:
                    ready[m, 0] = now

    def enter(self, m, h, now, tail, ready, free):
        link = self.messages[m][1][h]
        if h == len(self.path(m)):
            free[link] = tail[m] = now + self.reduced(m) * self.gamma
            return
        alpha = self.topology.alpha[link]
        sending = self.bytes(m) / self.topology.bandwidth[link] * self.slower(link)
        free[link] = now + sending + (0 if self.options.overlap_alpha else alpha)
        tail[m] = max(now + alpha + sending, tail.get(m, 0) + alpha)
        if h + 1 < len(self.messages[m][1]):
            whole = self.options.store_and_forward or h + 1 == len(self.path(m))
            ready[m, h + 1] = tail[m] if whole else now + alpha

    def slower(self, link):
        """By what bytes take longer on a link at a switch that messages of several pairs of ends pass."""
        if max(self.topology.source[link], self.topology.target[link]) < self.topology.num_ranks:
            return 1
        paths = [path for *_, path in self.rows if link in path]
        pairs = {(self.topology.source[path[0]], self.topology.target[path[-1]]) for path in paths}
        return 1 + self.options.congestion * (len(pairs) - 1)


def random_schedule(seed, switches=0):
    """Any rows, legal or not: random links, routes and runs. Numbers are dyadic, so that floats are exact.

    Every α is positive, so no message passes a link in zero time, which the twin would not follow.
    """
    rng = np.random.default_rng(seed)
    nodes = int(rng.integers(3, 6))
    pairs = [(u, (u + 1) % nodes) for u in range(nodes)]
    pairs += [tuple(rng.choice(nodes, 2, replace=False)) for _ in range(int(rng.integers(1, 5)))]
    links = [
        Link(int(u), int(w), Fraction(2 ** int(rng.integers(3))), Fraction(int(rng.integers(1, 5)), 4))
        for u, w in pairs
    ]
    topology = Topology.from_links("random", nodes - switches, links, num_switches=switches)
    routes = []
    for _ in range(6):
        walk = [int(rng.integers(len(links)))]
        while rng.random() < 0.5:
            options = [i for i, link in enumerate(links) if link.source == links[walk[-1]].target]
            walk.append(int(rng.choice(options)))
        routes.append(walk)
    kind = str(rng.choice(["allgather", "reduce-scatter", "broadcast", "allreduce"]))
    what = collective(kind, nodes - switches)
    chunks = Chunks.even(what, 4)
    size = int(rng.integers(1, 20))
    first = rng.integers(0, 3, size) + 4 * rng.integers(0, len(what.items), size)
    columns = {"count": rng.integers(1, 3, size)}
    if kind in ("reduce-scatter", "allreduce"):
        columns["reduce"] = np.ones(size, dtype=bool)
    clock = list(Clock)[seed % 3]
    if clock is not Clock.FLOW:
        columns["order"] = np.sort(rng.integers(1, 5 if clock is Clock.STEP else 60, size))
    if clock is Clock.TIME:
        columns |= {"tick": Fraction(1, 4), "size": Fraction(nodes * 8)}
    if seed % 4:
        columns["routes"] = Routes.of(routes)
    route = rng.integers(0, 6 if seed % 4 else len(links), size)
    return Schedule(topology, what, clock, chunks, first, route, **columns)


@for_each("seed", range(240))
def test_simulator_agrees_exactly_with_the_plain_twin(seed):
    schedule = random_schedule(seed)
    options = SimulationOptions(
        slices=2 ** (seed % 5 // 2) if schedule.clock is Clock.FLOW else 1,
        store_and_forward=seed % 7 == 0,
        overlap_alpha=seed % 11 == 0,
    )
    assert_twin_agrees(schedule, options)


@for_each("seed", range(240))
def test_simulator_agrees_with_the_plain_twin_where_connections_slow_a_port(seed):
    options = SimulationOptions(
        store_and_forward=seed % 7 == 0, overlap_alpha=seed % 11 == 0, congestion=Fraction(2 ** (seed % 4), 4)
    )
    assert_twin_agrees(random_schedule(seed, switches=1), options)


def assert_twin_agrees(schedule, options):
    size = Fraction(schedule.topology.num_ranks * 16)
    start, finish = Twin(schedule, size, options).run()
    result = simulate(schedule, size, options)
    assert result.start.tolist() == start
    assert result.finish.tolist() == finish


@for_each("seed", range(120))
def test_simulator_agrees_with_the_plain_twin_where_ranks_need_time_to_reduce(seed):
    schedule = random_schedule(seed)
    chosen = np.random.default_rng(seed).random(len(schedule)) < 0.7
    schedule = schedule.replace(
        reduce=chosen, collective=collective("allreduce", schedule.topology.num_ranks)
    )
    slices = 2 ** (seed % 5 // 2) if schedule.clock is Clock.FLOW else 1
    options = SimulationOptions(
        slices,
        store_and_forward=seed % 7 == 0,
        overlap_alpha=seed % 11 == 0,
        gamma=Fraction(1, 2 ** (seed % 3)),
    )
    assert_twin_agrees(schedule, options)


@for_each("seed", [seed for seed in range(240) if seed % 4 == 0 and seed % 3 == 0])
@for_each("gamma", [Fraction(1, 8), Fraction(3)])
def test_with_gamma_a_step_schedule_takes_at_most_t_c_more(seed, gamma):
    schedule = random_schedule(seed)
    size, cost = Fraction(schedule.topology.num_ranks * 16), step_cost(schedule)
    a_byte = cost.bandwidth_time + gamma * cost.tc
    most = cost.tl_steps * max(schedule.topology.alpha) + a_byte * size
    assert simulate(schedule, size, SimulationOptions(gamma=gamma)).time <= most


@for_each("seed", [seed for seed in range(240) if seed % 4 == 0 and seed % 3 == 0])
def test_a_step_schedule_over_links_takes_at_most_t_l_alpha_plus_t_b(seed):
    schedule = random_schedule(seed)
    assert schedule.clock is Clock.STEP
    size, cost = Fraction(schedule.topology.num_ranks * 16), step_cost(schedule)
    most = cost.tl_steps * max(schedule.topology.alpha) + cost.bandwidth_time * size
    assert simulate(schedule, size).time <= most


SIZE = Fraction(10**6)
CASES = [
    ("mesh:4x5", "tacos", "allgather"),
    ("torus:3x4?bandwidth=25GB/s,100GB/s&alpha=1us", "tacos", "allgather"),
    ("circulant:12,2,3", "tacos", "all_to_all"),
    ("uniring:5", "bfb", "allgather"),
    ("ring:8", "ring", "allgather"),
    ("gen_kautz:3,17", "tacos", "scatter"),
]


def made(text, method, kind):
    topology = parse_topology(text)
    chosen = find_method(method)
    problem = Problem(topology, collective(kind.replace("_", "-"), topology.num_ranks), SIZE)
    return chosen.synthesize(problem, build_options(chosen, {}), np.random.default_rng(3))


def passes(schedule):
    links = schedule.topology.num_links
    return in_order(schedule, np.zeros(links), np.zeros(links)) is not None


def test_what_adds_is_no_message_of_its_own():
    """A message waits for several others if rows add, as in the trial loads of tree methods."""
    schedule = made("ring:8", "ring", "allgather")
    assert passes(schedule)
    assert not passes(schedule.replace(reduce=np.ones(len(schedule), np.bool_)))


@pytest.mark.parametrize(("text", "kind"), [("hypercube:3", "allreduce"), ("mi250:1", "allgather")])
def test_without_alpha_times_are_in_proportion_to_the_size(text, kind):
    schedule = made(f"{text}?alpha=0us", "forestcoll", kind)
    small, large = simulate(schedule, 1000), simulate(schedule, 10**6)
    assert large.finish == pytest.approx(1000 * small.finish, rel=1e-15, abs=0)


@for_each("overlap", [False, True])
@for_each("size", [Fraction(1000), SIZE, Fraction(10**9, 7)])
@for_each("case", CASES)
def test_one_pass_is_the_event_loop(case, size, overlap):
    schedule, options = made(*case), SimulationOptions(overlap_alpha=overlap)
    assert passes(schedule)
    assert_one_pass_is_the_event_loop(schedule, size, options)


def assert_one_pass_is_the_event_loop(schedule, size, options):
    ours, loop = simulate(schedule, size, options), watch(schedule, size, options)[0]
    assert ours.time == loop.time
    for name in ("start", "finish", "message", "busy", "bytes"):
        assert np.array_equal(getattr(ours, name), getattr(loop, name)), name


def test_a_link_that_is_late_makes_what_follows_late():
    # M = 3 B in chunks of 1 B; link 0 -> 1 takes 3 s per byte and α = 1 s, 1 -> 2 takes 1 s per byte.
    links = [Link(0, 1, Fraction(1, 3), Fraction(1)), Link(1, 2, Fraction(1), Fraction(0))]
    back = Link(2, 0, Fraction(1), Fraction(0))
    topology = Topology.from_links("late", 3, [*links, back])
    what = collective("broadcast", 3, root=0)
    chunks = Chunks.even(what, 3)
    rows = [(0, 0, 1), (1, 0, 2), (0, 1, 2), (2, 0, 3), (1, 1, 3), (2, 1, 4)]
    chunk, route, order = (np.array(column) for column in zip(*rows, strict=True))
    schedule = Schedule(topology, what, Clock.STEP, chunks, chunk, route, order)
    simulation = simulate(schedule, 3)
    assert simulation.finish.tolist() == [4, 8, 5, 12, 9, 13]
    assert simulation.start.tolist() == [0, 4, 4, 8, 8, 12]
    assert simulation.busy.tolist() == [12, 3, 0]


@pytest.mark.parametrize(
    ("text", "method", "kind"),
    [
        ("ring:6", "ring", "allreduce"),  # reduces
        ("dgx_a100:1", "direct", "allgather"),  # routes of two links
        ("mesh:3x3", "forestcoll", "allgather"),  # the flow clock
    ],
)
def test_others_are_left_to_the_event_loop(text, method, kind):
    assert not passes(made(text, method, kind))


@for_each("case", [*CASES, ("gen_kautz:2,12", "shortest_path_all_to_all", "all_to_all")])
def test_where_each_chunk_goes_along_one_path_its_last_row_is_enough(case, monkeypatch):
    """A chunk that is copied further is left to the event loop if there is room for one row of each."""
    schedule = made(*case)
    monkeypatch.setattr("tutti.schedules.simulation.events.FEW_PAIRS", 0)
    monkeypatch.setattr("tutti.schedules.simulation.events.PAIRS_A_TRANSFER", 0)
    at, along_paths = {}, True
    for chunk, source, target in zip(schedule.chunk, schedule.source, schedule.target, strict=True):
        along_paths &= at.get(chunk, source) == source
        at[chunk] = target
    assert passes(schedule) == along_paths
    assert_one_pass_is_the_event_loop(schedule, SIZE, SimulationOptions())


def test_messages_of_several_chunks_take_one_pass_too():
    """Two chunks go in one message to rank 1, then two to rank 2, for which rank 1 does not wait."""
    topology = parse_topology("ring:3")
    what = collective("broadcast", 3, root=0)
    pairs = list(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
    to, on = pairs.index((0, 1)), pairs.index((1, 2))
    rows = [(0, to, 1), (1, to, 1), (0, on, 2), (1, on, 2)]
    chunk, route, order = (np.array(column) for column in zip(*rows, strict=True))
    schedule = Schedule(topology, what, Clock.STEP, Chunks.even(what, 2), chunk, route, order)
    assert passes(schedule)
    ours = simulate(schedule, SIZE)
    alpha, bandwidth = topology.alpha[to], topology.bandwidth[to]
    assert ours.finish.tolist() == [float(alpha + SIZE / bandwidth), float(2 * (alpha + SIZE / bandwidth))]
    assert ours.message.tolist() == [0, 0, 1, 1]
    assert_one_pass_is_the_event_loop(schedule, SIZE, SimulationOptions())


@for_each("size", [Fraction(1000), SIZE, Fraction(10**9, 7)])
@for_each("network", ["gen_kautz:2,12", "mesh:3x4?bandwidth=25GB/s,100GB/s&alpha=1us", "dragonfly:3x3"])
def test_an_all_to_all_in_steps_takes_one_pass(network, size):
    schedule = made(network, "shortest_path_all_to_all", "all_to_all")
    assert len(simulate(schedule, size).start) < len(schedule), "messages carry several chunks"
    assert passes(schedule)
    assert_one_pass_is_the_event_loop(schedule, size, SimulationOptions())
