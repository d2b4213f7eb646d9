r"""NCCL 2.30.7's model of the time of a collective, by algorithm and protocol; it chooses the least.

A time is

.. math:: T = L_{ap} + M / B_{ap},

with M the whole buffer (of an allgather the output, of a reduce-scatter the input). On h hosts of g GPUs, n =
hg, a ring takes s steps: 2(n - 1) for an allreduce, n - 1 for an allgather or a reduce-scatter, n for a
broadcast or a reduce. i of them are between hosts: the same numbers with h for n. The latency has the base
latency :math:`L_0`, the hop inside a host l and the hop between hosts m. m grows by the network's own
latency, twice for Simple; with one GPU a host it is the tree's.

- ring: :math:`L_0 + (s - i)\,l + i\,m`, where l is at least the cost of posting to the network. A broadcast
  or a reduce takes :math:`L_0 + l`, or :math:`L_0 + s\,l` if channels are rings of different order.
- tree: :math:`L_0 + 2((g - 1)\,l + \lfloor\log_2 h\rfloor\,m)`.
- NVLS: l, and m on several hosts; NVLS tree: :math:`L_0 + l + 2\lfloor\log_2 h\rfloor\,m`.
- PAT: :math:`L_0 + \lfloor\log_2 h\rfloor\,m/3.5 + 2.8\,n`.

The bandwidth is that of c channels of speed v, reduced by the cost of the protocol and by the limit of a
channel, or of LL. B is n/s times that for a ring, and for NVLS in an allreduce; it is half of it for a tree,
and for most others all of it. Trees fall short of that by a factor that depends on the size, and the latency
of a ring with Simple grows on several hosts.

The numbers are in ``constants.toml``. Latencies are in microseconds, bandwidths in GB/s (10^9 bytes a
second). Triples of protocols are in the order of `PROTOCOLS`; triples of hosts are for one, two, and more.

Source: NVIDIA/nccl 5067397c, ``src/graph/tuning.cc``, ``search.cc``. NVLS on several hosts and CollNet, which
need switches that add in the network, are left out, as NCCL does without such a plug-in.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from tutti.schedules.collective import Kind

VERSION = "2.30.7"


class Algorithm(StrEnum):
    """The algorithms, by NCCL's names, which the files of its tuners use, in NCCL's order."""

    TREE = "tree"
    RING = "ring"
    NVLS = "nvls"
    NVLS_TREE = "nvls_tree"
    PAT = "pat"


class Protocol(StrEnum):
    """The protocols: a message marks its arrival by a flag in each 8 bytes, in each 128, or after it."""

    LL = "ll"
    LL128 = "ll128"
    SIMPLE = "simple"


class Wire(StrEnum):
    """The kind of wire of a hop."""

    NVLINK = "nvlink"
    PCIE = "pcie"
    NETWORK = "network"


PROTOCOLS = tuple(Protocol)
Triple = tuple[float, float, float]


@dataclass(frozen=True)
class Generation:
    """A generation of GPUs.

    Parameters
    ----------
    nvlink
        The bandwidth of all NVLinks of a GPU in NCCL's model.
    rated
        Their advertised bandwidth, by which a network's generation is recognized.
    ll_most
        Largest bandwidth of LL on one host.
    ring_ll128, tree, tree_ll128, nvls_tree
        Largest bandwidth of a channel, by hosts: rings with LL128, trees, those with LL128, trees of NVLS.
    nvls
        The fraction of the bandwidth that a switch reaches which adds and multicasts; 0: it can't.
    plateau
        The factor by which the latency of a ring with Simple grows on several hosts.
    inside, between
        The speeds that the search of channels tries, on one host and on several.
    whole
        From this speed on, more than a few channels are halved (`heuristics.nccl.machine`).
    """

    nvlink: float
    rated: float
    ll_most: float
    ring_ll128: Triple
    tree: Triple
    tree_ll128: Triple
    nvls_tree: Triple
    nvls: float
    plateau: float
    inside: tuple[float, ...]
    between: tuple[float, ...]
    whole: float


_TABLES = tomllib.loads(Path(__file__).with_name("constants.toml").read_text(encoding="utf-8"))

BASE: Mapping[str, Triple] = _TABLES["base"]
"""Latency before anything moves, by algorithm, as a triple of protocols."""
HOP: Mapping[str, Mapping[str, Triple]] = _TABLES["hop"]
"""Latency of a hop, by wire and algorithm, as a triple of protocols; for NVLS, of all inside a host."""
TREE_FACTORS: Mapping[str, Sequence[float]] = _TABLES["tree_factors"]
"""Factors by which trees fall short of the model at 64 bytes, 128, 256, and so on, by protocol."""
LEAST_SIZE = 64
"""The size in bytes of the first of these factors."""

POSTING: Mapping[str, float] = _TABLES["posting"]
"""Latency of posting to the network, by the vendor of the processor; Simple posts `SIMPLE_POSTS` times."""
SIMPLE_POSTS = 3
LL_MOST: Mapping[str, Triple] = _TABLES["ll_most"]
"""Largest bandwidth of LL, by the vendor and hosts; on one host `Generation.ll_most` counts."""

GENERATIONS = {
    name: Generation(**known | {"nvlink": math.prod(known["nvlink"])})
    for name, known in _TABLES["generation"].items()
}

KINDS = (Kind.BROADCAST, Kind.REDUCE, Kind.ALLGATHER, Kind.REDUCE_SCATTER, Kind.ALLREDUCE)
"""Collectives for which NCCL has algorithms; its all-to-all is sends and receives."""


class Channels(NamedTuple):
    """The number of channels that NCCL's search finds, and the GB/s of each inside hosts and between them."""

    number: int
    inside: float
    between: float


