"""Whether links earn no more than is said from prices in time: what the check of `timetables` needs.

It shares no code with `models.allreduce.timetables`, which finds the prices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from topologies.exact import Int64Array
from topologies.topology import Topology

_View = tuple[int, int, int, int]
"""How a pair sees a link: rows of prices of tail and head, and moments: not used before, and not after."""
_APART = 1, 0, 1, 1
"""Of `_coefficients`: how many columns from the diagonal on p is before q."""


@dataclass(frozen=True, eq=False)
class Timetable:
    """Prices of a byte of each pair at each node at each knot; see `models.bounds.check`.

    Parameters
    ----------
    topology
        The network.
    alpha
        Of each link, in the units of time of the knots.
    knots
        int64: they rise, from 0 to T.
    transfer
        The price of a byte that a message takes from its sender.
    come, left
        α-distances of each pair: from its start to each node, from each to its end.
    rows
        Which row of prices each node has, of each pair.
    prices
        int64, shape (rows, knots): they do not rise.
    """

    topology: Topology
    alpha: Sequence[int]
    knots: Int64Array
    transfer: int
    come: Sequence[Sequence[int]]
    left: Sequence[Sequence[int]]
    rows: Sequence[Sequence[int]]
    prices: Int64Array
    _seen: set[tuple[object, ...]] = field(default_factory=set)

    def earns_no_more(self, link: int, earned: Int64Array) -> bool:
        """Return whether messages on the link are worth no more than what it is said to earn meanwhile."""
        tail, head = int(self.topology.source[link]), int(self.topology.target[link])
        sees = zip(self.rows, self.come, self.left, strict=True)
        views: Counter[_View] = Counter(
            (row[tail], row[head], come[tail], int(self.knots[-1]) - left[head])
            for row, come, left in sees
            if come[tail] >= 0 and left[head] >= 0
        )
        key = tuple(sorted(views.items())), self.alpha[link], tail < self.topology.num_ranks, earned.tobytes()
        if key not in self._seen:
            length = self.knots - self.knots[:, None]
            room = np.maximum(length - self.alpha[link], 0)
            allowed = _coefficients(earned - earned[:, None], np.ones_like(length))
            sorts = [self._through(views, self.alpha[link], room)]
            if tail < self.topology.num_ranks:
                sorts.append(self._begun(views, room))
            for worth in sorts:
                for much, most, apart in zip(worth, allowed, _APART, strict=True):
                    if np.triu(much > most, apart).any():
                        return False
            self._seen.add(key)
        return True

    def _begun(self, views: Counter[_View], room: Int64Array) -> list[Int64Array]:
        """Return the coefficients of what messages that begin at the tail are worth."""
        worth = _coefficients(np.full_like(room, self.transfer), room)
        for (tail, head, come, late), often in views.items():
            gain = self.prices[head] - self.prices[tail][:, None]
            self._add(worth, gain, room, (come, late), often)
        return worth

    def _through(self, views: Counter[_View], alpha: int, room: Int64Array) -> list[Int64Array]:
        """Return the coefficients of what messages that come through the tail are worth."""
        worth = _coefficients(np.zeros_like(room), room)
        # A later knot is no cheaper. Where α before both ends of a cell is in another cell, its ends will do.
        ago = np.searchsorted(self.knots, self.knots - alpha)
        start = np.append(np.maximum(ago[:-1], ago[1:] - 1), ago[-1])
        for (tail, head, come, late), often in views.items():
            gain = self.prices[head] - self.prices[tail][start]
            if not self.topology.bandwidth.uniform:  # it may have left a slower link later than this one
                last = int(np.searchsorted(self.knots, late)) + 1
                gain[:last] = np.maximum.accumulate(gain[:last][::-1])[::-1]
            self._add(worth, np.broadcast_to(gain, room.shape), room, (come, late), often)
        return worth

    def _add(
        self,
        worth: list[Int64Array],
        gain: Int64Array,
        room: Int64Array,
        used: tuple[int, int],
        often: int,
    ) -> None:
        """Add what is gained in the cells in which a link may be of use."""
        come, late = used
        first = int(np.searchsorted(self.knots, come, side="right")) - 1
        last = int(np.searchsorted(self.knots, late))
        if first < last:
            gains = _coefficients(gain[first:, : last + 1], room[first:, : last + 1])
            for total, part in zip(worth, gains, strict=True):
                total[first:, : part.shape[1]] += often * np.maximum(part, 0)


def _coefficients(one: Int64Array, two: Int64Array) -> list[Int64Array]:
    """Return a product's coefficients: at knots, twice at a knot and a cell, four times at two cells."""
    return [
        one * two,
        one[:, :-1] * two[:, 1:] + one[:, 1:] * two[:, :-1],
        one[:-1] * two[1:] + one[1:] * two[:-1],
        (one[:-1, :-1] * two[1:, 1:] + one[1:, 1:] * two[:-1, :-1])
        + (one[:-1, 1:] * two[1:, :-1] + one[1:, :-1] * two[:-1, 1:]),
    ]
