"""The machine that NCCL would find in a network: its hosts, GPUs, NVLinks and adapters, and its channels.

A host's *adapters* are the links that leave it. The bandwidth of a GPU inside is that of its links to nodes
of its host, except to switches that have an adapter: PCIe leads there. The generation of the GPUs is the one
whose NVLinks are rated nearest to that bandwidth, unless it is given.

NCCL searches for c channels of one speed v, of a table of speeds from fast to slow, such that c v is largest.
At most 16 channels are allowed. They must fit into the bandwidth of a GPU inside and, with one adapter each,
into the adapters. If they are fast, NCCL then takes twice as many of half the speed. Its search goes over
paths in a tree of PCIe switches and relaxes rules in turn. With equal adapters, each near to a GPU, the
result is this, as on a DGX A100 (12 channels of 20 GB/s) and a DGX H100 (12 of 30 GB/s).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from tutti.heuristics.hosts import HostOptions
from tutti.heuristics.nccl.model import (
    GENERATIONS,
    POSTING,
    PROTOCOLS,
    Algorithm,
    Channels,
    Generation,
    NcclCluster,
)
from tutti.topologies.exact import BoolArray, FloatArray, Int64Array
from tutti.topologies.graphs.grid_structure import Hosts
from tutti.topologies.options import Choice, Number, Whole
from tutti.topologies.topology import Topology
from tutti.topologies.units import GIGA


class ChannelSearch(NamedTuple):
    """Constants of NCCL's search for channels."""

    most_channels: int
    """Largest number of channels."""
    least_part: float
    """Fraction of the best channels' speed below which channels are not tried."""
    few: int
    """Largest number of channels that are split in two at any speed from `duplicated` on. More channels are
    split at speeds from the generation's `whole` on."""
    duplicated: float
    """Least speed of a channel that is split, in GB/s."""


SEARCH = ChannelSearch(most_channels=16, least_part=0.49, few=4, duplicated=25.0)


@dataclass(frozen=True)
class NcclOptions(HostOptions):
    """Options of NCCL's model.

    Parameters
    ----------
    generation
        Generation of the GPUs; None: the one whose NVLinks are nearest to the network's.
    cpu
        The vendor of the processors.
    algorithm, protocol
        The algorithm and protocol instead of the model's choice, as ``NCCL_ALGO`` and ``NCCL_PROTO`` set
        them.
    channels
        Number of channels; None: as NCCL's search would find. More than that share the same bandwidth.
    latency
        Microseconds that the network takes in addition to NCCL's constants.

    Raises
    ------
    InputError
        If one is out of its range.
    """

    OWNER: ClassVar[str] = "nccl"

    generation: Annotated[str | None, Choice(tuple(GENERATIONS))] = None
    cpu: Annotated[str, Choice(tuple(POSTING))] = "intel"
    algorithm: Annotated[str | None, Choice(tuple(map(str, Algorithm)))] = None
    protocol: Annotated[str | None, Choice(tuple(map(str, PROTOCOLS)))] = None
    channels: Annotated[int | None, Whole(1, 32)] = None
    latency: Annotated[float, Number(least=0, most=1e6)] = 0.0


def cluster_of(topology: Topology, hosts: Hosts, every: Int64Array, options: NcclOptions) -> NcclCluster:
    """Return the machine for the model.

    Parameters
    ----------
    topology, hosts
        The network and its hosts.
    every
        The rounds through a host's GPUs that share no link, one a row (`method.rounds_of`).
    options
        The options of NCCL's model.
    """
    count, gpus = hosts.ranks.shape
    source, target = topology.source, topology.target
    gate = np.zeros(topology.num_nodes, dtype=np.bool_)
    gate[source[_leaving(topology, hosts)]] = True
    gate[: topology.num_ranks] = False
    near = (source < topology.num_ranks) & (hosts.of[source] == hosts.of[target]) & ~gate[target]
    rates = np.bincount(source[near], _rates(topology)[near], minlength=topology.num_ranks)
    inside = float(rates.min())
    # The generation whose NVLinks are rated nearest, by the quotient.
    name = options.generation or min(
        GENERATIONS, key=lambda known: abs(math.log(max(inside, 1e-9) / GENERATIONS[known].rated))
    )
    known = GENERATIONS[name]
    most = min(known.nvlink, inside) if gpus > 1 else math.inf
    channels = search(known, most, _adapters(topology, hosts) if count > 1 else None)
    if options.channels is not None:
        share = min(1.0, channels.number / options.channels)
        channels = Channels(options.channels, channels.inside * share, channels.between * share)
    switched = switches_of_hosts(topology, hosts) is not None
    # With one host and one round, the rings of all channels have the same order.
    return NcclCluster(
        generation=name,
        hosts=count,
        gpus=gpus,
        channels=channels,
        nvls=_switched(known, most, count, gpus, channels) if switched else None,
        cpu=options.cpu,
        latency=options.latency,
        alike=count == len(every) == 1,
    )


