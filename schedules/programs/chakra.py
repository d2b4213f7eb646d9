"""A schedule as ASTRA-sim's custom collective: one trace for each rank, and the files that run the traces.

These files are written for a path OUT:

``OUT.R.et``
    The tasks of rank R: sends, receives, and a computation for each sum.
``OUT.workload.R.et``
    One collective, which calls OUT.R.et.
``OUT.system.json``, ``OUT.memory.json``, ``OUT.logical.json``
    They state that OUT is the collective's algorithm, that there is no other memory, and the logical
    topology.
``OUT.network.yml``
    The network for the analytical back-end, if it is a ring, complete, or one switch, with equal links.
``OUT.topology.txt``
    The network for the ns-3 back-end, if that can represent it (`to_ns3`).

Chakra execution traces in protobuf's wire format (mlcommons/chakra, ``schema/protobuf/et_def.proto``).

A trace is a sequence of messages, each after its length as a varint: first a ``GlobalMetadata``, then the
``Node`` s. This module lists the fields that are used; their numbers are the schema's.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tutti.schedules.collective import Kind
from tutti.schedules.programs.tasks import Action, RankTask, tasks_of, unit_bytes
from tutti.schedules.schedule import Schedule
from tutti.topologies.disk import write_bytes
from tutti.topologies.errors import InputError
from tutti.topologies.exact import INT64_MAX
from tutti.topologies.options import Options
from tutti.topologies.topology import Topology
from tutti.topologies.units import (
    BITS_PER_BYTE,
    GIBI,
    GIGA,
    format_bandwidth,
    format_size,
    format_time,
    parse_size,
)

_VERSION = "0.0.4"


class _Node(IntEnum):
    """Numbers of a node's fields."""

    ID = 1
    NAME = 2
    TYPE = 3
    DATA_DEPS = 5
    DURATION = 7
    ATTR = 10


class _Attribute(IntEnum):
    """Numbers of an attribute's fields."""

    NAME = 1
    INT32 = 7
    INT64 = 9
    BOOL = 27


class _Wire(IntEnum):
    """Types of the values that follow a field's number."""

    VARINT = 0
    BYTES = 2


class NodeType(IntEnum):
    """The kind of a node."""

    COMP = 4
    SEND = 5
    RECV = 6
    COLL = 7


class Int32(int):
    """A number for a field of 32 bits; other numbers have 64 bits."""


def metadata() -> bytes:
    """Return the first message of a trace."""
    return _framed(_text(1, _VERSION))


def node(
    number: int,
    name: str,
    kind: NodeType,
    attributes: Mapping[str, int],
    after: Iterable[int] = (),
    microseconds: int = 0,
) -> bytes:
    """Return a node.

    Parameters
    ----------
    number, name, kind
        The node's id, name and type.
    attributes
        Values by name: `bool`, `Int32`, or `int` for 64 bits.
    after
        The ids of the nodes that it waits for.
    microseconds
        Its duration; 0 is left out.
    """
    body = _number(_Node.ID, number) + _text(_Node.NAME, name) + _number(_Node.TYPE, kind)
    packed = b"".join(map(_varint, after))
    body += _bytes(_Node.DATA_DEPS, packed) if packed else b""
    body += _number(_Node.DURATION, microseconds) if microseconds else b""
    for key, value in attributes.items():
        field = {bool: _Attribute.BOOL, Int32: _Attribute.INT32}.get(type(value), _Attribute.INT64)
        body += _bytes(_Node.ATTR, _text(_Attribute.NAME, key) + _number(field, value))
    return _framed(body)


def _framed(message: bytes) -> bytes:
    return _varint(len(message)) + message


def _varint(value: int) -> bytes:
    """Return a nonnegative number as seven bits per byte, the least significant first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | _Wire.VARINT) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | _Wire.BYTES) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


COLLECTIVES: Mapping[Kind, tuple[str, int]] = {
    Kind.ALLREDUCE: ("all-reduce", 0),
    Kind.ALLGATHER: ("all-gather", 2),
    Kind.ALL_TO_ALL: ("all-to-all", 6),
    Kind.REDUCE_SCATTER: ("reduce-scatter", 7),
}
"""ASTRA-sim's names of the collectives that can be custom, and their numbers in the schema."""

