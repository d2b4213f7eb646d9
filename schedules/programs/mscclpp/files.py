"""Execution plans as a format of `schedules.programs.formats`: printed, written, read and judged.

Inside a host, messages go through memory channels: ``put``, then ``signal``. Between hosts they go through
ports, whose proxy does both (``pws``). In a plan of packets each packet carries its flags: ``ppkt`` puts it,
and ``upkt`` or ``repkt`` awaits it. Instructions that the runtime can combine are printed as one operation: a
copy and a reduction into the same place (``re``), or a reduction and a put of its sum (``res``, ``respkt``).

A block waits for another block of its GPU through a semaphore of the two: the k-th acquire takes the k-th
release.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple
from zlib import crc32

import numpy as np

from tutti.schedules.programs.interpreter import judge
from tutti.schedules.programs.lowering import FormatLimits, LoweringOptions
from tutti.schedules.programs.mscclpp.reader import read_plan
from tutti.schedules.programs.mscclpp.runtime import (
    BUFFERS,
    COLLECTIVES,
    CUSTOM,
    LIMITS,
    MEMORY,
    PACKETS,
    PORT,
    SIMPLE,
    WHAT,
    Cells,
    Role,
    Syncs,
    check_plain,
    chunks_of,
)
from tutti.schedules.programs.one_sided import Blocks, one_sided, with_proxies, without_needless_waits
from tutti.schedules.programs.program import WARP, Address, Buffer, Instruction, Op, Program
from tutti.schedules.schedule import Schedule
from tutti.topologies.disk import write_text
from tutti.topologies.errors import InputError
from tutti.topologies.exact import NONE, BoolArray
from tutti.topologies.graphs.grid_structure import Hosts, hosts_of
from tutti.topologies.options import Choice, Whole
from tutti.topologies.topology import Topology
from tutti.topologies.units import whole_bytes

_LETTER = {buffer: letter for letter, buffer in BUFFERS.items()}
_Json = dict[str, Any]
_Link = tuple[int, int]
"""A peer, and the number of a connection to it; or a peer, and one of its buffers."""


class Misfit(InputError):
    """A program is too large for a limit of the runtime."""


class _PlanOperation(NamedTuple):
    """An operation: its JSON, its instructions, its role and its number of threads."""

    json: _Json
    made_of: list[Instruction]
    role: Role
    threads: int = 1


def to_plan(
    program: Program,
    *,
    packets: bool = False,
    proxied: BoolArray | None = None,
    threads: int = 1024,
    min_bytes: int = 0,
    max_bytes: int = 2**64 - 1,
) -> str:
    """Return a one-sided program as JSON.

    Parameters
    ----------
    program
        A program made by `one_sided.one_sided`.
    packets, proxied
        The values with which it was made; ranks of `proxied` are connected by ports.
    threads
        The number of threads of each block.
    min_bytes, max_bytes
        The range of sizes that the plan is for: sizes of the input or, in an allgather, the output.

    Raises
    ------
    Misfit
        If the program exceeds a limit of the runtime.
    InputError
        If the format can't represent the program.
    """
    ranks = program.num_ranks
    ports = np.zeros((ranks, ranks), dtype=np.bool_) if proxied is None else proxied
    if packets and ports.any():
        raise InputError(f"{program.name}: packets go through memory only, so all ranks must be of one host")
    what = program.collective
    if packets and what.kind not in COLLECTIVES:
        raise InputError(
            f"{program.name}: packets are for collectives in which each rank waits for all others, "
            f"so that none is two runs ahead; not for {what}"
        )
    chunks = chunks_of(what, program.units)
    largest = max(*chunks, int(program.scratch.max()) * (4 if packets else 1))
    checked = chunks[1] if COLLECTIVES.get(what.kind) == "allgather" else chunks[0]
    most = min(max_bytes, LIMITS.bytes // largest // LIMITS.alignment * LIMITS.alignment * checked)
    if min_bytes > most:
        raise Misfit(f"{program.name} does not fit: {min_bytes} bytes, at most {most}")
    printed = _PlanPrinter(program, packets, ports)
    protocol, place = PACKETS if packets else SIMPLE, "in place" if program.in_place else "out of place"
    # No other plan may have its name, because the runtime takes plans with one name for one plan.
    mark = crc32(b"".join(column.tobytes() for column in program.code))
    plan: _Json = {
        "name": f"{program.name}, {protocol}, {place}, {min_bytes} to {most} bytes, {mark:08x}",
        "collective": COLLECTIVES.get(what.kind, CUSTOM),
        "protocol": PACKETS if packets else SIMPLE,
        "inplace": program.in_place,
        "reuse_resources": False,
    }
    if what.kind not in COLLECTIVES:
        plan[WHAT] = {"collective": str(what.kind), "root": what.root}
    gpus = [
        {
            "id": rank,
            "input_chunks": chunks[0],
            "output_chunks": chunks[1],
            "scratch_chunks": int(program.scratch[rank]),
            **printed.gpu(rank),
        }
        for rank in range(ranks)
    ]
    tail = {
        "num_threads_per_block": threads,
        "use_double_scratch_buffer": packets,
        "buffer_alignment": LIMITS.alignment,
        "min_message_size": min_bytes,
        "max_message_size": most,
    }
    return json.dumps(plan | {"gpus": gpus} | tail, indent=1) + "\n"


class _PlanPrinter:
    """The data that the GPUs of a plan share."""

    def __init__(self, program: Program, packets: bool, ports: BoolArray) -> None:
        self.program, self.packets, self.ports = program, packets, ports
        self.cells = Cells(program.layout)
        self.blocks = without_needless_waits([program.blocks(rank) for rank in range(program.num_ranks)])
        self.links: list[set[_Link]] = [set() for _ in self.blocks]
        # The place of each packet, by sender, receiver and connection.
        self.packet: dict[tuple[int, int, int], Address] = {}
        for rank, of_rank in enumerate(self.blocks):
            for block in of_rank:
                self._look(rank, block)

    def _look(self, rank: int, block: list[Instruction]) -> None:
        """Note the connections of a block, and the places of its packets."""
        put = None
        for one in block:
            peer = max(one.to, one.origin)
            if one.op in (Op.SIGNAL, Op.WAIT):
                channel = 0 if self.packets else one.channel
                self.links[rank].add((peer, channel))
                self.links[peer].add((rank, channel))
                if one.op is Op.SIGNAL and put is not None and put.to == peer:
                    self.packet[rank, peer, one.channel] = put.target
            put = one if one.op is Op.COPY and one.to != NONE else None

    def type_to(self, rank: int, peer: int) -> str:
        """Return the type of channel from a rank to another."""
        return PORT if self.ports[rank, peer] else MEMORY

    def gpu(self, rank: int) -> _Json:
        """Return a GPU's blocks, channels, buffers and semaphores."""
        blocks = self.blocks[rank]
        if len(blocks) > LIMITS.blocks:
            raise self.misfit(len(blocks), "thread blocks", LIMITS.blocks, f"rank {rank}")
        links = sorted(self.links[rank])
        typed = {
            kind: [link for link in links if self.type_to(rank, link[0]) == kind] for kind in (MEMORY, PORT)
        }
        buffers = sorted(
            {(i.to, i.target.buffer) for block in blocks for i in block if i.to != NONE and i.op is Op.COPY}
        )
        pairs = sorted(
            {(wait[0], number) for number, block in enumerate(blocks) for i in block for wait in i.waits}
        )
        semaphores = {pair: number for number, pair in enumerate(pairs)}
        printed = [
            _PlanBlock(self, rank, number, typed, buffers).json(blocks, semaphores)
            for number in range(len(blocks))
        ]
        idle: _Json = {"id": 0, "ops": [{"name": "nop"}], "channels": [], "remote_buffer_refs": []}
        return {
            "threadblocks": printed or [idle],
            "channels": [
                {"channel_type": kind, "connected_to": [peer for peer, _ in of_kind]}
                for kind, of_kind in typed.items()
                if of_kind
            ],
            "remote_buffers": [
                {
                    "rank": peer,
                    "type": _LETTER[Buffer(buffer)],
                    "access_channel_types": [self.type_to(rank, peer)],
                }
                for peer, buffer in buffers
            ],
            "semaphores": [{"init_value": 0} for _ in pairs],
        }

    def misfit(self, count: int, what: str, most: int, where: str) -> Misfit:
        """Return the error for a number that exceeds a limit."""
        return Misfit(f"{self.program.name} does not fit: {count} {what} in {where}, at most {most}")


