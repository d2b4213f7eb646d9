"""Equations 12 to 14 by substitution: variables that symmetry makes equal are one variable.

For permutations of chunks, links and ranks, send[c, l] and send[ĉ, l̂] are in one orbit, start[c, r] and
start[ĉ, r̂] in another. The representative of an orbit is its least pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from models.taccl.demand import Demand
from topologies.exact import Int64Array
from topologies.permutations import orbits_of


@dataclass(frozen=True, eq=False)
class Orbits:
    """The orbits of a demand's symmetry.

    Parameters
    ----------
    demand
        With the permutations.
    """

    demand: Demand

    @cached_property
    def sent(self) -> Int64Array:
        """int64 (chunks, links): c · links + l of the representative of each pair."""
        return self._orbits(len(self.demand.logical.links), 1)

    @cached_property
    def started(self) -> Int64Array:
        """int64 (chunks, ranks): c · ranks + r of the representative of each pair."""
        return self._orbits(self.demand.logical.topology.num_ranks, 2)

    def _orbits(self, count: int, which: int) -> Int64Array:
        chunks = len(self.demand)
        maps = [
            (permutations[0][:, None] * count + permutations[which][None, :]).ravel()
            for permutations in self.demand.symmetry
        ]
        if not maps:
            return np.arange(chunks * count).reshape(chunks, count)
        return orbits_of(np.array(maps), chunks * count).astype(np.int64).reshape(chunks, count)