_COMM_TYPES = {Action.SEND: 5, Action.RECV: 6}


@dataclass(frozen=True)
class ChakraOptions(Options):
    """Options for Chakra traces.

    Parameters
    ----------
    size
        M, which is rounded up until each unit is a whole number of bytes. The traces have fixed sizes in
        bytes, whatever size the workload asks for.
    """

    OWNER: ClassVar[str] = "chakra"
    size: str = "1MB"


OPTIONS = ChakraOptions


def write(schedule: Schedule, path: Path, options: ChakraOptions) -> dict[str, Any]:
    """Write a verified schedule as several files, whose names begin with that of `path`.

    Raises
    ------
    TuttiError
        If ASTRA-sim has no such custom collective, or M is too large.
    """
    what = schedule.collective
    if what.kind not in COLLECTIVES or what.groups is not None:
        names = ", ".join(COLLECTIVES)
        raise InputError(f"does not fit: {what}; ASTRA-sim's custom collectives are {names} of all ranks")
    size = parse_size(options.size)
    played = tasks_of(schedule, size)
    unit, rounded = unit_bytes(played.units, size)
    size = Fraction(played.units * unit)
    if size > INT64_MAX:
        raise InputError(f"does not fit: M is {format_size(size)}, at most 2^63 - 1 bytes")
    name, number = COLLECTIVES[what.kind]
    collective = {"is_cpu_op": False, "comm_type": number, "comm_size": int(size)}
    workload = metadata() + node(0, name, NodeType.COLL, collective)
    files: dict[str, bytes] = {}
    for rank, tasks in enumerate(played.ranks):
        files[f"{rank}.et"] = _trace(tasks, unit)
        files[f"workload.{rank}.et"] = workload
    networks, missing = _networks(schedule.topology)
    system = {
        "scheduling-policy": "FIFO",
        "preferred-dataset-splits": 1,
        f"{name}-implementation-custom": [str(path.absolute())],
        "local-mem-bw": 50,
    }
    texts = {
        "system.json": json.dumps(system, indent=1),
        "memory.json": json.dumps({"memory-type": "NO_MEMORY_EXPANSION"}),
        "logical.json": json.dumps({"logical-dims": [str(what.num_ranks)]}),
        **networks,
    }
    for end, data in (files | {end: text.encode() for end, text in texts.items()}).items():
        write_bytes(path.with_name(f"{path.name}.{end}"), data)
    return {
        "bytes": int(size),
        "unit": unit,
        "files": ", ".join(f"{path.name}.{end}" for end in texts),
        **missing,
        **rounded,
    }


def _trace(tasks: list[RankTask], unit: int) -> bytes:
    """Return a rank's trace; an idle rank gets an empty computation, whose end ASTRA-sim waits for."""
    nodes = [_node(number, task, unit) for number, task in enumerate(tasks)]
    return metadata() + b"".join(nodes or [node(0, "nothing", NodeType.COMP, {"is_cpu_op": False})])


def _node(number: int, task: RankTask, unit: int) -> bytes:
    if task.action is Action.SUM:
        return node(number, f"sum {number}", NodeType.COMP, {"is_cpu_op": False}, task.after)
    end, kind = ("comm_dst", NodeType.SEND) if task.action is Action.SEND else ("comm_src", NodeType.RECV)
    attributes = {
        "is_cpu_op": False,
        "comm_type": _COMM_TYPES[task.action],
        "comm_size": task.units * unit,
        end: Int32(task.peer),
        "comm_tag": Int32(task.tag),
    }
    return node(number, f"{task.action} {task.tag}", kind, attributes, task.after)