class _PlanBlock:
    """A thread block; it numbers the connections and remote buffers of its GPU that it uses."""

    def __init__(
        self, plan: _PlanPrinter, rank: int, number: int, typed: dict[str, list[_Link]], buffers: list[_Link]
    ) -> None:
        self.plan, self.rank, self.number = plan, rank, number
        self.typed, self.buffers = typed, buffers
        self.channels: dict[str, list[int]] = {MEMORY: [], PORT: []}
        self.remote: dict[str, list[int]] = {MEMORY: [], PORT: []}

    def json(self, blocks: Blocks, semaphores: dict[tuple[int, int], int]) -> _Json:
        """Return the block."""
        where = f"block {self.number} of rank {self.rank}"
        ops = list(self._synced(self._steps(blocks, semaphores)))
        counts = [(len(ops), "ops", LIMITS.ops)]
        counts += [(len(ids), f"{kind} channels", LIMITS.channels) for kind, ids in self.channels.items()]
        counts += [(len(ids), f"{kind} remote buffers", LIMITS.channels) for kind, ids in self.remote.items()]
        for count, what, most in counts:
            if count > most:
                raise self.plan.misfit(count, what, most, where)
        return {
            "id": self.number,
            "ops": ops,
            "channels": [
                {"channel_type": kind, "channel_ids": ids} for kind, ids in self.channels.items() if ids
            ],
            "remote_buffer_refs": [
                {"access_channel_type": kind, "remote_buffer_ids": ids}
                for kind, ids in self.remote.items()
                if ids
            ],
        }

    def _synced(self, steps: Iterator[_PlanOperation]) -> Iterator[_Json]:
        """Yield the operations, with a nop before each at which the threads must meet."""
        syncs = Syncs()
        for step in steps:
            accesses = self.plan.cells.accesses(self.rank, step.made_of)
            if syncs.needed(step.role, accesses, step.threads):
                yield {"name": "nop"}
                syncs.met()
            syncs.done(step.role, accesses, step.threads)
            yield step.json

    def _steps(self, blocks: Blocks, semaphores: dict[tuple[int, int], int]) -> Iterator[_PlanOperation]:
        block, mine = blocks[self.number], self.number
        awaited: dict[int, list[int]] = {}
        for other, of_other in enumerate(blocks):
            for one in of_other:
                for number, step in one.waits:
                    if number == mine:
                        awaited.setdefault(step, []).append(semaphores[mine, other])
        at = 0
        while at < len(block):
            yield from _semaphores(
                "sem_acquire", [semaphores[wait[0], mine] for wait in block[at].waits], Role.WAIT
            )
            size = self._length(block, at, awaited)
            group = [one._replace(waits=()) for one in block[at : at + size]]
            yield self._operation(group)
            at += size
            yield from _semaphores("sem_release", awaited.get(at - 1, []), Role.SIGNAL)

    def _length(self, block: list[Instruction], at: int, awaited: dict[int, list[int]]) -> int:
        """Return how many instructions, beginning with one, become one operation."""
        forms = _PACKET_FORMS if self.plan.packets else _FORMS
        text = "".join(map(_kind_of, block[at : at + _LONGEST]))
        for form in forms:
            group = block[at : at + len(form)]
            whole = not any(one.waits for one in group[1:])
            whole &= not any(step in awaited for step in range(at, at + len(form) - 1))
            if text.startswith(form) and whole and self._is_one(form, group):
                return len(form)
        one = block[at]
        raise InputError(
            f"{self.plan.program.name}: rank {self.rank}, block {self.number}, step {at}: "
            f"'{one.op.name.lower()}' can't be printed here"
        )

    def _is_one(self, form: str, group: list[Instruction]) -> bool:
        """Return whether instructions of a form use the same data and the same channel."""
        if "w" in form and len(form) > 1:
            wait = group[0]
            slot = self.plan.packet.get((wait.origin, self.rank, wait.channel))
            if next(one for one in reversed(group) if one.to == NONE).source != slot:
                return False
        moved = [one for one in group if one.op in (Op.COPY, Op.REDUCE)]
        places = {(one.target if one.to == NONE else one.source, one.length) for one in moved}
        peers = {one.to for one in group if one.to != NONE}
        port = any(self.plan.ports[self.rank, peer] for peer in peers)
        if "p" in form and port != (form == "ps" and not self.plan.packets):
            return False
        return len(places) <= 1 and len(peers) <= 1

    def _operation(self, group: list[Instruction]) -> _PlanOperation:
        ops = {one.op for one in group}
        put = next((one for one in group if one.op is Op.COPY and one.to != NONE), None)
        if ops == {Op.WAIT} or ops == {Op.SIGNAL}:
            one, name = group[0], "wait" if Op.WAIT in ops else "signal"
            role = Role.WAIT if Op.WAIT in ops else Role.SIGNAL
            peer = max(one.to, one.origin)
            return _PlanOperation({"name": name, **self._channel(peer, one.channel)}, group, role)
        if Op.REDUCE in ops:
            return self._reduction(group, put)
        if put is not None:
            return self._put(group, put)
        packet, copy = Op.WAIT in ops, group[-1]
        name = "upkt" if packet else "copy"
        return _PlanOperation(
            {"name": name, **self._buffers([self._here(copy.source, copy)], [self._here(copy.target, copy)])},
            group,
            Role.DATA,
        )

    def _reduction(self, group: list[Instruction], put: Instruction | None) -> _PlanOperation:
        adds = next(one for one in group if one.op is Op.REDUCE)
        first = next((one for one in group if one.op is Op.COPY and one.to == NONE), None)
        name = ("res" if put else "re") + "pkt" * (group[0].op is Op.WAIT)
        kept = adds.target if first is None else first.source
        sources = [self._here(kept, adds), self._here(adds.source, adds)]
        targets = [self._here(adds.target, adds)]
        more: _Json = {}
        if put is not None:
            targets.append(self._there(put))
            more["channel_type"] = MEMORY
            self._channel(put.to, 0 if self.plan.packets else None)
        return _PlanOperation(
            {"name": name, **self._buffers(sources, targets), **more, "reduce_op": "sum"}, group, Role.DATA
        )

    def _put(self, group: list[Instruction], put: Instruction) -> _PlanOperation:
        """Return a put; over a port its proxy also signals, and one thread starts it."""
        buffers = self._buffers([self._here(put.source, put)], [self._there(put)])
        if not self.plan.ports[self.rank, put.to]:
            self._channel(put.to, 0 if self.plan.packets else None)
            name = "ppkt" if self.plan.packets else "put"
            return _PlanOperation({"name": name, **buffers, "channel_type": MEMORY}, group, Role.DATA)
        signal = group[-1]
        return _PlanOperation(
            {"name": "pws", **buffers, **self._channel(put.to, signal.channel)}, group, Role.SIGNAL
        )

    def _buffers(self, sources: list[_Json], targets: list[_Json]) -> _Json:
        return {"src_buff": sources, "dst_buff": targets}

    def _here(self, place: Address, one: Instruction) -> _Json:
        return {"type": _LETTER[Buffer(place.buffer)], "index": place.offset, "size": one.length}

    def _there(self, put: Instruction) -> _Json:
        kind = self.plan.type_to(self.rank, put.to)
        number = _numbered(self.remote[kind], self.buffers.index((put.to, put.target.buffer)))
        return {"buffer_id": number, "index": put.target.offset, "size": put.length}

    def _channel(self, peer: int, channel: int | None) -> _Json:
        """Return the fields of a connection, which is added to the block; none if `channel` is None."""
        if channel is None:
            return {}
        kind = self.plan.type_to(self.rank, peer)
        number = _numbered(self.channels[kind], self.typed[kind].index((peer, channel)))
        return {"channel_ids": [number], "channel_type": kind}


