"""Reads the matrix of ``nvidia-smi topo -m``: how any two GPUs and adapters of a host are joined.

A cell is ``X`` (the device itself), ``NV#`` (# NVLinks), or the farthest part that the best PCIe path
crosses. That is ``PIX`` for one PCIe switch, ``PXB`` for several, ``PHB`` for a host bridge, ``NODE`` for
host bridges of one NUMA node, and ``SYS`` (``SOC`` in old drivers) for the link between NUMA nodes. PCIe is
therefore read as a tree of switches under a CPU for each NUMA node. The matrix has no speeds: by default, the
number of NVLinks of a GPU decides them. Cells may be separated by tabs or blanks.

A GPU has at most 18 NVLinks. If a row adds up to more, the links of those GPUs lead to an NVSwitch. The
entry of two GPUs is then the smaller of their numbers of links, so a GPU has as many links as the largest
entry of its row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, permutations
from pathlib import Path
from typing import NamedTuple

from tutti.topologies.assembly import per_class
from tutti.topologies.errors import SHOWN, InputError, listed
from tutti.topologies.files import read_text
from tutti.topologies.importing.machine import (
    MOST_DEVICES,
    MOST_TEXT,
    AdapterPort,
    Cable,
    Device,
    DeviceKind,
    Joining,
    Machine,
    grouped,
    network,
)
from tutti.topologies.logs import LogLine, plain_lines, streams
from tutti.topologies.topology import Topology
from tutti.topologies.units import GIGA, format_bandwidth

MOST_NVLINKS = 18
"""Largest number of NVLinks that a GPU has, of any generation (Hopper and Blackwell)."""
_GPU = re.compile(r"GPU[0-9]{1,4}")
_FIRST_NAME = re.compile(r"(?<![A-Za-z0-9_])GPU[0-9]{1,4}(?=\s|$|GPU|NIC|CPU)")
_SECOND_NAME = re.compile(r"\s*(GPU|NIC|CPU|$)")
_CELL = re.compile(r"X|PIX|PXB|PHB|NODE|SYS|SOC|NV([0-9]{1,2})")
_CELLS_IN_A_WORD = re.compile(f"(?:{_CELL.pattern})+")
"""One or more cells. Text copied from a terminal may have lost the tabs between them."""
_GLUED = re.compile(r"(X|PIX|PXB|PHB|NODE|SYS|SOC|NV)([0-9]+(?:[-,][0-9]+)*)")
"""The last cell of a row and the list of CPUs after it, if the tab between them is lost."""
_LOST_TAB = re.compile(r"(?<=[0-9])(?=GPU[0-9]|NIC[0-9]|CPU |NUMA )")
"""The place of a lost tab between two names of a header."""
_CELLS = "X, NV#, PIX, PXB, PHB, NODE, SYS"
_NEAR = ("PIX", "PXB", "PHB", "NODE")
"""Cells of two devices of one NUMA node."""
_NAME = re.compile(r"[A-Za-z0-9_.:+-]{1,64}")
_LEGEND = re.compile(r"(NIC[0-9]{1,4}): *([A-Za-z0-9_.:+]{1,64})")
_NUMA = re.compile(r"[0-9]{1,4}([-,][0-9]{1,4})*")


class _Generation(NamedTuple):
    """A generation of GPUs, and bytes/s of one NVLink, a PCIe link, and an adapter."""

    name: str
    nvlink: Fraction
    pcie: Fraction
    nic: Fraction


_GENERATIONS = {
    6: _Generation("Volta", Fraction(20 * GIGA), Fraction(12 * GIGA), Fraction(25 * GIGA, 2)),
    12: _Generation("Ampere", Fraction(20 * GIGA), Fraction(24 * GIGA), Fraction(25 * GIGA)),
    18: _Generation("Hopper", Fraction(206 * GIGA, 10), Fraction(48 * GIGA), Fraction(50 * GIGA)),
}
"""GPU generations by their number of NVLinks. The bandwidths of NVLink and PCIe are those that NCCL
assumes."""
_CPUS = Fraction(10 * GIGA)


@dataclass
class _Matrix:
    """The names of devices, the cells between them, and further columns of the rows."""

    names: list[str]
    cells: dict[str, list[str]] = field(default_factory=dict)
    numa: dict[str, str] = field(default_factory=dict)
    legend: dict[str, str] = field(default_factory=dict)
    glued: dict[str, list[str]] = field(default_factory=dict)
    """The possible readings of a row's last cell if the tab before the list of CPUs is lost."""
    others: int = 0
    """Number of further matrices in the text, under other tags."""

    def nvlinks(self, one: int, other: int) -> int:
        """Return the number of NVLinks that join two devices."""
        match = _CELL.fullmatch(self.cells[self.names[one]][other])
        return int(match[1]) if match and match[1] else 0

    def groups(self, *cells: str) -> list[list[int]]:
        """Return the groups of devices that chains of such cells join."""
        devices = range(len(self.names))
        pairs = [
            pair for pair in combinations(devices, 2) if self.cells[self.names[pair[0]]][pair[1]] in cells
        ]
        if "NODE" in cells:  # NVLinks hide how GPUs are joined by PCIe
            first: dict[str, int] = {}
            told = [index for index in devices if self.names[index] in self.numa]
            pairs += [(first.setdefault(self.numa[self.names[index]], index), index) for index in told]
        return grouped(len(devices), pairs)


