"""The least time in which given chunks can reach their ends: α-β scheduling, exactly, by CP-SAT.

Link e = (a, b) sends messages k = 1, 2, ... one after the other. Variables, in ticks::

    at[c, n]       A: when chunk c is at rank n; 0 where it is from the beginning.
    start[e, k]    S: when message k of link e starts.
    end[e, k]      E: when it leaves the link; then all of it has arrived.
    used[e, k]     u: 1 where it has any chunk.
    sends[e, k, c] y: 1 where it has chunk c.
    last           when all chunks are at their ends.

minimize last, subject to the families of constraints, by the names of their functions::

    a_message_lasts_alpha_and_its_chunks   E[e, k] = S[e, k] + α_e u[e, k] + Σ_c (s / b_e) y[e, k, c].
    a_message_is_used_if_it_has_a_chunk    u[e, k] = max_c y[e, k, c].
    messages_of_a_link_follow_each_other   S[e, k+1] ≥ E[e, k].
    a_chunk_is_sent_after_it_has_come      y[e, k, c] → A[c, a] ≤ S[e, k].
    a_chunk_has_come_when_its_message_ends y[e, k, c] → A[c, b] = E[e, k].
    a_chunk_comes_once                     Σ_{e into n, k} y[e, k, c] = 1 where n must have c, else ≤ 1.
    a_rank_sends_what_came                 y[e, k, c] → Σ_{e' into a, k'} y[e', k', c] ≥ 1.
    the_end_is_after_every_arrival         last = max A[c, n] over all n that must have c.

All times are whole ticks, the largest in which α and s/b are whole, so nothing is rounded. A link has as many
messages as chunks could ever use it, so no schedule is left out.

This is for messages over one link each. At a switch, or at any node with `cut_through`, message k of link e
may continue as message m of a link f that begins where e ends::

    through[e, k, f, m] g: 1 where it does
    come[e, k]          D: when all of it is at the end of e, if it began elsewhere, too

    a_message_goes_on_at_most_once         Σ g[e, k, ·, ·] ≤ 1 and Σ g[·, ·, f, m] ≤ 1.
    what_goes_on_is_the_same_message       g → S[f, m] = S[e, k] + α_e, y[f, m, c] = y[e, k, c] for all c,
                                           and D[f, m] ≥ D[e, k] + α_f, which is later where e is slower.

Then only the last message of a route brings its chunks, at D, and only the first must find them at its start.
A switch never holds chunks, so every message continues there. As everywhere in the time clock, a message does
not wait on its route.

Some constraints are added that cut off no time. The messages of a link that are used come first
(`used_messages_come_first`). Message k starts no sooner than k shortest messages after the first chunk can be
there. The project's lower bounds hold for `last`, which is often all of the proof. The time of a known
schedule is a deadline, and only shorter schedules are searched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tutti.models.time_expanded import SizedInstance, routes_of
from tutti.topologies.exact import Int64Array, common_divisor

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


class TickRow(NamedTuple):
    """A chunk on the links of a route from a tick on; chunks of one route and start are one message."""

    start: int
    route: tuple[int, ...]
    chunk: int


@dataclass(frozen=True, eq=False)
class TimedInstance(SizedInstance):
    """An instance at a size, in ticks.

    Parameters
    ----------
    instance
        Chunks, links and their ends.
    size
        M in bytes.
    cut_through
        Whether messages may pass over several links through ranks, without being kept between them. Through
        switches they do in any case.
    """

    cut_through: bool = False

    @cached_property
    def tick(self) -> Fraction:
        """The largest time in seconds of which all α and s/b are multiples."""
        topology = self.instance.topology
        moves = {self.chunk_bytes / bandwidth for bandwidth in topology.bandwidth}
        return common_divisor([*moves, *(alpha for alpha in set(topology.alpha) if alpha)])

    @cached_property
    def alpha(self) -> list[int]:
        """α of each link in ticks."""
        return [int(alpha / self.tick) for alpha in self.instance.topology.alpha]

    @cached_property
    def move(self) -> list[int]:
        """Ticks that a chunk takes on each link."""
        return [
            int(self.chunk_bytes / bandwidth / self.tick) for bandwidth in self.instance.topology.bandwidth
        ]

    @property
    def ends(self) -> list[tuple[int, int]]:
        """Source and target of each link."""
        return self.instance.ends

    @property
    def over_routes(self) -> bool:
        """Whether messages may go over several links."""
        return self.cut_through or self.instance.topology.num_switches > 0

    def passes(self, node: int) -> bool:
        """Return whether messages may pass a node without being kept there."""
        return self.cut_through or node >= self.instance.topology.num_ranks

    @cached_property
    def routes(self) -> list[tuple[int, ...]]:
        """The routes of fewest links from rank to rank through switches only: all links if there are none."""
        topology = self.instance.topology
        routes = routes_of(topology, "optimum")
        between = zip(routes.links, routes.ends, strict=True)
        found = [links for links, ends in between if max(ends) < topology.num_ranks]
        return sorted(found, key=lambda links: (len(links), links))

    def lasting(self, route: Sequence[int], chunks: int) -> tuple[list[int], int]:
        """Return when a message ends on each link of a route, and when all of it has arrived."""
        ends, head, come = list[int](), 0, 0
        for link in route:
            head += self.alpha[link]
            ends.append(head + self.move[link] * chunks)
            come = max(ends[-1], come + self.alpha[link])
        return ends, come

    @cached_property
    def earliest(self) -> Int64Array:
        """int64, shape (items, nodes): ticks before which an item can not be there, alone on its route."""
        time = np.where(self.instance.holders, 0, self.horizon).astype(np.int64)
        for link, (a, b) in enumerate(self.ends):
            np.minimum(time[:, b], self.heads[:, a] + self.alpha[link] + self.move[link], out=time[:, b])
        return time

    @cached_property
    def heads(self) -> Int64Array:
        """int64, shape (items, nodes): ticks before which no message with an item can leave a node."""
        time = np.where(self.instance.holders, 0, self.horizon).astype(np.int64)
        hops = [
            a if self.passes(end) else a + m
            for a, m, (_, end) in zip(self.alpha, self.move, self.ends, strict=True)
        ]
        for _ in range(self.instance.topology.num_nodes):
            for (a, b), ticks in zip(self.ends, hops, strict=True):
                np.minimum(time[:, b], time[:, a] + ticks, out=time[:, b])
        return time

    @cached_property
    def horizon(self) -> int:
        """Ticks that suffice: every chunk over every link, one after the other along the longest route.

        Through switches every chunk goes to every rank alone.
        """
        topology, chunks = self.instance.topology, len(self.instance.item)
        if topology.num_switches:
            slowest = max(a + m for a, m in zip(self.alpha, self.move, strict=True))
            return slowest * chunks * topology.num_ranks * topology.num_nodes
        return max(a + m * chunks for a, m in zip(self.alpha, self.move, strict=True)) * topology.num_nodes


class TickProgram:
    """The model of the schedules that end by a deadline.

    Parameters
    ----------
    timed
        The instance, which says where messages may continue without being kept.
    deadline, least
        Ticks by which all must have arrived, and ticks that no schedule beats.
    """

    def __init__(self, timed: TimedInstance, deadline: int, least: int) -> None:
        from ortools.sat.python import cp_model  # slow to import

        self.timed, self.deadline, self.least = timed, deadline, least
        self.instance, self.ends = timed.instance, timed.ends
        self.model = cp_model.CpModel()
        self.at: dict[tuple[int, int], Any] = {}
        self.start: dict[tuple[int, int], Any] = {}
        self.end: dict[tuple[int, int], Any] = {}
        self.come: dict[tuple[int, int], Any] = {}
        self.used: dict[tuple[int, int], Any] = {}
        self.sends: dict[tuple[int, int, int], Any] = {}
        self.through: dict[tuple[int, int, int, int], Any] = {}
        self._chunks: dict[tuple[int, int], list[int]] = {}
        self._begins: dict[tuple[int, int], list[Any]] = {}
        self._brings: dict[tuple[int, int, int], Any] = {}
        self.add_arrivals()
        self.add_messages()
        self.add_through()
        self.a_message_lasts_alpha_and_its_chunks()
        self.a_message_is_used_if_it_has_a_chunk()
        self.messages_of_a_link_follow_each_other()
        self.used_messages_come_first()
        self.a_message_goes_on_at_most_once()
        self.what_goes_on_is_the_same_message()
        self.a_chunk_is_sent_after_it_has_come()
        self.a_chunk_has_come_when_its_message_ends()
        self.a_chunk_comes_once()
        self.a_rank_sends_what_came()
        self.the_end_is_after_every_arrival()

    def add_arrivals(self) -> None:
        """Add `at` for the ranks where a chunk can be by the deadline."""
        ranks = self.instance.topology.num_ranks
        for c, item in enumerate(self.instance.item.tolist()):
            for n, first in enumerate(self.timed.earliest[item, :ranks].tolist()):
                if first <= self.deadline:
                    most = 0 if first == 0 else self.deadline
                    self.at[c, n] = self.model.new_int_var(first, most, f"at[{c},{n}]")

    def add_messages(self) -> None:
        """Add the messages of every link, as many as can end in time, with the chunks that may be of use."""
        model, items, topology = self.model, self.instance.item, self.instance.topology
        apart = self.timed.over_routes and not topology.bandwidth.uniform
        for e, (a, b) in enumerate(self.ends):
            shortest = self.timed.alpha[e] + self.timed.move[e]
            first = self.timed.heads[items, a]
            useful = [
                c
                for c, item in enumerate(items.tolist())
                if not self.instance.holders[item, b] and first[c] + shortest <= self.deadline
            ]
            begin = int(first[useful].min()) if useful else self.deadline
            most = len(useful) * (topology.num_ranks if self.timed.over_routes else 1)
            for k in range(min(most, (self.deadline - begin) // shortest)):
                low = begin + k * shortest
                self.used[e, k] = model.new_bool_var(f"used[{e},{k}]")
                self.start[e, k] = model.new_int_var(low, self.deadline, f"start[{e},{k}]")
                self.end[e, k] = model.new_int_var(low, self.deadline, f"end[{e},{k}]")
                self.come[e, k] = (
                    model.new_int_var(low, self.deadline, f"come[{e},{k}]") if apart else self.end[e, k]
                )
                self.sends |= {(e, k, c): model.new_bool_var(f"sends[{e},{k},{c}]") for c in useful}
                self._chunks[e, k] = useful

    def add_through(self) -> None:
        """Add that messages may continue over any other link but the one back."""
        for (e, k), (f, m) in product(self._chunks, self._chunks):
            (a, b), (c, d) = self.ends[e], self.ends[f]
            if b == c and a != d and self.timed.passes(b):
                self.through[e, k, f, m] = self.model.new_bool_var(f"through[{e},{k},{f},{m}]")

    def a_message_lasts_alpha_and_its_chunks(self) -> None:
        """Add E = S + α u + Σ (s / b) y."""
        for (e, k), chunks in self._chunks.items():
            alpha, move = self.timed.alpha[e] * self.used[e, k], self.timed.move[e]
            carried = sum(self.sends[e, k, c] for c in chunks)
            self.model.add(self.end[e, k] == self.start[e, k] + alpha + move * carried)
            if self.come[e, k] is not self.end[e, k]:
                self.model.add(self.come[e, k] >= self.end[e, k])

    def a_message_is_used_if_it_has_a_chunk(self) -> None:
        """Add u = max y."""
        for (e, k), chunks in self._chunks.items():
            self.model.add_max_equality(self.used[e, k], [self.sends[e, k, c] for c in chunks])

    def messages_of_a_link_follow_each_other(self) -> None:
        """Add that a link has one message at a time."""
        for e, k in self._chunks:
            if k:
                self.model.add(self.start[e, k] >= self.end[e, k - 1])

    def used_messages_come_first(self) -> None:
        """Add, against symmetry, that message k of a link is used only if message k - 1 is."""
        for e, k in self._chunks:
            if k:
                self.model.add_implication(self.used[e, k], self.used[e, k - 1])

    def a_message_goes_on_at_most_once(self) -> None:
        """Add Σ g ≤ 1 on both sides; a message that continues brings nothing to the end of its link."""
        leaving: dict[tuple[int, int], list[Any]] = {}
        arriving: dict[tuple[int, int], list[Any]] = {}
        for (e, k, f, m), goes in self.through.items():
            leaving.setdefault((e, k), []).append(goes)
            arriving.setdefault((f, m), []).append(goes)
        for (e, k), chunks in self._chunks.items():
            self._begins[e, k] = self._none_of(arriving.get((e, k), []))
            ends = self._none_of(leaving.get((e, k), []))
            for c in chunks:
                self._brings[e, k, c] = self._all_of([self.sends[e, k, c], *ends])

    def _none_of(self, literals: list[Any]) -> list[Any]:
        """Return literals that are all true if none of these is; at most one of these is true."""
        if not literals:
            return []
        none = self.model.new_bool_var("")
        self.model.add_exactly_one([none, *literals])
        return [none]

    def _all_of(self, literals: list[Any]) -> Any:
        """Return a literal that is true if all of these are."""
        if len(literals) == 1:
            return literals[0]
        both = self.model.new_bool_var("")
        self.model.add_bool_and(literals).only_enforce_if(both)
        self.model.add_bool_or([both, *(literal.negated() for literal in literals)])
        return both

    def what_goes_on_is_the_same_message(self) -> None:
        """Add that a continued message has the same chunks, starts α later, and ends no sooner."""
        for (e, k, f, m), goes in self.through.items():
            alpha = self.timed.alpha
            self.model.add_implication(goes, self.used[e, k])
            self.model.add(self.start[f, m] == self.start[e, k] + alpha[e]).only_enforce_if(goes)
            if self.come[f, m] is not self.end[f, m]:
                self.model.add(self.come[f, m] >= self.come[e, k] + alpha[f]).only_enforce_if(goes)
            for c in {*self._chunks[e, k], *self._chunks[f, m]}:
                had, has = self.sends.get((e, k, c), False), self.sends.get((f, m, c), False)
                self.model.add(had == has).only_enforce_if(goes)

    def a_chunk_is_sent_after_it_has_come(self) -> None:
        """Add that a message starts when all of its chunks are at the source of its first link."""
        for (e, k, c), sends in self.sends.items():
            begins = [sends, *self._begins[e, k]]
            if (c, self.ends[e][0]) in self.at:
                self.model.add(self.at[c, self.ends[e][0]] <= self.start[e, k]).only_enforce_if(begins)
            else:
                self.model.add_bool_or([literal.negated() for literal in begins])

    def a_chunk_has_come_when_its_message_ends(self) -> None:
        """Add that when a message has arrived, all its chunks are at the rank at which its last link ends."""
        for (e, k, c), brings in self._brings.items():
            if (c, self.ends[e][1]) not in self.at:
                self.model.add(brings == 0)
                continue
            self.model.add(self.at[c, self.ends[e][1]] == self.come[e, k]).only_enforce_if(brings)

    def a_chunk_comes_once(self) -> None:
        """Add that each chunk comes once to all that must have it, and at most once to others."""
        for (c, n), arriving in self._arriving().items():
            if self.instance.wanters[self.instance.item[c], n]:
                self.model.add_exactly_one(arriving)
            else:
                self.model.add_at_most_one(arriving)

    def a_rank_sends_what_came(self) -> None:
        """Add that a rank that need not have a chunk sends it only if it comes; the others have it anyway."""
        arriving = self._arriving()
        for (e, k, c), sends in self.sends.items():
            item, n = self.instance.item[c], self.ends[e][0]
            if not self.instance.wanters[item, n] and not self.instance.holders[item, n]:
                begins = [literal.negated() for literal in (sends, *self._begins[e, k])]
                self.model.add_bool_or([*arriving.get((c, n), []), *begins])

    def _arriving(self) -> dict[tuple[int, int], list[Any]]:
        """Return what arrives, by (chunk, rank)."""
        table: dict[tuple[int, int], list[Any]] = {}
        for (e, _, c), brings in self._brings.items():
            table.setdefault((c, self.ends[e][1]), []).append(brings)
        return table

    def the_end_is_after_every_arrival(self) -> None:
        """Add the objective: the time when the last chunk is at its end."""
        self.last = self.model.new_int_var(self.least, self.deadline, "last")
        self.model.add_max_equality(self.last, [self.at[place] for place in self.instance.wanted])
        self.model.minimize(self.last)

    def rows(self, solver: cp_model.CpSolver) -> list[TickRow]:
        """Return the rows of a solution."""
        goes_on = {(e, k): (f, m) for (e, k, f, m), goes in self.through.items() if solver.value(goes)}
        later = set(goes_on.values())
        return [
            TickRow(solver.value(self.start[e, k]), tuple(_route((e, k), goes_on)), c)
            for (e, k, c), sends in self.sends.items()
            if solver.value(sends) and (e, k) not in later
        ]


def _route(message: tuple[int, int], goes_on: Mapping[tuple[int, int], tuple[int, int]]) -> Iterator[int]:
    """Yield the links of a message and of all messages as which it continues."""
    last: tuple[int, int] | None = message
    while last is not None:
        yield last[0]
        last = goes_on.get(last)