_FORMS = ("crp", "rp", "ps", "cr", "r", "c", "p", "s", "w")
_PACKET_FORMS = ("wcrps", "wrps", "wcr", "wr", "wc", "ps", "cr", "r", "c")
"""Instructions that become one operation, the longest first: w wait, c copy, r reduce, p put, s signal."""
_LONGEST = 5


def _kind_of(one: Instruction) -> str:
    if one.origin != NONE and one.op is not Op.WAIT:
        return "?"
    if one.op is Op.COPY:
        return "c" if one.to == NONE else "p"
    return {Op.REDUCE: "r" if one.to == NONE else "?", Op.SIGNAL: "s", Op.WAIT: "w"}.get(one.op, "?")


def _semaphores(name: str, ids: Sequence[int], role: Role) -> Iterator[_PlanOperation]:
    for first in range(0, len(ids), LIMITS.ids):
        some = list(ids[first : first + LIMITS.ids])
        yield _PlanOperation({"name": name, "semaphore_ids": some}, [], role, len(some))


def _numbered(ids: list[int], one: int) -> int:
    if one not in ids:
        ids.append(one)
    return ids.index(one)


STEPS = (LIMITS.ops, 20, 12, 8, 6, 4)
"""Step limits of a two-sided block that are tried in turn. A step becomes up to eight operations, often
three."""


