"""The least time in which given chunks can be where they must be: α-β scheduling, exactly, by CP-SAT.

Link e = (a, b) sends messages k = 1, 2, ... one after the other. Variables, in ticks::

    at[c, n]       A: when chunk c is at rank n; 0 where it is from the beginning
    start[e, k]    S: when message k of link e starts
    end[e, k]      E: when all of it has arrived
    used[e, k]     u: 1 where it has any chunk
    sends[e, k, c] y: 1 where it has chunk c
    last           when all is where it must be

minimize last, subject to the families of constraints, by the names of their functions::

    a_message_lasts_alpha_and_its_chunks   E[e, k] = S[e, k] + α_e u[e, k] + Σ_c (s / b_e) y[e, k, c]
    a_message_is_used_if_it_has_a_chunk    u[e, k] = max_c y[e, k, c]
    messages_of_a_link_follow_each_other   S[e, k+1] ≥ E[e, k]
    a_chunk_is_sent_after_it_has_come      y[e, k, c] → A[c, a] ≤ S[e, k]
    a_chunk_has_come_when_its_message_ends y[e, k, c] → A[c, b] = E[e, k]
    a_chunk_comes_once                     Σ_{e into n, k} y[e, k, c] = 1 where n must have c, else ≤ 1
    a_rank_sends_what_came                 y[e, k, c] → Σ_{e' into a, k'} y[e', k', c] ≥ 1
    the_end_is_after_every_arrival         last = max A[c, n] over all n that must have c

All times are whole ticks, the largest in which α and s/b are whole, so nothing is rounded. A link has as many
messages as chunks could ever use it, so nothing is left out either but routes of several links: ranks pass on
what they hold, and no message cuts through one.

What is added, and cuts off no time: the messages of a link that are used come first
(`used_messages_come_first`); message k starts no sooner than k shortest messages after the first chunk can
be there; the project's lower bounds hold for `last`, which is often all of the proof. What is known already
is a deadline, and only shorter schedules are looked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from models.optimum.instance import TickRow, TimedInstance


class TickProgram:
    """The model of what ends by a deadline.

    Parameters
    ----------
    timed
        The instance.
    deadline, least
        Ticks: by when all must be over, and what no schedule beats.
    """

    def __init__(self, timed: TimedInstance, deadline: int, least: int) -> None:
        self.timed, self.deadline, self.least = timed, deadline, least
        self.instance, self.ends = timed.instance, timed.ends
        self.model = cp_model.CpModel()
        self.at: dict[tuple[int, int], Any] = {}
        self.start: dict[tuple[int, int], Any] = {}
        self.end: dict[tuple[int, int], Any] = {}
        self.used: dict[tuple[int, int], Any] = {}
        self.sends: dict[tuple[int, int, int], Any] = {}
        self._chunks: dict[tuple[int, int], list[int]] = {}
        self.add_arrivals()
        self.add_messages()
        self.a_message_lasts_alpha_and_its_chunks()
        self.a_message_is_used_if_it_has_a_chunk()
        self.messages_of_a_link_follow_each_other()
        self.used_messages_come_first()
        self.a_chunk_is_sent_after_it_has_come()
        self.a_chunk_has_come_when_its_message_ends()
        self.a_chunk_comes_once()
        self.a_rank_sends_what_came()
        self.the_end_is_after_every_arrival()

    def add_arrivals(self) -> None:
        """Add `at` where a chunk can be by the deadline."""
        for c, item in enumerate(self.instance.item.tolist()):
            for n, first in enumerate(self.timed.earliest[item].tolist()):
                if first <= self.deadline:
                    most = 0 if first == 0 else self.deadline
                    self.at[c, n] = self.model.new_int_var(first, most, f"at[{c},{n}]")

    def add_messages(self) -> None:
        """Add the messages of every link, as many as can end in time, with the chunks that may be of use."""
        model, items = self.model, self.instance.item
        for e, (a, b) in enumerate(self.ends):
            shortest = self.timed.alpha[e] + self.timed.move[e]
            first = self.timed.earliest[items, a]
            useful = [
                c
                for c, item in enumerate(items.tolist())
                if not self.instance.holders[item, b] and first[c] + shortest <= self.deadline
            ]
            begin = int(first[useful].min()) if useful else self.deadline
            for k in range(min(len(useful), (self.deadline - begin) // shortest)):
                low = begin + k * shortest
                self.used[e, k] = model.new_bool_var(f"used[{e},{k}]")
                self.start[e, k] = model.new_int_var(low, self.deadline, f"start[{e},{k}]")
                self.end[e, k] = model.new_int_var(low, self.deadline, f"end[{e},{k}]")
                self.sends |= {(e, k, c): model.new_bool_var(f"sends[{e},{k},{c}]") for c in useful}
                self._chunks[e, k] = useful

    def a_message_lasts_alpha_and_its_chunks(self) -> None:
        """Add E = S + α u + Σ (s / b) y."""
        for (e, k), chunks in self._chunks.items():
            alpha, move = self.timed.alpha[e] * self.used[e, k], self.timed.move[e]
            carried = sum(self.sends[e, k, c] for c in chunks)
            self.model.add(self.end[e, k] == self.start[e, k] + alpha + move * carried)

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

    def a_chunk_is_sent_after_it_has_come(self) -> None:
        """Add that a message starts when all of its chunks are at the link's source."""
        for (e, k, c), sends in self.sends.items():
            self.model.add(self.at[c, self.ends[e][0]] <= self.start[e, k]).only_enforce_if(sends)

    def a_chunk_has_come_when_its_message_ends(self) -> None:
        """Add that all chunks of a message are at the link's target when it ends."""
        for (e, k, c), sends in self.sends.items():
            self.model.add(self.at[c, self.ends[e][1]] == self.end[e, k]).only_enforce_if(sends)

    def a_chunk_comes_once(self) -> None:
        """Add that each chunk comes once to all that must have it, and at most once to others."""
        for (c, n), arriving in self._by_rank(1).items():
            if self.instance.wanters[self.instance.item[c], n]:
                self.model.add_exactly_one(arriving)
            else:
                self.model.add_at_most_one(arriving)

    def a_rank_sends_what_came(self) -> None:
        """Add that a rank that need not have a chunk sends it only if it comes; the others have it anyway."""
        leaving = self._by_rank(0)
        for (c, n), arriving in self._by_rank(1).items():
            if not self.instance.wanters[self.instance.item[c], n]:
                for sends in leaving.get((c, n), ()):
                    self.model.add_bool_or([*arriving, sends.negated()])

    def _by_rank(self, side: int) -> dict[tuple[int, int], list[Any]]:
        """Return what leaves a rank (side 0) or arrives there (1), by (chunk, rank)."""
        table: dict[tuple[int, int], list[Any]] = {}
        for (e, _, c), sends in self.sends.items():
            table.setdefault((c, self.ends[e][side]), []).append(sends)
        return table

    def the_end_is_after_every_arrival(self) -> None:
        """Add the objective: when the last chunk is where it must be."""
        wanted = self.instance.missing[self.instance.item]
        self.last = self.model.new_int_var(self.least, self.deadline, "last")
        self.model.add_max_equality(self.last, [self.at[int(c), int(n)] for c, n in np.argwhere(wanted)])
        self.model.minimize(self.last)

    def rows(self, solver: cp_model.CpSolver) -> list[TickRow]:
        """Return the rows of a solution."""
        return [
            TickRow(solver.value(self.start[e, k]), e, c)
            for (e, k, c), sends in self.sends.items()
            if solver.value(sends)
        ]
