"""The rules of the runtimes that load MSCCL XML, for files from any source.

The runtimes' parsers are written by hand and accept less than XML (`_text_rules`). Their limits on elements
are in `_Rules`; beyond some of them a runtime refuses the file, beyond others it computes wrong data or
hangs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from tutti.schedules.programs.msccl.flavours import BUFFERS, LIMITS, PROTOCOLS, TYPES, Flavour
from tutti.schedules.programs.msccl.reader import parse_algo, program_of
from tutti.schedules.programs.program import WARP, Op
from tutti.schedules.programs.serial import serial_order
from tutti.topologies.errors import InputError
from tutti.topologies.exact import INT32_MAX, INT64_MAX, NONE
from tutti.topologies.xml_files import Element

MOST_FINDINGS = 50
"""Largest number of findings that are listed."""

_TAG = re.compile(r'<(?:/[^\s<>/]+>|[^\s<>/=!?]+(?: [^\s<>"=/]{1,255}="[^"<]*")* ?/?>)')
_BLANK = " \n\r"

_Fifo = tuple[int, int, int]
"""Source, target, channel."""


class Finding(NamedTuple):
    """A fault that a runtime would refuse or execute wrongly, and its line, counted from 1."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}"


def lint(text: str, flavour: Flavour, most: int = MOST_FINDINGS) -> list[Finding]:
    """Return the faults of an MSCCL XML file for a runtime, by line; the list is empty if there are none.

    Parameters
    ----------
    text
        The text of the file.
    flavour
        The runtime.
    most
        The largest number of findings that are returned; one more then gives the number of the others.
    """
    findings = list(_text_rules(text))
    try:
        rules = _Rules(flavour)
        algo = parse_algo(text, "")
        rules.algo(algo)
        findings += rules.findings
        if not rules.findings:
            serial_order(program_of(algo))
    except InputError as error:
        findings.append(_finding(error))
    findings.sort(key=lambda finding: finding.line)
    if len(findings) > most > 1:
        more = Finding(findings[most].line, f"and {len(findings) - most} more")
        return [*findings[:most], more]
    return findings[:most]


def _finding(error: InputError) -> Finding:
    """Return the error of a reader, which names the line, as a finding."""
    match = re.fullmatch(r"(?:, line (\d+): |: )(.*)", str(error), re.DOTALL)
    return Finding(int(match[1] or 1), match[2]) if match else Finding(1, str(error))


def _text_rules(text: str) -> Iterator[Finding]:
    """Yield the places that the runtimes' own XML parsers refuse.

    These parsers require one space before each attribute, double quotes, only blanks and line ends between
    elements, and no declaration.
    """
    position, line = 0, 1
    while position < len(text):
        end, fault = _token(text, position)
        if fault:
            yield Finding(line, fault)
        line += text.count("\n", position, end)
        position = end


def _token(text: str, position: int) -> tuple[int, str]:
    """Return the end of the tag, comment or blank that begins here, and its fault, or an empty text."""
    if text[position] in _BLANK:
        return position + 1, ""
    following = text.find("<", position + 1)
    following = len(text) if following < 0 else following
    if text[position] != "<":
        what = "a tab" if text[position] == "\t" else "text"
        return following, f"{what} between elements, which the runtimes refuse"
    if text.startswith("<!--", position):
        end = text.find("-->", position)
        return (end + 3, "") if end >= 0 else (len(text), "a comment that doesn't end")
    tag = _TAG.match(text, position)
    if tag is not None:
        return tag.end(), ""
    end = text.find(">", position, following) + 1 or following
    if text.startswith("<?", position):
        return end, "an XML declaration, which the runtimes refuse"
    return end, 'the runtimes read attributes only as one space and name="value", all in one line'


