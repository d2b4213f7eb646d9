"""The rings of a schedule as NCCL's graph file (``NCCL_GRAPH_FILE``): a channel a ring.

Each chunk of the schedule must go once round a ring of all ranks; in an allreduce, once while it is added up
and once as the sum. Chunks that visit the ranks in one order share a ring. Each ring must carry an equal part
of every shard. A ring has several channels if others carry less.

The file is for one host (NCCL, ``src/graph/search.cc``). For each channel it gives the order of the host's
GPUs, between the network interfaces at which a ring of several hosts enters and leaves the host. NCCL's tree
within a host is a chain of its GPUs; on request the rings' chains are these trees.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from tutti.schedules.schedule import Schedule
from tutti.topologies.disk import write_text
from tutti.topologies.errors import InputError
from tutti.topologies.exact import common_divisor
from tutti.topologies.options import Choice, Options, Whole
from tutti.topologies.units import GIGA, short

Ring = tuple[int, ...]
"""The ranks in a ring's order, starting at rank 0."""

MOST_CHANNELS = 32
_NOT_RINGS = "does not fit: the schedule is not made of rings"


@dataclass(frozen=True)
class NcclGraphOptions(Options):
    """Options for NCCL's graph file.

    Parameters
    ----------
    host
        The host whose file is written.
    dev
        The notation of network interfaces' numbers: ``hex`` from NCCL 2.30 on, ``decimal`` before.
    nics
        The number of network interfaces of a host; by default one for each GPU.
    trees
        Whether the rings' chains are also the trees within the host.
    """

    OWNER: ClassVar[str] = "nccl-graph"
    host: Annotated[int, Whole(0)] = 0
    dev: Annotated[str, Choice(("hex", "decimal"))] = "hex"
    nics: Annotated[int | None, Whole(1, 64)] = None
    trees: bool = False


OPTIONS = NcclGraphOptions


