"""Reads MSCCL++ execution plans from any source as one-sided programs.

An operation becomes the copies, reductions, signals and waits that it consists of. A packet is a signal from
its writer to each reader. A block's ``nop`` is no instruction, because a program does the instructions of a
block one after the other; a missing ``nop`` gives a warning (`MscclppPlan.warnings`).
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from math import gcd, lcm
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np

from tutti.schedules.collective import Collective, collective
from tutti.schedules.files.document import integer, mapping, shown
from tutti.schedules.programs.interpreter import ProgramError
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
    Assembly,
    Cells,
    Events,
    Flags,
    Role,
    Steps,
    Syncs,
    chunks_of,
)
from tutti.schedules.programs.program import Address, Buffer, BufferLayout, Instruction, Op, Program
from tutti.topologies.errors import InputError
from tutti.topologies.exact import NONE
from tutti.topologies.files import read_text

_PAIRS: Mapping[str, tuple[str, str]] = {
    "copy": ("L", "L"),
    "put": ("L+", "R+"),
    "pws": ("L+", "R+"),
    "pwsf": ("L+", "R+"),
    "get": ("R+", "L+"),
    "ppkt": ("L+", "r+"),
    "upkt": ("l", "L"),
    "cpkt": ("L", "l"),
}
"""Operations that copy each source to its target: L a place on the own GPU, R on another, l and r packets."""
_SUMS: Mapping[str, tuple[str, str]] = {
    "re": ("LL+", "L"),
    "res": ("LL+", "LR+"),
    "rre": ("LR+", "L"),
    "rres": ("LR+", "LR+"),
    "repkt": ("Ll+", "L"),
    "respkt": ("Ll+", "Lr+"),
    "recpkt": ("Ll+", "Ll"),
    "recspkt": ("Ll+", "Llr+"),
    "rppkt": ("l", "r+"),
}
"""Operations that write the sum of their sources to the first target, and the same sum to the others."""
_PUTS_WITH_SIGNAL = ("pws", "pwsf")


_T = TypeVar("_T")


class MscclppPlan(NamedTuple):
    """A plan's program, and warnings about what the runtime does differently from the program."""

    program: Program
    warnings: list[str]


class _MemoryRange(NamedTuple):
    """A range in the memory of a rank; packets have flags beside their data."""

    rank: int
    address: Address
    length: int
    packet: bool


def is_plan(data: bytes) -> bool:
    """Return whether a file, if it is JSON, is meant as a plan and not as a schedule."""
    return b'"gpus"' in data and b'"format"' not in data


def read_plan(path: Path | str) -> MscclppPlan:
    """Return the plan in a file.

    Raises
    ------
    InputError
        If the file holds no plan, or the plan does what no program can; the message names GPU, thread block
        and operation.
    ProgramError
        If every second call of the plan hangs.
    """
    return from_plan(read_text(path, LIMITS.plan), str(path))


def from_plan(text: str, where: str) -> MscclppPlan:
    """Return the plan in a text; `where` names it in errors.

    Raises
    ------
    InputError, ProgramError
        As `read_plan`.
    """
    try:
        return _PlanReader(_Object(mapping(_loads(text, where), where), "the plan")).plan()
    except InputError as error:
        raise InputError(f"{where}: {error}".replace(f"{where}: {where}", where)) from None