class _Rules:
    """The rules for elements; the faults are added to `findings`."""

    def __init__(self, flavour: Flavour) -> None:
        self.flavour = flavour
        self.findings: list[Finding] = []
        self.ranks = self.units = self.channels = 0
        # The steps at the two ends of each FIFO.
        self.sent: dict[_Fifo, list[Element]] = {}
        self.received: dict[_Fifo, list[Element]] = {}

    def add(self, element: Element, text: str) -> None:
        """Add a finding."""
        self.findings.append(Finding(element.line, text))

    def limit(self, element: Element, number: int, most: int, what: str) -> None:
        """Add a finding if a number exceeds a limit."""
        if number > most:
            self.add(element, f"{number} {what}, at most {most}")

    def number(
        self, element: Element, name: str, least: int, most: int, default: int | None = None
    ) -> int | None:
        """Return an attribute; None, with a finding, if its value is not allowed."""
        try:
            return element.integer(name, least, most, default)
        except InputError as error:
            self.findings.append(_finding(error))
            return None

    def algo(self, algo: Element) -> None:
        """Check the root element and everything in it."""
        flavour, given = self.flavour, algo.attributes
        missing = [name for name in flavour.required if name not in given]
        if missing:
            self.add(algo, f"<algo> has no {', '.join(missing)}, which the runtime asks for")
        self.units = self.number(algo, "nchunksperloop", 1, INT32_MAX, 1) or 0
        self.ranks = self.number(algo, "ngpus", 2, LIMITS.children, 2) or 0
        self.channels = self.number(algo, "nchannels", 1, LIMITS.channels, 1) or LIMITS.channels
        self._choice(algo, "proto", PROTOCOLS)
        self._choice(algo, "coll", tuple(flavour.collectives.values()))
        self._head(algo)
        gpus = list(algo.each("gpu"))
        for element in (algo, *gpus):
            self._attributes(element)
        if sorted(gpu.attributes.get("id", "") for gpu in gpus) != sorted(map(str, range(self.ranks))):
            self.add(algo, f"the ids of <gpu> must be 0 to {self.ranks - 1}, each once")
            return
        for gpu in gpus:
            self._gpu(gpu, int(gpu.attributes["id"]), given.get("coll", ""), 1 + len(gpus))
        self._fifos()

    def _head(self, algo: Element) -> None:
        flavour = self.flavour
        self.limit(algo, len(algo.attributes.get("name", "").encode()), flavour.characters, "bytes of name")
        for name in ("inplace", "outofplace"):
            self.number(algo, name, 0, 1, 0)
        low = self.number(algo, "minBytes", 0, INT64_MAX, 0)
        high = self.number(algo, "maxBytes", 0, INT64_MAX, INT64_MAX)
        endless = high == 0 and flavour.name == "rccl"
        if low is not None and high is not None and low >= high and not endless:
            self.add(algo, f"maxBytes='{high}' is not above minBytes='{low}': it would never be chosen")
        threads = self.number(algo, "nthreads", 0, flavour.threads, 0)
        if threads is not None and threads % WARP:
            self.add(algo, f"nthreads='{threads}' is no multiple of {WARP}")

    def _choice(self, element: Element, name: str, allowed: tuple[str, ...]) -> None:
        value = element.attributes.get(name)
        if value is not None and value not in allowed:
            known = ", ".join(allowed)
            self.add(element, f"{name}='{value[:40]}'; it is one of {known}")

    def _attributes(self, element: Element) -> None:
        self.limit(element, len(element.attributes), LIMITS.attributes, f"attributes of <{element.tag}>")
        for name, value in element.attributes.items():
            self.limit(element, len(value.encode()), LIMITS.characters, f"bytes in the value of {name}")

    def _gpu(self, gpu: Element, rank: int, collective: str, others: int) -> None:
        """Check a rank; `others` is the number of elements outside the rank that its parser counts."""
        sizes = [self.number(gpu, f"{letter}_chunks", 0, INT32_MAX) or 0 for letter in BUFFERS]
        self._sizes(gpu, sizes, collective)
        blocks = list(gpu.each("tb"))
        steps = [list(block.each("step")) for block in blocks]
        self.limit(gpu, len(blocks), self.flavour.blocks, f"blocks in rank {rank}")
        count = others + len(blocks) + sum(map(len, steps))
        self.limit(gpu, count, LIMITS.elements, f"elements for the parser of rank {rank}")
        ids = [block.attributes.get("id", "") for block in blocks]
        if sorted(ids) != sorted(map(str, range(len(blocks)))):
            self.add(gpu, f"the ids of <tb> in rank {rank} must be 0 to {len(blocks) - 1}, each once")
            return
        by_id = dict(zip(map(int, ids), steps, strict=True))
        peers: Counter[tuple[str, int]] = Counter()
        for block, of_block in zip(blocks, steps, strict=True):
            peers.update(self._block(block, rank, of_block, sizes))
        for (side, channel), number in peers.items():
            self.limit(gpu, number, LIMITS.peers, f"blocks of rank {rank} that {side} on channel {channel}")
        self._waits(by_id)

    def _sizes(self, gpu: Element, sizes: list[int], collective: str) -> None:
        """Check the sizes of input and output if the runtime does: they are 0, or those of the collective."""
        if not self.flavour.whole_buffers:
            return
        parts = {"allgather": (self.ranks, 1), "reduce_scatter": (1, self.ranks)}.get(collective, (1, 1))
        for letter, size, part in zip(BUFFERS, sizes, parts, strict=False):
            if size and size * part != self.units:
                expected = self.units // part
                self.add(gpu, f"{letter}_chunks='{size}'; {collective} has {expected}, or 0 if it isn't used")

    def _block(
        self, block: Element, rank: int, steps: list[Element], sizes: list[int]
    ) -> list[tuple[str, int]]:
        """Check a block; return its sides and the channels on which it sends and receives."""
        self._attributes(block)
        send, recv = (self.number(block, side, NONE, self.ranks - 1) for side in ("send", "recv"))
        channel = self.number(block, "chan", 0, self.channels - 1)
        name = f"block {block.attributes['id']} of rank {rank}"
        self.limit(block, len(steps), self.flavour.steps, f"steps in {name}")
        if rank in (send, recv):
            self.add(block, f"{name} is connected to its own rank")
        ends: dict[str, tuple[_Fifo, list[Element]]] = {}
        for side, peer, known in (("send", send, self.sent), ("receive", recv, self.received)):
            if peer is None or peer == NONE or channel is None:
                continue
            fifo = (rank, peer, channel) if side == "send" else (peer, rank, channel)
            if fifo in known:
                self.add(block, f"{name} shares its connection with another block")
            ends[side] = fifo, known.setdefault(fifo, [])
        for number, step in enumerate(steps):
            op = self._step(step, number, sizes)
            for does, side in ((op and op.sends, "send"), (op and op.receives, "receive")):
                if does and side in ends:
                    ends[side][1].append(step)
                elif does:
                    self.add(step, f"type='{step.attributes['type']}' in a block without that peer")
        self._nops(steps)
        return [(side, fifo[2]) for side, (fifo, _) in ends.items()]

    def _step(self, step: Element, number: int, sizes: list[int]) -> Op | None:
        """Check a step on its own; return its operation."""
        self._attributes(step)
        name = step.attributes.get("type", "")
        if name not in TYPES:
            self.add(step, f"type='{name[:40]}' is not interpreted")
            return None
        op = TYPES[name]
        if self.number(step, "s", 0, LIMITS.of_file) not in (None, number):
            self.add(
                step, f"s='{step.attributes['s']}' is step {number} of its block, and deps refer to that"
            )
        count = self.number(step, "cnt", 0 if op is Op.NOP else 1, LIMITS.chunks)
        for side, used in (("src", op.reads), ("dst", op.writes)):
            letter = step.attributes.get(f"{side}buf", "")
            if letter not in BUFFERS:
                self.add(step, f"{side}buf='{letter[:40]}'; it is i, o or s")
                continue
            offset = self.number(step, f"{side}off", 0 if used else NONE, INT32_MAX)
            size = sizes[BUFFERS[letter]]
            if used and offset is not None and count is not None and offset + count > size:
                self.add(step, f"{side}off='{offset}', cnt='{count}': outside {letter}_chunks='{size}'")
        self.number(step, "hasdep", 0, 1)
        return op

    def _nops(self, steps: list[Element]) -> None:
        """Check that each ``nop`` waits, and that the step after it waits too.

        Both runtimes count one step for each wait of an instruction; other nops would shift the numbers that
        ``deps`` refers to. A step that follows a ``nop`` and waits for nothing is refused, or fused if it is
        a reduction.
        """
        before = None
        for step in steps:
            waits = step.attributes.get("depid", "-1") != "-1"
            if step.attributes.get("type") == "nop":
                if not waits:
                    self.add(step, "a nop that waits for nothing: the runtime doesn't count it as a step")
                before = step
            else:
                if before is not None and not waits:
                    self.add(step, "follows a nop and waits for nothing itself, which the runtimes refuse")
                before = None
        if before is not None:
            self.add(before, "a nop at the end of its block, which the runtimes drop")

    def _waits(self, blocks: dict[int, list[Element]]) -> None:
        """Check that each awaited step exists, raises a flag, and is no ``nop``."""
        for steps in blocks.values():
            for step in steps:
                block = self.number(step, "depid", NONE, max(blocks))
                number = self.number(step, "deps", NONE, LIMITS.of_file)
                if block is None or number is None or block == NONE:
                    continue
                where = f"step {number} of block {block}"
                self.limit(step, block, LIMITS.awaited, "is the number of a block that is waited for")
                if not 0 <= number < len(blocks[block]):
                    self.add(step, f"waits for {where}, which isn't there")
                elif blocks[block][number].attributes.get("type") == "nop":
                    self.add(step, f"waits for {where}, a nop, which raises no flag")
                elif blocks[block][number].attributes.get("hasdep") != "1":
                    self.add(step, f"waits for {where}, which raises no flag (hasdep='0')")

    def _fifos(self) -> None:
        """Check that both ends of each connection have the same messages with the same lengths."""
        for fifo in sorted({*self.sent, *self.received}):
            source, target, channel = fifo
            out, into = self.sent.get(fifo, []), self.received.get(fifo, [])
            where = f"from rank {source} to {target} on channel {channel}"
            for number, (one, other) in enumerate(zip(out, into, strict=False)):
                counts = [step.attributes.get("cnt") for step in (one, other)]
                if counts[0] != counts[1]:
                    self.add(
                        other,
                        f"message {number} {where} is sent as {counts[0]} chunks, received as {counts[1]}",
                    )
            if len(out) != len(into):
                extra = (out if len(out) > len(into) else into)[min(len(out), len(into))]
                self.add(extra, f"{len(out)} messages {where} are sent, {len(into)} received")
