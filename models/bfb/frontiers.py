"""The breadth-first frontiers of a topology: which links can bring which shards to which node, in which step.

In a BFB allgather (dissertation, Definition 15) node u receives v's shard in step t = d(v, u), over in-links
(w, u) with d(v, w) = t - 1. So all that a subproblem (u, t) consists of is the set of sources v at distance t
and, for each, its *eligible* in-links. Sources with equal eligible links form a *class*; subproblems whose
classes have equal links and equal sizes form a *pattern*, which is solved once.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tutti.topologies.errors import NoSchedule
from tutti.topologies.exact import Int32Array, Int64Array, offsets_of
from tutti.topologies.graphs.heaps import stable_pass
from tutti.topologies.graphs.shortest_paths import hop_distances
from tutti.topologies.kernels import kernel
from tutti.topologies.topology import Topology

UInt8Array = npt.NDArray[np.uint8]

MOST_NODES = 20_000
"""Largest number of nodes: counting takes 10 bytes a pair of nodes, a schedule 30."""


@dataclass(frozen=True, eq=False)
class Frontiers:
    """Sources by (u, t) and class. Subproblem (u, t) has row ``u * steps + t - 1`` of `jobs`.

    Parameters
    ----------
    topology
        The network, without switches.
    steps
        D(G), the diameter.
    sources
        int32, shape (N (N - 1),): for each u in turn its sources v, by step, then class, then number.
    offsets
        int64, shape (classes + 1,): the sources of class c are sources[offsets[c] : offsets[c + 1]].
    eligible
        uint8, shape (classes, bytes): bit i (bit i % 8 of byte i // 8) is set where the i-th in-link of u
        (as in `Topology.in_links`) is eligible.
    jobs
        int64, shape (N * steps + 1,): the classes of subproblem j are jobs[j]..jobs[j + 1] - 1.
    """

    topology: Topology
    steps: int
    sources: Int32Array
    offsets: Int64Array
    eligible: UInt8Array
    jobs: Int64Array


class Patterns(NamedTuple):
    """The distinct subproblems, as lists of classes with the links that each may use (a kernel's argument).

    Parameters
    ----------
    of_job
        int32, shape (N * steps,): the pattern of each subproblem.
    offsets
        int64, shape (patterns + 1,): the classes of pattern p are offsets[p]..offsets[p + 1] - 1. One pattern
        may have none.
    size
        int64, shape (classes,): sources in each class.
    starts
        int64, shape (classes + 1,): the entries of class c, one for each eligible in-link, are
        starts[c]..starts[c + 1] - 1.
    link
        int32, shape (entries,): the in-link's position among those of u, increasing in a class.
    num_links
        The largest in-degree.
    """

    of_job: Int32Array
    offsets: Int64Array
    size: Int64Array
    starts: Int64Array
    link: Int32Array
    num_links: int


def frontiers(topology: Topology) -> Frontiers:
    """Return which shards each node must receive in each step, and over which links they can come.

    Raises
    ------
    NoSchedule
        If there are more nodes than `MOST_NODES`.
    """
    if topology.num_ranks > MOST_NODES:
        raise NoSchedule(f"bfb on {topology.name}: {topology.num_ranks} nodes; at most {MOST_NODES}")
    towards = np.ascontiguousarray(hop_distances(topology).T, dtype=np.int32)
    offsets, links = topology.in_links
    width = -(-int(topology.in_degrees.max()) // 8)  # bytes with a bit for each link
    steps = int(towards.max())
    grouped = _group(towards, offsets, topology.source[links], steps, width)
    sources, begins, eligible, jobs, classes = grouped
    return Frontiers(topology, steps, sources, begins[: classes + 1].copy(), eligible[:classes].copy(), jobs)


def distinct_patterns(work: Frontiers) -> Patterns:
    """Return the distinct subproblems, in the order in which they first occur."""
    width = work.eligible.shape[1]
    counts = np.diff(work.offsets).view(np.uint8).reshape(len(work.eligible), -1)
    rows = np.concatenate([work.eligible, counts], axis=1)
    row_bytes, text = rows.shape[1], rows.tobytes()
    edges = (work.jobs * row_bytes).tolist()
    numbers: dict[bytes, int] = {}
    of_job = np.empty(len(edges) - 1, dtype=np.int32)
    for job, (begin, end) in enumerate(pairwise(edges)):
        of_job[job] = numbers.setdefault(text[begin:end], len(numbers))
    table = np.frombuffer(b"".join(numbers), dtype=np.uint8).reshape(-1, row_bytes)
    sizes = np.array([len(key) // row_bytes for key in numbers], dtype=np.int64)
    bits = np.unpackbits(table[:, :width], axis=1, bitorder="little")
    size = np.ascontiguousarray(table[:, width:]).view(np.int64).ravel()
    return Patterns(
        of_job,
        offsets_of(sizes),
        size,
        offsets_of(bits.sum(axis=1, dtype=np.int64)),
        np.nonzero(bits)[1].astype(np.int32),
        int(work.topology.in_degrees.max()),
    )


def count_variables(work: Frontiers) -> int:
    """Return the number of variables of all linear programs: an x a source and eligible link, and U."""
    links = np.unpackbits(work.eligible, axis=1).sum(axis=1, dtype=np.int64)
    return int(links @ np.diff(work.offsets)) + int(np.count_nonzero(np.diff(work.jobs)))


@kernel
def _group(
    towards: Int32Array, in_offsets: Int64Array, in_sources: Int32Array, steps: int, width: int
) -> tuple[Any, Any, Any, Any, int]:
    """Sort each node's sources by (distance, eligible links) and mark where classes and steps begin.

    towards[u, v] = d(v, u), so that all reads run along rows.
    """
    n = towards.shape[0]
    sources = np.empty(n * (n - 1), np.int32)
    offsets = np.empty(n * (n - 1) + 1, np.int64)
    eligible = np.empty((n * (n - 1), width), np.uint8)
    jobs = np.zeros(n * steps + 1, np.int64)
    marks = np.empty((width, n), np.uint8)
    classes = 0
    for u in range(n):
        _mark(towards, u, in_sources[in_offsets[u] : in_offsets[u + 1]], marks)
        # A radix sort: passes are stable, so the last one, by distance, is the first criterion.
        order = np.arange(n)
        for byte in range(width):
            order = stable_pass(order, marks[byte], 256)
        order = stable_pass(order, towards[u], steps + 1)
        for i in range(1, n):  # order[0] is u itself
            v, last = order[i], order[i - 1]
            sources[u * (n - 1) + i - 1] = v
            # A class begins where the distance or the links change; `jobs` has their number up to each step.
            if towards[u, v] != towards[u, last] or _differ(marks, v, last):
                offsets[classes] = u * (n - 1) + i - 1
                for byte in range(width):
                    eligible[classes, byte] = marks[byte, v]
                classes += 1
                jobs[u * steps + towards[u, v]] = classes
        for t in range(1, steps + 1):  # a node with no source at some distance
            jobs[u * steps + t] = max(jobs[u * steps + t], jobs[u * steps + t - 1])
    offsets[classes] = len(sources)
    return sources, offsets, eligible, jobs, classes


@kernel
def _mark(towards: Int32Array, u: int, neighbours: Int32Array, marks: UInt8Array) -> None:
    """Set bit i of v where the i-th in-link of u starts one hop nearer to v than u is."""
    marks[:] = 0
    here = towards[u]
    for i in range(len(neighbours)):
        there, row, bit = towards[neighbours[i]], marks[i >> 3], np.uint8(1 << (i & 7))
        for v in range(len(here)):
            if there[v] + 1 == here[v]:
                row[v] |= bit


@kernel
def _differ(marks: UInt8Array, v: int, w: int) -> bool:
    """Return whether two sources have different eligible links."""
    differ = False
    for byte in range(marks.shape[0]):
        differ |= marks[byte, v] != marks[byte, w]
    return differ