def read_nvidia_smi(
    path: Path | str, name: str, joining: Joining, bandwidth: list[Fraction] | None = None
) -> Topology:
    """Return the network that a matrix of ``nvidia-smi topo -m`` describes.

    Parameters
    ----------
    path
        The file with the text.
    name
        The name of the network.
    joining
        The number of such hosts, and the way to join them.
    bandwidth
        One value for all links or three: one NVLink, PCIe, an adapter.

    Raises
    ------
    InputError
        If there is no matrix in the file, or its rows do not match its header.
    """
    matrix = _read(read_text(path, MOST_TEXT), str(path))
    gpus = [index for index, label in enumerate(matrix.names) if _GPU.fullmatch(label)]
    domains = _switched(matrix, gpus, str(path))
    most = max(_links_of(matrix, gpus, domains).values(), default=0)
    generation = _GENERATIONS.get(most, _GENERATIONS[12 if most < 12 else MOST_NVLINKS])
    nvlink, pcie, nic = per_class(f"topology {name}: bandwidth", bandwidth, list(generation[1:]))
    notes = [] if bandwidth else [_guess(most, generation)]
    if matrix.others:
        notes.append(f"{matrix.others} more matrices in the file, of other processes or hosts, are left out")
    notes += _numa_notes(matrix, gpus)
    devices = [
        Device(DeviceKind.GPU, "")
        if index in gpus
        else Device(DeviceKind.NIC, matrix.legend.get(label, label), ports=(AdapterPort(nic),))
        for index, label in enumerate(matrix.names)
    ]
    machine = Machine(devices, [], notes, "a guess")
    _add_pcie(matrix, machine, pcie)
    for members in domains:
        _add_nvswitch(machine, members, nvlink, sharp=generation is _GENERATIONS[MOST_NVLINKS])
    switched = {gpu for members in domains for gpu in members}
    for one, other in permutations([gpu for gpu in gpus if gpu not in switched], 2):
        machine.cables.extend([Cable(one, other, nvlink, fabric=True)] * matrix.nvlinks(one, other))
    return network(machine, name, joining)


def _numa_notes(matrix: _Matrix, gpus: list[int]) -> list[str]:
    """Return notes on GPUs without a NUMA node, and on NUMA nodes that contradict cells."""
    names = [matrix.names[gpu] for gpu in gpus]
    without = [name for name in names if name not in matrix.numa]
    notes = []
    if 0 < len(without) < len(names):
        notes.append(f"no NUMA node in the row of {', '.join(without[:4])}; others have one")
    for one, other in combinations(gpus, 2):
        numa = [matrix.numa.get(matrix.names[gpu]) for gpu in (one, other)]
        cell = matrix.cells[matrix.names[one]][other]
        apart = None not in numa and numa[0] != numa[1]
        if (apart and cell in _NEAR) or (numa[0] == numa[1] is not None and cell == "SYS"):
            pair = f"{matrix.names[one]} and {matrix.names[other]}"
            return [*notes, f"{pair} are {cell} to each other, but their NUMA nodes {numa[0]} and {numa[1]}"]
    return notes


def _links_of(matrix: _Matrix, gpus: list[int], domains: list[dict[int, int]]) -> dict[int, int]:
    """Return each GPU's number of NVLinks: to an NVSwitch, or to all other GPUs together."""
    direct = {one: sum(matrix.nvlinks(one, other) for other in gpus) for one in gpus}
    return direct | {gpu: links for members in domains for gpu, links in members.items()}