@dataclass(frozen=True)
class NcclCluster:
    """The properties of a machine that the model uses.

    Parameters
    ----------
    generation
        One of `GENERATIONS`.
    hosts, gpus
        The number of hosts, and of GPUs in each.
    channels
        The channels of rings and trees.
    nvls
        The channels of NVLS; None: its switches do not add and multicast.
    cpu
        The vendor of the processors, one of `POSTING`.
    wire
        The wire between the GPUs of a host.
    latency
        Additional microseconds of the network.
    alike
        Whether the rings of all channels have the same order.
    plain_trees
        Whether the search found only trees whose root does all the sending of its host.
    """

    generation: str
    hosts: int
    gpus: int
    channels: Channels
    nvls: Channels | None = None
    cpu: str = "intel"
    wire: Wire = Wire.NVLINK
    latency: float = 0.0
    alike: bool = True
    plain_trees: bool = False

    def __str__(self) -> str:
        number, inside, between = self.channels
        speed = f"{inside if self.hosts <= 2 else between:g} GB/s"
        return (
            f"{self.hosts} host{'s' * (self.hosts > 1)} of {self.gpus} {self.generation.capitalize()} "
            f"GPU{'s' * (self.gpus > 1)}, {number} channel{'s' * (number > 1)} of {speed}"
        )

    @property
    def ranks(self) -> int:
        """The number of GPUs."""
        return self.hosts * self.gpus

    @property
    def known(self) -> Generation:
        """The generation's constants."""
        return GENERATIONS[self.generation]

    @property
    def depth(self) -> int:
        """The height of the tree of hosts."""
        return self.hosts.bit_length() - 1

    @property
    def row(self) -> int:
        """The place of its number of hosts in the triples of the constants."""
        return min(self.hosts, 3) - 1


class Estimate(NamedTuple):
    """The model's time, in microseconds, of an algorithm with a protocol."""

    algorithm: Algorithm
    protocol: Protocol
    micros: float


def choice(cluster: NcclCluster, kind: Kind, size: float) -> Estimate:
    """Return NCCL's choice for M = `size` bytes, the first of the fastest in NCCL's order.

    Examples
    --------
    >>> machine = NcclCluster("ampere", 1, 8, Channels(12, 20.0, 20.0))
    >>> choice(machine, Kind.ALLREDUCE, 2**30).algorithm.value
    'ring'
    """
    return min(estimates(cluster, kind, size), key=lambda one: one.micros)


def estimates(cluster: NcclCluster, kind: Kind, size: float) -> Iterator[Estimate]:
    """Yield the time of every algorithm and protocol that NCCL has for a collective, in its order."""
    for algorithm in Algorithm:
        for protocol in PROTOCOLS:
            if exists(cluster, kind, algorithm, protocol):
                yield Estimate(algorithm, protocol, micros(cluster, kind, algorithm, protocol, size))


def exists(cluster: NcclCluster, kind: Kind, algorithm: Algorithm, protocol: Protocol) -> bool:
    """Whether NCCL has the algorithm with the protocol for the collective on such a machine."""
    if protocol is Protocol.LL128 and cluster.wire is not Wire.NVLINK:
        return False
    if algorithm is Algorithm.RING:
        return True
    if algorithm is Algorithm.TREE:
        return kind is Kind.ALLREDUCE
    if protocol is not Protocol.SIMPLE or kind in (Kind.BROADCAST, Kind.REDUCE):
        return False
    if algorithm is Algorithm.PAT:
        return kind is not Kind.ALLREDUCE and cluster.gpus == 1
    switched = cluster.nvls is not None and cluster.nvls.number > 1 and cluster.known.nvls > 0
    if algorithm is Algorithm.NVLS:
        return switched and cluster.hosts == 1
    return switched and cluster.hosts > 1 and kind is Kind.ALLREDUCE