def _loads(text: str, where: str) -> Any:
    """Return the parsed JSON; no key may occur twice in an object, and no number may be NaN or infinite."""

    def refuse(constant: str) -> NoReturn:
        raise InputError(f"{where}: {constant} is no number")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            key = Counter(key for key, _ in pairs).most_common(1)[0][0]
            raise InputError(f"{where}: the key {shown(key)} occurs twice in one object")
        return found

    try:
        return json.loads(text, parse_constant=refuse, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        raise InputError(f"{where}, line {error.lineno}: not JSON: {error.msg}") from None
    except RecursionError:
        raise InputError(f"{where}: not a plan: nested too deeply") from None
    except ValueError:
        raise InputError(f"{where}: a number has too many digits") from None


class _Object(NamedTuple):
    """An object of the JSON, and its name in errors."""

    data: Mapping[str, Any]
    where: str

    def at(self, key: str) -> Any:
        """Return a required value."""
        if key not in self.data:
            raise InputError(f"{self.where} has no '{key}'")
        return self.data[key]

    def values(self, key: str, *, needed: bool = True) -> list[Any]:
        value = self.at(key) if needed else self.data.get(key, [])
        if not isinstance(value, list):
            raise InputError(f"{self.where}: '{key}' is {shown(value)}; it must be a list")
        return value

    def objects(self, key: str, name: str = "", *, needed: bool = True) -> list[_Object]:
        """Return a list of objects; `name` is followed by the number of each, or has a place for it."""
        places = [f"{self.where}: {key}[{number}]" for number in range(len(self.values(key, needed=needed)))]
        data = map(mapping, self.values(key, needed=needed), places)
        names = [name.format(number) for number in range(len(places))] if name else places
        return list(map(_Object, data, names))

    def whole(self, key: str, low: int, high: int) -> int:
        return integer(self.at(key), low, high, f"{self.where}: '{key}'")

    def choice(self, key: str, allowed: Any) -> str:
        value = self.at(key)
        if not isinstance(value, str) or value not in allowed:
            raise InputError(f"{self.where}: '{key}' is {shown(value)}; it is one of {', '.join(allowed)}")
        return value

    def ids(self, key: str, count: int, name: str) -> list[int]:
        """Return a list of numbers below `count`."""
        return [integer(one, 0, count - 1, f"{self.where}: {name}") for one in self.values(key)]


class _PlanReader:
    """The data that all GPUs of a plan share, as they are read."""

    def __init__(self, plan: _Object) -> None:
        self.gpus = plan.objects("gpus", "rank {}")
        self.ranks = integer(len(self.gpus), 2, LIMITS.ranks, f"{plan.where}: the number of gpus")
        self.packets = plan.choice("protocol", (SIMPLE, PACKETS)) == PACKETS
        self.in_place = plan.at("inplace")
        if not isinstance(self.in_place, bool):
            raise InputError(f"{plan.where}: 'inplace' is {shown(self.in_place)}; it must be true or false")
        self.doubled = self.packets and plan.data.get("use_double_scratch_buffer", False) is True
        name = plan.at("name")
        self.name = name if isinstance(name, str) and name else "plan"
        self.what = self._collective(plan)
        chunks, whole = self._chunks(), self.what.items.share.reduced.denominator
        least = chunks_of(self.what, whole)[0]
        self.blocks = [
            gpu.objects("threadblocks", f"rank {rank}, thread block {{}}")
            for rank, gpu in enumerate(self.gpus)
        ]
        self.scale = self._scale(least // gcd(chunks, least))
        self.units = self.scale * chunks * whole // least
        self.scratch = [self.scale * gpu.whole("scratch_chunks", 0, LIMITS.units) for gpu in self.gpus]
        scratch = np.array(self.scratch, dtype=np.int32)
        self.cells = Cells(BufferLayout.of(self.what, self.units, scratch, in_place=self.in_place))
        self.links = self._links()
        self.buffers = [self._remote_buffers(rank, gpu) for rank, gpu in enumerate(self.gpus)]
        self.semaphores = [
            [
                one.whole("init_value", 0, LIMITS.steps)
                for one in gpu.objects("semaphores", f"{gpu.where}: semaphore {{}}", needed=False)
            ]
            for gpu in self.gpus
        ]
        self.warnings: list[str] = []
        # Spans of scratch without packets, by rank.
        self.plain: dict[int, set[tuple[int, int]]] = defaultdict(set)

    def _collective(self, plan: _Object) -> Collective:
        name = plan.choice("collective", (*COLLECTIVES.values(), CUSTOM))
        if name != CUSTOM:
            return collective({name: kind for kind, name in COLLECTIVES.items()}[name], self.ranks)
        if WHAT not in plan.data:
            raise InputError(
                f"{plan.where}: a collective '{CUSTOM}' without the key '{WHAT}', which names it"
            )
        where = f"{plan.where}: '{WHAT}'"
        what = _Object(mapping(plan.data[WHAT], where), where)
        kind, root = what.at("collective"), what.data.get("root")
        if not isinstance(kind, str):
            raise InputError(f"{where}: 'collective' is {shown(kind)}; it must be a text")
        root = None if root is None else integer(root, 0, self.ranks - 1, where)
        return collective(kind, self.ranks, root=root)

    def _chunks(self) -> int:
        """Return the chunks of a rank's input; all ranks must have the collective's numbers of chunks."""
        least = chunks_of(self.what, self.what.items.share.reduced.denominator)
        first = 0
        for rank, gpu in enumerate(self.gpus):
            gpu.whole("id", rank, rank)
            inputs = gpu.whole("input_chunks", 1, LIMITS.units)
            outputs = gpu.whole("output_chunks", 0 if self.in_place else 1, LIMITS.units)
            first = first or inputs
            untold = not outputs  # in place both share one memory, which may be counted once
            if inputs != first or (inputs * least[1] != outputs * least[0] and not untold):
                raise InputError(
                    f"{gpu.where}: {inputs} chunks of input and {outputs} of output; for the "
                    f"{self.what} the ratio is {least[0]} to {least[1]}, and all ranks have the same"
                )
        return first

    def _scale(self, scale: int) -> int:
        """Return the units of a chunk: a multiple of `scale` and of the number of blocks that share one."""
        for block in chain.from_iterable(self.blocks):
            for op in block.objects("ops", f"{block.where}, op {{}}"):
                if "tbg_info" in op.data:
                    where = f"{op.where}: 'tbg_info'"
                    shared = _Object(mapping(op.data["tbg_info"], where), where)
                    size = shared.whole("tbg_size", 1, LIMITS.slices)
                    scale = integer(lcm(scale, size), 1, LIMITS.slices, f"{where}: the slices of a chunk")
        return scale

    def _links(self) -> list[dict[str, list[tuple[int, int]]]]:
        """Return for each rank and channel type the peers and the numbers of the connections to them.

        The connections of two ranks are numbered together, memory channels first; a connection needs only one
        of its two channels in the plan.
        """
        peers: list[dict[str, list[int]]] = []
        for rank, gpu in enumerate(self.gpus):
            mine: dict[str, list[int]] = {MEMORY: [], PORT: [], "switch": []}
            for channel in gpu.objects("channels", f"rank {rank}: a channel"):
                kind = channel.choice("channel_type", mine)
                for peer in channel.values("connected_to", needed=kind != "switch"):
                    integer(peer, 0, self.ranks - 1, f"rank {rank}: a peer of a {kind} channel")
                    if peer == rank:
                        raise InputError(f"rank {rank}: a {kind} channel connects it to itself")
                    mine[kind].append(peer)
            peers.append(mine)
        memory, links = [Counter(mine[MEMORY]) for mine in peers], []
        for rank, mine in enumerate(peers):
            found: dict[str, list[tuple[int, int]]] = {MEMORY: [], PORT: []}
            for kind, numbered in found.items():
                before: Counter[int] = Counter()
                for peer in mine[kind]:
                    first = max(memory[rank][peer], memory[peer][rank]) if kind == PORT else 0
                    numbered.append((peer, first + before[peer]))
                    before[peer] += 1
            links.append(found)
        return links

    def _remote_buffers(self, rank: int, gpu: _Object) -> list[tuple[int, Buffer]]:
        found = []
        for one in gpu.objects("remote_buffers"):
            peer = one.whole("rank", 0, self.ranks - 1)
            if peer == rank:
                raise InputError(f"{one.where} is its own buffer")
            found.append((peer, BUFFERS[one.choice("type", BUFFERS)]))
        return found

    def plan(self) -> MscclppPlan:
        """Read all blocks, and return the program."""
        blocks = [
            [_BlockReader(self, rank, number, block) for number, block in enumerate(of_rank)]
            for rank, of_rank in enumerate(self.blocks)
        ]
        for block in chain.from_iterable(blocks):
            block.read()
        if sum(len(block.steps) for of_rank in blocks for block in of_rank) > LIMITS.steps:
            raise InputError(f"the plan has more than {LIMITS.steps} instructions")
        assembly = Assembly([[block.steps for block in of_rank] for of_rank in blocks])
        for rank, of_rank in enumerate(blocks):
            events = [block.events for block in of_rank]
            assembly.match_semaphores(rank, self.semaphores[rank], events)
            assembly.match_barriers(rank, events)
        if assembly.match_packets(self.plain) and not self.packets:
            self.warnings.append(f"packets under protocol '{SIMPLE}': its scratch has no room for flags")
        # A GPU that does nothing has one block without steps, because it must have one.
        made = [
            [] if len(of_rank) == 1 and not of_rank[0].steps else new
            for of_rank, new in zip(blocks, assembly.blocks(), strict=True)
        ]
        moved = sum(i.length for of_rank in made for block in of_rank for i in block)
        if moved > LIMITS.moved:
            raise InputError(f"the plan moves {moved} chunks in all; at most {LIMITS.moved} are read")
        if self.doubled:
            self._check_halves(assembly)
        place, scratch = self.in_place, self.scratch
        program = Program.of(self.what, self.units, made, in_place=place, scratch=scratch, name=self.name)
        return MscclppPlan(program, self.warnings)

    def _check_halves(self, assembly: Assembly) -> None:
        """Check that packets arrive in every call.

        Every second call uses the second half of scratch. A sender assumes that this half begins at the same
        place in the receiver's scratch as in its own.
        """
        for (rank, number, _), flags in assembly.flags():
            mine, theirs = (self.scratch[one] // self.scale for one in (rank, flags.rank))
            if flags.written and mine != theirs:
                raise ProgramError(
                    f"rank {rank}, thread block {number} writes packets into rank {flags.rank}: every second "
                    f"call hangs, as they have {mine} and {theirs} scratch_chunks; all must have the same"
                )


class _BlockReader:
    """A thread block, as it is read.

    `steps` holds instructions and, between them, the flags of packets that are awaited or written.
    """

    def __init__(self, plan: _PlanReader, rank: int, number: int, block: _Object) -> None:
        self.plan, self.rank, self.where = plan, rank, block.where
        block.whole("id", number, number)
        self.ops = block.objects("ops", f"{self.where}, op {{}}")
        keys = ("channels", "channel_type", "channel_ids")
        self.channels = {kind: self._known(block, *keys, kind, of) for kind, of in plan.links[rank].items()}
        keys = ("remote_buffer_refs", "access_channel_type", "remote_buffer_ids")
        buffers = plan.buffers[rank]
        self.buffers = {kind: self._known(block, *keys, kind, buffers) for kind in (MEMORY, PORT)}
        self.steps: Steps = []
        self.events = Events([], [], [])
        self.pending = False

    def _known(
        self, block: _Object, key: str, of_type: str, ids: str, kind: str, known: Sequence[_T]
    ) -> list[_T]:
        """Return those of the rank's connections (or remote buffers) of a type that the block uses."""
        found: list[_T] = []
        for one in block.objects(key, f"{self.where}: {key}", needed=False):
            if one.choice(of_type, (MEMORY, PORT, "switch")) == kind:
                found += [known[number] for number in one.ids(ids, len(known), f"an id of {kind}")]
        if len(found) > LIMITS.channels:
            self.plan.warnings.append(
                f"{self.where}: {len(found)} {key} of {kind}, at most {LIMITS.channels}"
            )
        return found

    def read(self) -> None:
        """Read all operations."""
        if len(self.ops) > LIMITS.ops:
            self.plan.warnings.append(f"{self.where}: {len(self.ops)} ops, at most {LIMITS.ops}")
        syncs = Syncs()
        for op in self.ops:
            name = op.at("name")
            first = len(self.steps)
            threads = self._read(op, name)
            made = [step for step in self.steps[first:] if isinstance(step, Instruction)]
            if len(self.ops) > LIMITS.ops:
                continue
            if name in ("nop", "barrier"):
                syncs.met()
                continue
            if name in _PAIRS or name in _SUMS:
                role = Role.SIGNAL if op.data.get("channel_type") == PORT else Role.DATA
            else:
                role = Role.WAIT if name in ("wait", "rlxwait", "sem_acquire") else Role.SIGNAL
            accesses = self.plan.cells.accesses(self.rank, made)
            # Each element of a packet has its own flag.
            awaits = (name in _SUMS and name.endswith("pkt")) or name == "upkt"
            if syncs.needed(role, accesses, threads) and not awaits:
                self.plan.warnings.append(
                    f"{op.where}: no 'nop' before this '{name}', which needs what came before"
                )
                syncs.met()
            syncs.done(role, accesses, threads)
        if self.pending:
            self._add(Instruction(Op.NOP))

    def _add(self, *steps: Instruction | Flags) -> None:
        self.steps += steps
        self.pending = False

    def _read(self, op: _Object, name: Any) -> int:
        """Read an operation; return the number of its threads, which only counts if it moves no data."""
        if name in ("nop", "flush"):
            return 1
        if name in ("signal", "rlxsignal", "wait", "rlxwait"):
            links = self._op_links(op)
            for peer, channel in links:
                signal = Instruction(Op.SIGNAL, to=peer, channel=channel)
                wait = Instruction(Op.WAIT, origin=peer, channel=channel)
                self._add(signal if name.endswith("signal") else wait)
            return len(links)
        if name in ("sem_acquire", "sem_release"):
            return self._semaphores(op, name)
        if name == "barrier":
            number = op.whole("barrier_id", 0, LIMITS.channels - 1)
            size = op.whole("num_threadblocks", 1, LIMITS.steps)
            self.events.barriers.append((number, size, len(self.steps)))
            self._add(Instruction(Op.NOP))
            self.pending = True
            return 1
        if isinstance(name, str) and (name in _PAIRS or name in _SUMS):
            return self._moves(op, name)
        raise InputError(f"{op.where}: {shown(name)} has no meaning here")

    def _op_links(self, op: _Object) -> list[tuple[int, int]]:
        known = self.channels[op.choice("channel_type", (MEMORY, PORT))]
        integer(len(op.values("channel_ids")), 0, LIMITS.peers, f"{op.where}: the number of channels")
        return [known[number] for number in op.ids("channel_ids", len(known), "a channel id")]

    def _semaphores(self, op: _Object, name: str) -> int:
        integer(len(op.values("semaphore_ids")), 0, LIMITS.ids, f"{op.where}: the number of semaphores")
        ids = op.ids("semaphore_ids", len(self.plan.semaphores[self.rank]), "a semaphore id")
        if name == "sem_acquire":
            self.events.acquired.extend((one, len(self.steps)) for one in ids)
            self.pending = True
            return len(ids)
        if self.pending or not self.steps:
            self._add(Instruction(Op.NOP))
        self.events.released.extend((one, len(self.steps) - 1) for one in ids)
        return len(ids)

    def _moves(self, op: _Object, name: str) -> int:
        forms = _PAIRS.get(name) or _SUMS[name]
        sources, targets = (
            self._places(op, side, form) for side, form in zip(("src_buff", "dst_buff"), forms, strict=True)
        )
        if len({place.length for place in (*sources, *targets)}) > 1 and name not in _PAIRS:
            raise InputError(f"{op.where}: buffers of unequal sizes")
        self._add(*(Flags(s.rank, *_span(s), written=False) for s in sources if s.packet))
        if name in _PAIRS:
            return self._pairs(op, name, sources, targets)
        first = targets[0]
        if name != "rppkt":
            kept = first if first in sources else sources[0]
            others = list(sources)
            others.remove(kept)
            if kept != first:
                self._add(self._copy(kept, first))
            self._add(*(self._copy(other, first, Op.REDUCE) for other in others))
        for target in targets if name == "rppkt" else targets[1:]:
            self._write(sources[0] if name == "rppkt" else first, target)
        return 1

    def _pairs(
        self,
        op: _Object,
        name: str,
        sources: list[_MemoryRange],
        targets: list[_MemoryRange],
    ) -> int:
        if [s.length for s in sources] != [t.length for t in targets]:
            raise InputError(f"{op.where}: sources and targets of unequal number or sizes")
        port = op.data.get("channel_type") == PORT
        if name == "get" and any(
            s.address.offset != t.address.offset for s, t in zip(sources, targets, strict=True)
        ):
            raise InputError(f"{op.where}: a 'get' of unequal indices, which the runtime swaps")
        if name == "put" and not port and len({s.address.buffer for s in sources}) > 1:
            raise InputError(
                f"{op.where}: a 'put' from several buffers, of which the runtime takes the first"
            )
        if name in _PUTS_WITH_SIGNAL and not port:
            raise InputError(f"{op.where}: '{name}' goes through ports only")
        linked = port and name != "ppkt"
        links = self._op_links(op) if linked else []
        if linked and [peer for peer, _ in links] != [target.rank for target in targets]:
            raise InputError(f"{op.where}: its channels and its buffers belong to different ranks")
        for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
            self._write(source, target)
            if name in _PUTS_WITH_SIGNAL:
                self._add(Instruction(Op.SIGNAL, to=links[number][0], channel=links[number][1]))
        return len(targets)

    def _write(self, source: _MemoryRange, target: _MemoryRange) -> None:
        self._add(self._copy(source, target))
        if target.packet:
            self._add(Flags(target.rank, *_span(target), written=True))

    def _copy(self, source: _MemoryRange, target: _MemoryRange, op: Op = Op.COPY) -> Instruction:
        to, origin = (NONE if place.rank == self.rank else place.rank for place in (target, source))
        return Instruction(op, source.address, target.address, target.length, to, origin)

    def _places(self, op: _Object, side: str, form: str) -> list[_MemoryRange]:
        """Return the buffers on one side of an operation, which must have a form as in `_PAIRS`."""
        buffers = op.objects(side)
        integer(len(buffers), 1, LIMITS.buffers, f"{op.where}: the number of entries in '{side}'")
        letters = form.rstrip("+")
        if len(buffers) < len(letters) or (len(buffers) > len(letters) and not form.endswith("+")):
            more = " or more" * form.endswith("+")
            raise InputError(
                f"{op.where}: {len(buffers)} entries in '{side}'; it must have {len(letters)}{more}"
            )
        return [
            self._buffer(op, buffer, letters[min(number, len(letters) - 1)])
            for number, buffer in enumerate(buffers)
        ]

    def _buffer(self, op: _Object, buffer: _Object, letter: str) -> _MemoryRange:
        if letter in "Ll":
            rank, which = self.rank, BUFFERS[buffer.choice("type", BUFFERS)]
        else:
            kind = _Object(op.data, buffer.where).choice("channel_type", (MEMORY, PORT))
            known = self.buffers[kind]
            rank, which = known[buffer.whole("buffer_id", 0, len(known) - 1)]
        if letter in "lr" and which is not Buffer.SCRATCH:
            raise InputError(f"{buffer.where}: packets are in scratch")
        index = buffer.whole("index", 0, LIMITS.units) * self.plan.scale
        size = buffer.whole("size", 1, LIMITS.units) * self.plan.scale
        if "tbg_info" in op.data:
            shared = _Object(op.data["tbg_info"], buffer.where)
            of = shared.whole("tbg_size", 1, LIMITS.slices)
            index += size // of * shared.whole("tb_id", 0, of - 1)
            size //= of
        if letter in "LR" and which is Buffer.SCRATCH:
            self.plan.plain[rank].add((index, index + size))
        return _MemoryRange(rank, Address(which, index), size, letter in "lr")


def _span(place: _MemoryRange) -> tuple[int, int]:
    return place.address.offset, place.address.offset + place.length