def _switched(matrix: _Matrix, gpus: list[int], where: str) -> list[dict[int, int]]:
    """Return the GPUs of each NVSwitch domain, with the number of their NVLinks.

    Raises
    ------
    InputError
        If a GPU has more NVLinks than there can be, and they lead to no NVSwitch.
    """
    domains = []
    for members in grouped(
        len(matrix.names), (pair for pair in combinations(gpus, 2) if matrix.nvlinks(*pair))
    ):
        rows = {gpu: [matrix.nvlinks(gpu, other) for other in members] for gpu in members}
        if any(sum(row) > MOST_NVLINKS for row in rows.values()):
            links = {gpu: max(row) for gpu, row in rows.items()}
            _check_domain(matrix, links, where)
            domains.append(links)
    return domains


def _check_domain(matrix: _Matrix, links: dict[int, int], where: str) -> None:
    for one, other in combinations(links, 2):
        if matrix.nvlinks(one, other) != min(links[one], links[other]):
            total = max(sum(matrix.nvlinks(gpu, peer) for peer in links) for gpu in links)
            raise InputError(
                f"{where}: a GPU with {total} NVLinks to others, of at most {MOST_NVLINKS}, and no NVSwitch: "
                f"{matrix.names[one]} and {matrix.names[other]} have {matrix.nvlinks(one, other)} between "
                f"them, which must be the smaller of their {links[one]} and {links[other]}"
            )


def _add_nvswitch(machine: Machine, links: dict[int, int], nvlink: Fraction, *, sharp: bool) -> None:
    able = " that multicasts and aggregates (NVLink SHARP)" * sharp
    most = max(links.values())
    machine.notes.append(
        f"{len(links)} GPUs have NV{most} to each other, more than {MOST_NVLINKS} links in all: they lead to "
        f"an NVSwitch{able}"
    )
    fewer = [f"GPU {gpu} {count}" for gpu, count in links.items() if count < most]
    if fewer:
        machine.notes.append(
            f"GPUs of an NVSwitch with fewer than {most} NVLinks, by the largest entry of their row: "
            + listed(fewer)
        )
    hub = machine.add(Device(DeviceKind.NVSWITCH, "nvswitch", sharp=sharp))
    for gpu, count in links.items():
        machine.join(gpu, hub, count * nvlink)


def _guess(most: int, generation: _Generation) -> str:
    nvlink, pcie, nic = map(format_bandwidth, generation[1:])
    sure = most in _GENERATIONS
    also = " (Blackwell has 18 too, of 40.1GB/s)" * (most == MOST_NVLINKS)
    return (
        f"the matrix has no speeds: GPUs with {most} NVLinks are taken for {generation.name}{also}"
        f"{'' if sure else ', as a guess'}, with {nvlink} an NVLink, {pcie} for PCIe and {nic} an "
        "adapter; bandwidth=NVLINK,PCIE,ADAPTER sets them"
    )


def _add_pcie(matrix: _Matrix, machine: Machine, bandwidth: Fraction) -> None:
    """Add the tree of PCIe switches under a CPU for each NUMA node."""
    far = matrix.groups("PIX", "PXB")
    near = {member: group for group in matrix.groups("PIX") for member in group}
    cpus = []
    for members in matrix.groups("PIX", "PXB", "PHB", "NODE"):
        numa = [matrix.numa[matrix.names[i]] for i in members if matrix.names[i] in matrix.numa]
        cpus.append(machine.add(Device(DeviceKind.CPU, f"cpu{numa[0] if numa else ''}")))
        for group in (group for group in far if group[0] in members):
            switches = list(dict.fromkeys(near[member][0] for member in group))
            above = cpus[-1]
            if len(switches) > 1:
                above = machine.add(Device(DeviceKind.PCIE, "pcie"), above, bandwidth)
            for first in switches:
                below = above
                if len(near[first]) > 1:
                    below = machine.add(Device(DeviceKind.PCIE, "pcie"), above, bandwidth)
                machine.cables.extend(Cable(below, member, bandwidth) for member in near[first])
    machine.cables.extend(Cable(*pair, _CPUS) for pair in combinations(cpus, 2))


def _header_at(line: str) -> int | None:
    """Return where in a line the names of devices begin, if it is the header of a matrix."""
    match = _FIRST_NAME.search(line)
    if match is None:
        return None
    rest = line[match.end() :]
    alone = not line[: match.start()].strip() and not any(map(_CELLS_IN_A_WORD.fullmatch, rest.split()[:1]))
    return match.start() if alone or _SECOND_NAME.match(rest) else None