def micros(cluster: NcclCluster, kind: Kind, algorithm: Algorithm, protocol: Protocol, size: float) -> float:
    """Return the microseconds that M = `size` bytes take."""
    wait, speed = latency(cluster, kind, algorithm, protocol), bandwidth(cluster, kind, algorithm, protocol)
    doubled = int(size // LEAST_SIZE).bit_length() - 1
    if algorithm is Algorithm.TREE and 0 <= doubled < len(TREE_FACTORS[protocol]):
        speed *= TREE_FACTORS[protocol][doubled]
    several = algorithm is Algorithm.RING and cluster.hosts > 1 and kind is Kind.ALLREDUCE
    in_a_channel = size // (cluster.channels.number * cluster.ranks)
    if several and protocol is Protocol.SIMPLE and in_a_channel >= LEAST_SIZE:
        wait *= cluster.known.plateau
    return wait + size / (1000 * speed)


def jumps(cluster: NcclCluster) -> list[int]:
    """Return the sizes, in bytes, at which times of `micros` may jump; between two they are linear."""
    steps_of_trees = [LEAST_SIZE << place for place in range(1 + max(map(len, TREE_FACTORS.values())))]
    return [*steps_of_trees, LEAST_SIZE * cluster.channels.number * cluster.ranks]


def steps(kind: Kind, nodes: int) -> int:
    """Return the steps of a ring of `nodes` ranks, or of `nodes` hosts."""
    return {Kind.ALLREDUCE: 2 * (nodes - 1), Kind.BROADCAST: nodes, Kind.REDUCE: nodes}.get(kind, nodes - 1)


def latency(cluster: NcclCluster, kind: Kind, algorithm: Algorithm, protocol: Protocol) -> float:
    """Return the microseconds of latency."""
    at = PROTOCOLS.index(protocol)
    base, inside = BASE[algorithm][at], HOP[cluster.wire][algorithm][at]
    between = HOP[Wire.NETWORK][Algorithm.TREE if cluster.gpus == 1 else algorithm][at]
    between += cluster.latency * (2 if protocol is Protocol.SIMPLE else 1)
    if algorithm is Algorithm.RING:
        return base + _round_latency(cluster, kind, protocol, inside, between)
    if algorithm is Algorithm.TREE:
        return base + 2 * ((cluster.gpus - 1) * inside + cluster.depth * between)
    if algorithm is Algorithm.NVLS:
        return inside + (between if cluster.hosts > 1 else 0.0)
    if algorithm is Algorithm.NVLS_TREE:
        return base + inside + 2 * cluster.depth * between
    return base + cluster.depth * between / 3.5 + 2.8 * cluster.ranks


def _round_latency(
    cluster: NcclCluster, kind: Kind, protocol: Protocol, inside: float, between: float
) -> float:
    """Return the latency of going round a ring."""
    count = steps(kind, cluster.ranks)
    if kind in (Kind.BROADCAST, Kind.REDUCE):
        chunked = protocol is Protocol.SIMPLE and not cluster.alike
        wire = Wire.NETWORK if cluster.hosts > 1 else cluster.wire
        hop = HOP[wire][Algorithm.TREE if chunked else Algorithm.RING][PROTOCOLS.index(protocol)]
        return hop if cluster.alike else count * hop
    if cluster.hosts == 1:
        return count * inside
    posting = POSTING[cluster.cpu] * (SIMPLE_POSTS if protocol is Protocol.SIMPLE else 1)
    across = steps(kind, cluster.hosts)
    return (count - across) * max(inside, posting) + across * between


def bandwidth(cluster: NcclCluster, kind: Kind, algorithm: Algorithm, protocol: Protocol) -> float:
    """Return the bandwidth B: GB/s of M."""
    if algorithm in (Algorithm.NVLS, Algorithm.NVLS_TREE):
        return _switch_bandwidth(cluster, kind, algorithm)
    number, inside, between = cluster.channels
    known, row = cluster.known, cluster.row
    every = number * (inside if cluster.hosts <= 2 else between)
    most = known.ll_most if cluster.hosts == 1 else LL_MOST[cluster.cpu][row]
    if algorithm is Algorithm.RING:
        if protocol is Protocol.LL:
            every = min(most, every / 2)
        if protocol is Protocol.LL128:
            every = min(every * 0.92, number * known.ring_ll128[row])
        return every * cluster.ranks / steps(kind, cluster.ranks)
    if algorithm is Algorithm.PAT:
        return every * 0.75
    every = min(every * 0.92, number * known.tree[row])
    if protocol is Protocol.LL:
        every = min(every / 3.8, most)
    if protocol is Protocol.LL128:
        flags = 7 / 9 if cluster.hosts == 1 else 120 / 128
        every = min(every * flags, number * known.tree_ll128[row])
    return every * (0.85 if cluster.plain_trees else 1.0) / 2


def _switch_bandwidth(cluster: NcclCluster, kind: Kind, algorithm: Algorithm) -> float:
    """Return B through switches that add and multicast: those of hosts, and trees between these."""
    number, inside, between = cluster.nvls or cluster.channels
    a_channel = inside * cluster.known.nvls * (number - 1) / number
    if kind is not Kind.ALLREDUCE:
        return number * min(a_channel * (cluster.gpus - 1) / cluster.gpus, between)
    least = min(2 * a_channel, between)
    if algorithm is Algorithm.NVLS_TREE:
        doubled = 2 * between if cluster.hosts <= 2 else between
        least = min(2 * a_channel, doubled, cluster.known.nvls_tree[cluster.row])
    return number * least * cluster.ranks / steps(kind, cluster.ranks)
