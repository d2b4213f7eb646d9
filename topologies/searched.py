"""Diamond and the modified de Bruijn networks, which the dissertation only shows as pictures (Figs A.8, A.9).

They were found by search for what Table A.3 says of them: size, degree, no self-loop, no parallel links,
whether they are reverse-symmetric, and an allgather of T_L steps that is BW-optimal. That such a schedule
exists was decided by CP-SAT: every shard is cut into d equal chunks, a boolean says whether a chunk crosses a
link in a step, a chunk arrives at each rank exactly once and leaves one only after it arrived, and all links
carry equally much in each step, N - 1 chunks in all. That fewer steps don't suffice, however shards are cut,
follows from the linear relaxation of that model.

Diamond. Of the 256 networks of 8 ranks, in- and out-degree 2 and diameter 3 (without self-loops and parallel
links, up to isomorphism), 20 have a BW-optimal allgather of 3 steps with shards in 2 or 4 parts. Two of these
give the all-to-all throughput of Table A.1 for Diamond^2, 1.87e-2 (exactly 3/160): the one below and its
transpose. Neither is reverse-symmetric, as Table A.3 says of Diamond.

Modified de Bruijn. By the caption of Fig A.9, the self-loops and 2-cycles of DBJ(d, n) are rewired to form a
single long cycle: their arcs are removed, and the nodes that they joined are visited in some order.

- DBJMod(2, 3): nodes 000, 010, 101, 111. All four cycles that differ are reverse-symmetric and take 4 steps,
  and no table tells them apart. The order of DBJMod(2, 4) is taken.
- DBJMod(2, 4): nodes 0000, 0101, 1010, 1111. Only one cycle and its transpose have diameter 4 (Table A.1) and
  are not reverse-symmetric. All-to-all throughput of its square 2.94e-3, as in Table A.1.
- DBJMod(3, 2): all nodes. The first cycle in lexicographic order whose network has diameter 2, the least; it
  needs 3 steps. No table tells it from others.
- DBJMod(4, 2): all nodes. A cycle that adding 1 to both letters (modulo 4) moves along itself: 00, 23, 10,
  20, then 11, 30, 21, 31, and so on. Of the 148 such cycles (up to renaming letters) the 65 of least total
  distance were tried. Three, and their transposes, have diameter 3, a BW-optimal allgather of 3 steps and
  the all-to-all throughput that Table A.1 gives for the line graph, 2.21e-2 (2.2093e-2), and
  for its line graph, 4.10e-3 (4.096e-3); this is the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from topologies.assembly import Values, assemble
from topologies.errors import InputError
from topologies.exact import BoolArray, Int64Array
from topologies.topology import Topology

_DIAMOND = ((1, 2), (3, 4), (5, 6), (2, 6), (0, 7), (3, 4), (1, 7), (0, 5))
"""The two ranks that each of the 8 sends to."""

_CYCLES: Mapping[tuple[int, int], Sequence[int]] = {
    (2, 3): (0, 2, 5, 7),
    (2, 4): (0, 5, 10, 15),
    (3, 2): (0, 3, 1, 7, 2, 6, 4, 8, 5),
    (4, 2): (0, 11, 4, 8, 5, 12, 9, 13, 10, 1, 14, 2, 15, 6, 3, 7),
}
"""The long cycle of DBJMod(d, n), by (d, n)."""


def diamond(*, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return Diamond: 8 ranks of degree 2, an allgather that is Moore- and BW-optimal (3 steps).

    Source: dissertation, Table A.3 and Fig A.8; found as this module says, up to transposition.

    Examples
    --------
    >>> diamond().degree
    2
    """
    targets = np.array(_DIAMOND)
    source = np.repeat(np.arange(len(targets)), targets.shape[1])
    return assemble("diamond", len(targets), [(source, targets.reshape(-1))], bandwidth, alpha)


def modified_de_bruijn(
    degree: int, length: int, *, bandwidth: Values = None, alpha: Values = None
) -> Topology:
    """Return DBJMod(d, n): DBJ(d, n) with its self-loops and 2-cycles rewired to one long cycle.

    Links are numbered by source; the one on the cycle comes last. Source: dissertation, Table A.3 and
    Fig A.9; the cycle was found as this module says.

    Parameters
    ----------
    degree, length
        d and n, one of the four of Table A.3.
    bandwidth, alpha
        One for all links.

    Raises
    ------
    InputError
        If it is none of the four.
    """
    name = f"modified_debruijn:{degree},{length}"
    if (degree, length) not in _CYCLES:
        known = ", ".join(f"{d},{n}" for d, n in _CYCLES)
        raise InputError(f"topology {name}: modified de Bruijn networks are those of {known}")
    ranks = degree**length
    source = np.repeat(np.arange(ranks), degree)
    target = (degree * source + np.tile(np.arange(degree), ranks)) % ranks
    kept = ~_returns(source, target)
    cycle = np.array(_CYCLES[degree, length])
    source = np.concatenate([source[kept], cycle])
    target = np.concatenate([target[kept], np.roll(cycle, -1)])
    return assemble(name, ranks, [(source, target)], bandwidth, alpha)


def _returns(source: Int64Array, target: Int64Array) -> BoolArray:
    """Return which arcs are self-loops or have an arc the other way."""
    arcs = set(zip(source.tolist(), target.tolist(), strict=True))
    return np.array([(v, u) in arcs for u, v in zip(source.tolist(), target.tolist(), strict=True)])