@dataclass(frozen=True)
class PlanOptions(LoweringOptions):
    """Options for execution plans.

    Parameters
    ----------
    protocol
        ``Simple``, or ``LL``, which sends packets with flags and is for small sizes.
    channels
        ``memory`` or ``port`` between all ranks; ``auto``: memory inside a host, ports between hosts.
    threads
        The number of threads of each block, a multiple of 32.
    min_bytes, max_bytes
        The range of sizes that the plan is for, as texts: sizes of the input or, in an allgather, the output.
    """

    OWNER: ClassVar[str] = "mscclpp"
    protocol: Annotated[str, Choice((SIMPLE, PACKETS))] = SIMPLE
    channels: Annotated[str, Choice(("auto", MEMORY, PORT))] = "auto"
    threads: Annotated[int, Whole(WARP, 1024)] = 1024
    min_bytes: str | None = None
    max_bytes: str = "1TiB"

    def __post_init__(self) -> None:
        """Check the number of threads."""
        super().__post_init__()
        if self.threads % WARP:
            raise InputError(f"mscclpp option threads is {self.threads}; it must be a multiple of {WARP}")


OPTIONS = PlanOptions


def write(schedule: Schedule, path: Path, options: PlanOptions) -> dict[str, Any]:
    """Write a verified schedule.

    Raises
    ------
    TuttiError
            If the format, or a limit of the runtime, can't represent the schedule.
    """
    program, text = plan_of(schedule, options)
    write_text(path, text)
    plan = json.loads(text)
    blocks = [block for gpu in plan["gpus"] for block in gpu["threadblocks"]]
    chunks = plan["gpus"][0]["output_chunks" if plan["collective"] == "allgather" else "input_chunks"]
    return {
        "units": program.units,
        "scratch": int(program.scratch.max()),
        "blocks": int(np.diff(program.first_block).max()),
        "ops": max(len(block["ops"]) for block in blocks),
        "channels": max(len(of["connected_to"]) for gpu in plan["gpus"] for of in gpu["channels"]),
        "multiple_of": f"{chunks * LIMITS.alignment} B",
        "most": f"{plan['max_message_size']} B",
    }