def write(schedule: Schedule, path: Path, options: NcclGraphOptions) -> dict[str, Any]:
    """Write the rings of a verified schedule.

    Raises
    ------
    InputError
        If the schedule isn't made of rings or has too many, or one of them enters a host twice.
    """
    rings = rings_of(schedule)
    text = "".join(f"{line}\n" for line in _lines(schedule, rings, options))
    write_text(path, text)
    return {"rings": len(rings), "channels": text.count("<channel>") // (1 + options.trees)}


def rings_of(schedule: Schedule) -> dict[Ring, int]:
    """Return the rings that a schedule is made of, starting at rank 0, and the number of channels of each.

    Raises
    ------
    InputError
        If the schedule isn't made of rings.
    """
    halves = [_shares(schedule, trips) for trips in _round_trips(schedule) if trips]
    if len(halves) > 1 and halves[0] != halves[1]:
        raise InputError(f"{_NOT_RINGS}: partial sums go round other rings than the sums")
    shares = halves[0] if halves else {}
    common = common_divisor(shares.values())
    channels = {ring: int(share / common) for ring, share in shares.items()}
    if sum(channels.values()) > MOST_CHANNELS:
        raise InputError(f"does not fit: {sum(channels.values())} channels, at most {MOST_CHANNELS}")
    return channels


def _shares(schedule: Schedule, trips: dict[int, Ring]) -> dict[Ring, Fraction]:
    """Return the part of every shard that goes round each ring."""
    carried: defaultdict[Ring, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
    whole: defaultdict[int, int] = defaultdict(int)
    columns = (schedule.chunks.item.tolist(), schedule.chunks.size.tolist())
    for chunk, (item, size) in enumerate(zip(*columns, strict=True)):
        if size and chunk not in trips:
            raise InputError(f"{_NOT_RINGS}: chunk {chunk} does not go round a ring")
        if size:
            carried[trips[chunk]][item] += size
            whole[item] += size
    shares = {}
    for ring, amounts in carried.items():
        parts = {Fraction(amounts[item], size) for item, size in whole.items()}
        if len(parts) != 1:
            raise InputError(f"{_NOT_RINGS}: {_shown(ring)} carries more of one shard than of another")
        shares[ring] = parts.pop()
    return shares


def _round_trips(schedule: Schedule) -> tuple[dict[int, Ring], dict[int, Ring]]:
    """Return the rings of chunks that are forwarded only, and those of chunks that are added up."""
    ranks = schedule.topology.num_ranks
    onward: tuple[defaultdict[int, dict[int, int]], ...] = (defaultdict(dict), defaultdict(dict))
    columns = (schedule.chunk, schedule.counts, schedule.source, schedule.target, schedule.adds)
    for first, many, source, target, adds in zip(*(column.tolist() for column in columns), strict=True):
        for chunk in range(first, first + many):
            if source in onward[adds][chunk]:
                raise InputError(f"{_NOT_RINGS}: rank {source} sends chunk {chunk} to two others")
            onward[adds][chunk][source] = target
    passed, added = ({chunk: _order(path, ranks, chunk) for chunk, path in half.items()} for half in onward)
    return passed, added


def _order(onward: dict[int, int], ranks: int, chunk: int) -> Ring:
    """Return the ring that contains a path through all ranks, starting at rank 0."""
    start = set(onward) - set(onward.values())
    order = list(start)[:1]
    while order and order[-1] in onward and len(order) <= ranks:
        order.append(onward[order[-1]])
    if len(start) != 1 or sorted(order) != list(range(ranks)):
        raise InputError(
            f"{_NOT_RINGS}: chunk {chunk} goes through {len(set(order))} of {ranks} ranks in a row"
        )
    first = order.index(0)
    return (*order[first:], *order[:first])


def _shown(ring: Ring) -> str:
    return "ring " + "-".join(map(str, ring[:8])) + ("-..." if len(ring) > 8 else "")


class _Channel(NamedTuple):
    """The GPUs of a host in a ring's order, and those at which the ring enters and leaves the host."""

    gpus: list[int]
    enters: int
    leaves: int


def _lines(schedule: Schedule, rings: dict[Ring, int], options: NcclGraphOptions) -> Iterator[str]:
    topology = schedule.topology
    hosts = np.zeros(topology.num_nodes, np.int32) if topology.hosts is None else topology.hosts
    own = np.flatnonzero(hosts[: topology.num_ranks] == options.host).tolist()
    if not own:
        raise InputError(f"no host {options.host}; hosts are 0..{int(hosts[: topology.num_ranks].max())}")
    channels = [_channel(ring, own, options.host) for ring, many in rings.items() for _ in range(many)]
    nics = options.nics or len(own)
    alone = len(own) == topology.num_ranks
    inside, outside = _speeds(schedule, rings, set(own))

    def dev(gpu: int) -> str:
        nic = gpu * nics // len(own)
        return f"0x{nic:x}" if options.dev == "hex" else str(nic)

    crossing = not alone and any(dev(one.enters) != dev(one.leaves) for one in channels)
    yield "<!-- Assumed: a host's ranks are its GPUs in order of dev, joined by NVLink (type NVL);"
    yield "     speeds are those of the slowest link of a ring, shared among its rings, in GB/s." + (
        " -->" if alone else ""
    )
    if not alone:
        yield f"     {nics} network interfaces, in the order of the GPUs (PIX); dev in {options.dev};"
        yield f"     host {options.host} of several; hosts with the same order of GPUs share a file. -->"
    yield '<graphs version="1">'
    for number, pattern in ((0, 4), (1, 3))[: 1 + options.trees]:
        yield (
            f'  <graph id="{number}" pattern="{pattern}" crossnic="{int(crossing)}"'
            f' nchannels="{len(channels)}" speedintra="{short(inside)}" speedinter="{short(outside)}"'
            ' latencyinter="0" typeintra="NVL" typeinter="PIX" samechannels="0">'
        )
        for channel in channels:
            yield "    <channel>"
            yield from () if alone else (f'      <net dev="{dev(channel.enters)}"/>',)
            yield from (f'      <gpu dev="{gpu}"/>' for gpu in channel.gpus)
            yield from () if alone else (f'      <net dev="{dev(channel.leaves)}"/>',)
            yield "    </channel>"
        yield "  </graph>"
    yield "</graphs>"


def _channel(ring: Ring, own: list[int], host: int) -> _Channel:
    """Return the part of a ring that lies in a host."""
    place = {rank: gpu for gpu, rank in enumerate(own)}
    begins = [at for at, rank in enumerate(ring) if rank in place and ring[at - 1] not in place]
    if len(begins) > 1:
        raise InputError(
            f"does not fit: {_shown(ring)} enters host {host} {len(begins)} times; a channel does once"
        )
    first = begins[0] if begins else 0
    gpus = [place[rank] for rank in (*ring[first:], *ring[:first]) if rank in place]
    return _Channel(gpus, gpus[0], gpus[-1])


def _speeds(schedule: Schedule, rings: dict[Ring, int], own: set[int]) -> tuple[float, float]:
    """Return a channel's GB/s inside the host and beyond it: of the slowest link, shared by its rings."""
    topology, table = schedule.topology, schedule.route_table
    ends = zip(schedule.route_source.tolist(), schedule.route_target.tolist(), strict=True)
    steps = {
        pair: table.links[table.offsets[r] : table.offsets[r + 1]].tolist() for r, pair in enumerate(ends)
    }
    passing: defaultdict[int, int] = defaultdict(int)
    beyond = {}
    for ring, many in rings.items():
        for at, rank in enumerate(ring):
            before = ring[at - 1]
            # In a broadcast, or a reduction to one root, no transfer closes the ring.
            for link in steps.get((before, rank), ()):
                passing[link] += many
                beyond[link] = not {before, rank} <= own
    speeds = {link: float(topology.bandwidth[link] / many / GIGA) for link, many in passing.items()}
    outside = min((speed for link, speed in speeds.items() if beyond[link]), default=0.0)
    inside = min((speed for link, speed in speeds.items() if not beyond[link]), default=outside)
    return inside, outside or inside