def search(known: Generation, most: float, adapters: FloatArray | None) -> Channels:
    """Return the channels of rings and trees.

    Parameters
    ----------
    known
        The generation's constants.
    most
        GB/s of a GPU inside its host.
    adapters
        GB/s of each adapter of a host; None: there is one host.

    Examples
    --------
    >>> search(GENERATIONS["hopper"], 370.8, None), search(GENERATIONS["ampere"], 240.0, np.full(8, 25.0))
    (Channels(number=12, inside=30.0, between=30.0), Channels(number=8, inside=24.0, between=24.0))
    """
    speeds = known.inside if adapters is None else known.between
    number, speed = 0, 0.0
    for slower in speeds:
        if number and slower < SEARCH.least_part * speed:
            break
        between = math.inf if adapters is None else float(np.floor(adapters / slower).sum())
        fitting = int(min(most / slower, between, SEARCH.most_channels))
        if fitting and fitting * slower > number * speed:
            number, speed = fitting, slower
    if not number:  # NCCL falls back to one channel in the order of ranks
        return Channels(1, 0.1, 0.1)
    if speed >= max(SEARCH.duplicated, 0.0 if number <= SEARCH.few else known.whole):
        twice = min(2 * number, SEARCH.most_channels)
        number, speed = twice, speed / -(-twice // number)
    return Channels(number, speed, speed)


def _switched(known: Generation, most: float, hosts: int, gpus: int, rings: Channels) -> Channels:
    """Return the channels of NVLS: on one host 16 that share its GPUs' bandwidth, else those of rings."""
    if hosts > 1:
        return rings
    total = most * gpus / max(1, gpus - 1)
    speed = next((one for one in known.inside if one * SEARCH.most_channels <= total), known.inside[-1])
    return Channels(SEARCH.most_channels, speed, speed)


def switches_of_hosts(topology: Topology, hosts: Hosts) -> list[int] | None:
    """Return for each host the first switch that adds and multicasts and that all its ranks are linked to."""
    able = sorted(topology.multicast & topology.aggregate)
    pairs = set(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
    found = []
    for ranks in hosts.ranks.tolist():
        joined = (one for one in able if all({(rank, one), (one, rank)} <= pairs for rank in ranks))
        found += list(joined)[:1]
    return found if len(found) == len(hosts.ranks) and hosts.ranks.shape[1] > 1 else None


def _leaving(topology: Topology, hosts: Hosts) -> BoolArray:
    """Return which links leave a host."""
    leaving: BoolArray = (hosts.of[topology.source] >= 0) & (
        hosts.of[topology.source] != hosts.of[topology.target]
    )
    return leaving


def _adapters(topology: Topology, hosts: Hosts) -> FloatArray:
    """Return the GB/s of each link that leaves a host, for the host with the least in all."""
    links = np.flatnonzero(_leaving(topology, hosts))
    of, rates = hosts.of[topology.source[links]], _rates(topology)[links]
    # All hosts run the same channels, so the host with the least bandwidth decides.
    least = int(np.bincount(of, rates, minlength=len(hosts.ranks)).argmin())
    return rates[of == least]


def _rates(topology: Topology) -> FloatArray:
    """Return the GB/s of each link."""
    return topology.bandwidth.numerators / float(topology.bandwidth.denominator * GIGA)