def _networks(topology: Topology) -> tuple[dict[str, str], dict[str, str]]:
    """Return the networks' files by suffix, and the reasons why back-ends can't have the network."""
    files, missing = {}, {}
    form = _analytical(topology)
    if form is None:
        missing["analytical"] = "none: it takes only rings, complete networks and switches, with equal links"
    else:
        bandwidth, latency = topology.bandwidth[0] / GIBI, topology.alpha[0] * GIGA
        numbers = {"topology": form, "npus_count": topology.num_ranks}
        numbers |= {"bandwidth": float(bandwidth), "latency": float(latency)}
        files["network.yml"] = "".join(f"{key}: [ {value} ]\n" for key, value in numbers.items())
    try:
        files["topology.txt"] = to_ns3(topology)
    except InputError as error:
        missing["ns3"] = f"none: {error}"
    return files, missing


def _analytical(topology: Topology) -> str | None:
    """Return the analytical back-end's name of the network, or None if it is none of its kinds."""
    ranks = topology.num_ranks
    if not topology.homogeneous:
        return None
    links = sorted(zip(topology.source.tolist(), topology.target.tolist(), strict=True))

    def joined(pairs: Iterator[tuple[int, int]]) -> bool:
        return links == sorted({pair for one, other in pairs for pair in ((one, other), (other, one))})

    if joined((rank, ranks) for rank in range(ranks)):
        return "Switch"
    if joined((rank, (rank + 1) % ranks) for rank in range(ranks)):
        return "Ring"
    everyone = np.argwhere(~np.eye(ranks, dtype=np.bool_)).tolist()
    return "FullyConnected" if joined((one, other) for one, other in everyone) else None


def to_ns3(topology: Topology) -> str:
    """Return a network as the physical topology that ASTRA-sim's ns-3 back-end loads (``TOPOLOGY_FILE``).

    The first line has the numbers of nodes (including switches), switches and links; the second names the
    switches. Then each line describes a link: ends, rate, delay, loss. An ns-3 link has both directions, and
    two nodes share only one. So the two directions must be equal, and parallel links with the same α become
    one link with their total bandwidth.

    Raises
    ------
    InputError
        If two nodes are joined in one direction only, if the directions differ, or if an α is not a whole
        number of nanoseconds, the unit of time of ns-3.
    """
    links = list(_links(topology))
    switches = range(topology.num_ranks, topology.num_nodes)
    head = [f"{topology.num_nodes} {len(switches)} {len(links)}", " ".join(map(str, switches))]
    return "\n".join([*head, *links]) + "\n"


def _links(topology: Topology) -> Iterator[str]:
    joined: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    ends = zip(topology.source.tolist(), topology.target.tolist(), strict=True)
    for link, pair in enumerate(ends):
        joined[pair].append(link)
    joint = {pair: _together(topology, links) for pair, links in joined.items()}
    for (source, target), (bandwidth, alpha) in joint.items():
        back = joint.get((target, source))
        if back != (bandwidth, alpha):
            name = topology.link_name(joined[source, target][0])
            others = "nothing" if back is None else _shown(*back)
            raise InputError(
                f"does not fit: {name} has {_shown(bandwidth, alpha)}, but {others} back; "
                "an ns-3 link has both directions"
            )
        delay = alpha * GIGA
        if delay.denominator != 1:
            name = topology.link_name(joined[source, target][0])
            raise InputError(f"does not fit: α of {name} is {format_time(alpha)}; ns-3 counts nanoseconds")
        if source < target:
            bits = int(bandwidth * BITS_PER_BYTE)  # rounded down, as ns-3 does
            rate = f"{bits // GIGA}Gbps" if bits % GIGA == 0 else f"{bits}bps"
            yield f"{source} {target} {rate} {int(delay)}ns 0"


def _together(topology: Topology, links: list[int]) -> tuple[Fraction, Fraction]:
    """Return the total bandwidth of parallel links, and their α."""
    alphas = {topology.alpha[link] for link in links}
    if len(alphas) > 1:
        raise InputError(
            f"does not fit: parallel links {topology.link_name(links[0])} have several α; "
            "ns-3 has one link between two nodes"
        )
    return sum((topology.bandwidth[link] for link in links), Fraction(0)), alphas.pop()


def _shown(bandwidth: Fraction, alpha: Fraction) -> str:
    return f"{format_bandwidth(bandwidth)} and {format_time(alpha)}"
