"""The simulator against a plain twin: its rules in exact numbers, over lists searched from end to end."""

from fractions import Fraction

import numpy as np
import pytest

from schedules import Chunks, Clock, Routes, Schedule, collective
from schedules.cost import step_cost
from schedules.simulate import SimulationOptions, simulate
from topologies import Link, Topology


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
        self.clock, self.schedule = schedule.clock, schedule
        self.unit = Fraction(size) / schedule.chunks.denominator
        self.messages = self.grouped()
        self.before = [self.waits_for(number) for number in range(len(self.messages))]

    def grouped(self):
        """Messages as (rows, links, slice)."""
        if self.clock is Clock.FLOW:
            return [([r], row[4], k) for r, row in enumerate(self.rows) for k in range(self.options.slices)]
        keys = {}
        for number, (_, route, order, _, _) in enumerate(self.rows):
            keys.setdefault((route, order), []).append(number)
        return [(rows, self.rows[rows[0]][4], 0) for rows in sorted(keys.values())]

    def bytes(self, number, unit=None):
        loads = sum(self.rows[row][3] for row in self.messages[number][0])
        return loads * (self.unit if unit is None else unit) / self.options.slices

    def arrival_tick(self, number):
        unit = self.schedule.size / self.schedule.chunks.denominator
        path = self.messages[number][1]
        alphas = sum(self.topology.alpha[link] for link in path)
        slowest = min(self.topology.bandwidth[link] for link in path)
        ticks = (alphas + self.bytes(number, unit) / slowest) / self.schedule.tick
        return self.rows[self.messages[number][0][0]][2] + -(-ticks // 1)

    def precedes(self, one, other):
        """Whether message `one` is done, by the schedule, before `other` reads."""
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
        for other, (rows, path, _) in enumerate(self.messages):
            carried = set().union(*(self.rows[row][0] for row in rows))
            if self.topology.target[path[-1]] == source and carried & data and self.precedes(other, number):
                found.add(other)
        return found

    def turn(self, number, hop):
        """Smaller turns enter a link first."""
        order = self.rows[self.messages[number][0][0]][2]
        if self.clock is Clock.FLOW:
            return 0
        if self.clock is Clock.STEP:
            return order
        alphas = sum(self.topology.alpha[link] for link in self.messages[number][1][:hop])
        return (order + -(-alphas // self.schedule.tick), number, hop)

    def run(self):
        now, number = Fraction(0), range(len(self.messages))
        ready = {(m, 0): now for m in number if not self.before[m]}
        todo = {(m, hop) for m in number for hop in range(len(self.messages[m][1]))}
        start, tail, finish, free = {}, {}, {}, {}
        while True:
            for link in range(self.topology.num_links):
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
        alpha = self.topology.alpha[link]
        sending = self.bytes(m) / self.topology.bandwidth[link]
        free[link] = now + sending + (0 if self.options.overlap_alpha else alpha)
        tail[m] = max(now + alpha + sending, tail.get(m, 0) + alpha)
        if h + 1 < len(self.messages[m][1]):
            ready[m, h + 1] = tail[m] if self.options.store_and_forward else now + alpha


def random_schedule(seed):
    """Any rows, legal or not: random links, routes and runs. Numbers are dyadic, so that floats are exact.

    Every α is positive: nothing happens twice at one moment, which the twin would not follow.
    """
    rng = np.random.default_rng(seed)
    nodes = int(rng.integers(3, 6))
    pairs = [(u, (u + 1) % nodes) for u in range(nodes)]
    pairs += [tuple(rng.choice(nodes, 2, replace=False)) for _ in range(int(rng.integers(1, 5)))]
    links = [
        Link(int(u), int(w), Fraction(2 ** int(rng.integers(3))), Fraction(int(rng.integers(1, 5)), 4))
        for u, w in pairs
    ]
    topology = Topology.from_links("random", nodes, links)
    routes = []
    for _ in range(6):
        walk = [int(rng.integers(len(links)))]
        while rng.random() < 0.5:
            options = [i for i, link in enumerate(links) if link.source == links[walk[-1]].target]
            walk.append(int(rng.choice(options)))
        routes.append(walk)
    kind = str(rng.choice(["allgather", "reduce-scatter", "broadcast", "allreduce"]))
    what = collective(kind, nodes)
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


@pytest.mark.parametrize("seed", range(240))
def test_simulator_agrees_exactly_with_the_plain_twin(seed):
    schedule = random_schedule(seed)
    options = SimulationOptions(
        slices=2 ** (seed % 5 // 2) if schedule.clock is Clock.FLOW else 1,
        store_and_forward=seed % 7 == 0,
        overlap_alpha=seed % 11 == 0,
    )
    size = Fraction(schedule.topology.num_ranks * 16)
    start, finish = Twin(schedule, size, options).run()
    result = simulate(schedule, size, options)
    assert result.start.tolist() == start
    assert result.finish.tolist() == finish


@pytest.mark.parametrize("seed", [seed for seed in range(240) if seed % 4 == 0 and seed % 3 == 0])
def test_a_step_schedule_over_links_takes_at_most_t_l_alpha_plus_t_b(seed):
    schedule = random_schedule(seed)
    assert schedule.clock is Clock.STEP
    size, cost = Fraction(schedule.topology.num_ranks * 16), step_cost(schedule)
    most = cost.tl_steps * max(schedule.topology.alpha) + cost.bandwidth_time * size
    assert simulate(schedule, size).time <= most