def read(path: Path, root: int | None = None) -> Program:
    """Return the one-sided program in a file. The file itself names the root.

    Raises
    ------
    InputError
        If the file holds no program.
    """
    return read_plan(path).program


def judged(path: Path, root: int | None, interleavings: int) -> None:
    """Judge the program in a file. The file itself names the root.

    Raises
    ------
    InputError
        If the file holds no program.
    ProgramError
        If the program isn't right.
    """
    judge(read_plan(path).program, interleavings=interleavings)


def loader(paths: Sequence[Path]) -> str:
    """Return, as shell comments, how a program loads these plans.

    Since 0.9 the runtime itself reads only its own plans, which have certain names.
    """
    calls = "".join(f"\n# mscclpp.ExecutionPlan({json.dumps(str(path))}, rank)" for path in paths)
    return f"# Nothing to set: in a program, each plan is loaded and given to mscclpp.Executor, by{calls}"


def plan_of(schedule: Schedule, options: PlanOptions) -> tuple[Program, str]:
    """Return the one-sided program of a verified schedule, which is judged, and its plan.

    Raises
    ------
    TuttiError
        As `write`.
    """
    check_plain(schedule.collective)
    packets = options.protocol == PACKETS
    proxied = _between_hosts(schedule.topology, options.channels)
    misfits = []
    for steps in STEPS:
        two_sided = options.lower(schedule, FormatLimits(LIMITS.blocks, steps))
        program = one_sided(two_sided, packets=packets, proxied=proxied)
        try:
            text = to_plan(
                program,
                packets=packets,
                proxied=proxied,
                threads=options.threads,
                min_bytes=0 if options.min_bytes is None else whole_bytes(options.min_bytes),
                max_bytes=whole_bytes(options.max_bytes),
            )
        except Misfit as error:
            misfits.append(error)
            continue
        judge(with_proxies(program, proxied), interleavings=2)
        return program, text
    raise misfits[0]


def _between_hosts(topology: Topology, channels: str) -> BoolArray:
    """Return for each pair of ranks whether a port connects them, shape (ranks, ranks)."""
    ranks = topology.num_ranks
    if channels != "auto":
        return np.full((ranks, ranks), channels == PORT)
    hosts = hosts_of(topology, infer=True)
    of = hosts.of if isinstance(hosts, Hosts) else topology.hosts
    if of is None or (of[:ranks] < 0).any():
        return np.zeros((ranks, ranks), dtype=np.bool_)
    return of[:ranks, None] != of[None, :ranks]