def _read(text: str, where: str) -> _Matrix:
    """Return the matrix in a text; if there are several streams with tags, the first."""
    found = streams(plain_lines(text), _header_at)
    matrix = _matrix(found[0], where) if found else None
    if matrix is None:
        raise InputError(f"{where}: no matrix of nvidia-smi topo -m: no line begins with GPU0, GPU1, ...")
    matrix.others = len(found) - 1
    missing = [name for name in matrix.names if name not in matrix.cells]
    if missing:
        raise InputError(f"{where}: the header has {missing[0]}, but no row has")
    last = matrix.names[-1]
    for name, readings in matrix.glued.items():  # the reading that agrees with the other device's row counts
        mirror = matrix.cells[last][matrix.names.index(name)]
        if mirror in readings:
            matrix.cells[name][-1] = mirror
    for one, other in combinations(range(len(matrix.names)), 2):
        there, back = matrix.cells[matrix.names[one]][other], matrix.cells[matrix.names[other]][one]
        if there != back:
            pair = f"{matrix.names[one]} and {matrix.names[other]}"
            raise InputError(f"{where}: {pair} are {there} in one row and {back} in the other")
    return matrix


def _matrix(lines: list[LogLine], where: str) -> _Matrix | None:
    """Return the matrix that begins with the first header, or None."""
    matrix: _Matrix | None = None
    for line in lines:
        words = line.text.split()
        place = f"{where}, line {line.number}"
        if matrix is None:
            if _header_at(line.text) == len(line.text) - len(line.text.lstrip()):
                matrix = _Matrix(_columns(_LOST_TAB.sub(" ", line.text).split(), place))
        elif words and (words[0] in matrix.names or _GPU.fullmatch(words[0])):
            _add_row(matrix, words, place)
        elif legend := _LEGEND.fullmatch(line.text.strip()):
            matrix.legend[legend[1]] = legend[2]
    return matrix


def _columns(words: list[str], place: str) -> list[str]:
    end = next((index for index, word in enumerate(words) if word in ("CPU", "NUMA")), len(words))
    columns = words[:end]
    if len(columns) > MOST_DEVICES:
        raise InputError(f"{place}: {len(columns)} devices; at most {MOST_DEVICES} are read")
    strange = next((word for word in columns if not _NAME.fullmatch(word)), None)
    if strange is not None:
        raise InputError(
            f"{place}: a device called {strange[:SHOWN]!r}; a name has letters, digits and _.:+-"
        )
    if len(set(columns)) < len(columns):
        raise InputError(f"{place}: a device occurs twice in the header")
    return columns


def _add_row(matrix: _Matrix, words: list[str], place: str) -> None:
    name, count = words[0], len(matrix.names)
    if name not in matrix.names:
        raise InputError(f"{place}: the row {name} has no column in the header")
    if name in matrix.cells:
        raise InputError(f"{place}: a second row {name}")
    cells: list[str] = []
    rest = words[1:]
    while len(cells) < count and rest and _CELLS_IN_A_WORD.fullmatch(rest[0]):
        cells += [cell[0] for cell in _CELL.finditer(rest.pop(0))]
    if len(cells) == count - 1 and rest and (glued := _GLUED.fullmatch(rest[0])):
        splits = [(glued[1] + glued[2][:n], glued[2][n:]) for n in ((1, 2) if glued[1] == "NV" else (0,))]
        matrix.glued[name] = [cell.replace("SOC", "SYS") for cell, cpus in splits if _NUMA.fullmatch(cpus)]
        cells += matrix.glued[name][:1]
    if len(cells) != count:
        found = f"{rest[0][:SHOWN]!r} where a cell is expected" if rest else "too few cells"
        found = "too many cells" if len(cells) > count else found
        raise InputError(f"{place}: {found}; the header has {count} devices, and a cell is one of {_CELLS}")
    many = next((cell for cell in cells if cell[:2] == "NV" and int(cell[2:]) > MOST_NVLINKS), None)
    if many is not None:
        raise InputError(f"{place}: {many}; no GPU has more than {MOST_NVLINKS} NVLinks")
    if (cells[matrix.names.index(name)], cells.count("X")) != ("X", 1):
        raise InputError(f"{place}: the row {name} must have X in its own column, and there only")
    matrix.cells[name] = ["SYS" if cell == "SOC" else cell for cell in cells]
    if len(rest) > 1 and _NUMA.fullmatch(rest[1]):
        matrix.numa[name] = rest[1]
