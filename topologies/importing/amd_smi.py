"""Reads the tables of AMD's tools: ``rocm-smi --showtopo`` and ``amd-smi topology``.

Both print tables of all pairs of GPUs, one below the other: weight, hops and type of link (XGMI or
PCIE). The newer tool adds the least and the largest bandwidth in MB/s. Two GPUs with XGMI and one hop are
linked directly; XGMI of several hops goes through other GPUs. Neither tool prints the number of links of a
pair, so it gets one link, with the largest bandwidth if that is printed. The older tool prints the NUMA node
of each GPU below its tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from pathlib import Path

from tutti.topologies.assembly import per_class
from tutti.topologies.errors import SHOWN, InputError
from tutti.topologies.files import read_text
from tutti.topologies.importing.machine import (
    MOST_DEVICES,
    MOST_TEXT,
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
from tutti.topologies.units import GIGA, MEGA, format_bandwidth

_TITLES = (
    ("type", re.compile(r"=+ *Link Type between two GPUs *=+|LINK TYPE TABLE:")),
    ("hops", re.compile(r"=+ *Hops between two GPUs *=+|HOPS TABLE:")),
    ("bandwidth", re.compile(r"=+ *(?:XGMI |Numa )?Bandwidth\b[^=]*=+|NUMA BW TABLE:")),
    ("", re.compile(r"=+ *[A-Za-z][^=]*=+|[A-Z][A-Z -]* TABLE:|Legend:?")),
)
"""The contents of a table and the pattern of its title. Tables that are not read come last."""
_NUMA = re.compile(r"GPU\[? ?([0-9]{1,4})\]?\s*:\s*\(Topology\) Numa Node:\s*(-?[0-9]{1,4})")
_NAME = re.compile(r"GPU[0-9]{1,4}|[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]")
_SELF = ("0", "SELF", "X", "N/A")
_RANGE = re.compile(r"([0-9]{1,8})(?:-([0-9]{1,8}))?")
_TABLES = {
    "type": ("the table of link types", re.compile("XGMI|PCIE")),
    "hops": ("the table of hops", re.compile("[0-9]{1,6}|N/A")),
    "bandwidth": ("the table of bandwidths", re.compile(f"{_RANGE.pattern}|N/A")),
}
"""The name of each table in errors, and the pattern of its cells."""
_XGMI, _PCIE, _NIC = Fraction(48 * GIGA), Fraction(48 * GIGA), Fraction(50 * GIGA)
"""Default bytes/s of one Infinity Fabric link, of PCIe and of an adapter: the values of an MI300X."""
_CPUS = Fraction(16 * GIGA)
"""Bytes/s between two AMD CPUs. NCCL assumes the same."""
_ONE_HOP = ("1", "N/A", "")
_NEAR = 2
"""Largest number of hops over PCIe between two GPUs of one NUMA node."""


@dataclass
class _Tables:
    """The names of GPUs, the cells of each table by its row, and the NUMA node of each GPU."""

    names: list[str] = field(default_factory=list)
    cells: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    numa: dict[int, str] = field(default_factory=dict)

    def cell(self, table: str, one: int, other: int) -> str:
        """Return a table's cell for two GPUs; empty if there is no such table."""
        rows = self.cells.get(table)
        return "" if rows is None else rows[self.names[one]][other]


def read_amd_smi(
    path: Path | str, name: str, joining: Joining, bandwidth: list[Fraction] | None = None
) -> Topology:
    """Return the network that the tables of ``rocm-smi --showtopo`` or ``amd-smi topology`` describe.

    Parameters
    ----------
    path
        The file with the text.
    name
        The name of the network.
    joining
        The number of such hosts, and the way to join them.
    bandwidth
        One value for all links or three: one Infinity Fabric link, PCIe, an adapter.

    Raises
    ------
    InputError
        If there is no table of types of links in the file, or a table contradicts itself.
    """
    tables = _read(read_text(path, MOST_TEXT), str(path))
    xgmi, pcie, _ = per_class(f"topology {name}: bandwidth", bandwidth, [_XGMI, _PCIE, _NIC])
    if joining.hosts > 1:
        raise InputError(
            f"{name}: no network adapter in the file; hosts={joining.hosts} needs one to join them; "
            "a dump of RCCL (nccl:FILE) has them"
        )
    machine = Machine([Device(DeviceKind.GPU, "") for _ in tables.names], [], [], "NCCL's number for AMD's")
    _add_fabric(tables, machine, xgmi, given=bandwidth is not None)
    _add_cpus(tables, machine, pcie)
    if bandwidth is None:
        machine.notes.append(
            f"a GPU's PCIe link is taken for Gen 5 x16, {format_bandwidth(_PCIE)}; "
            "bandwidth=XGMI,PCIE,ADAPTER sets it"
        )
    return network(machine, name, joining)


def _add_fabric(tables: _Tables, machine: Machine, xgmi: Fraction, *, given: bool) -> None:
    """Add the direct links between GPUs, and note which values the tables lack."""
    guessed = told = far = 0
    for one, other in combinations(range(len(tables.names)), 2):
        if tables.cell("type", one, other) != "XGMI":
            continue
        if tables.cell("hops", one, other) not in _ONE_HOP:
            far += 1
            continue
        match = _RANGE.fullmatch(tables.cell("bandwidth", one, other))
        known = Fraction(int(match[2] or match[1]) * MEGA) if match else Fraction(0)
        told, guessed = told + (known > 0 and not given), guessed + (not known and not given)
        speed = known if known and not given else xgmi
        machine.join(one, other, speed)
    if "hops" not in tables.cells:
        machine.notes.append(
            "the file has no hops, so any two GPUs of type XGMI are taken to be linked directly"
        )
    if told:
        machine.notes.append(f"the bandwidth of {told} pairs of GPUs is the largest in the file's table")
    if guessed:
        machine.notes.append(
            f"the bandwidth and the number of links of {guessed} pairs of GPUs are not in the file: one link "
            f"each, of {format_bandwidth(_XGMI)} (MI300X, RCCL's number; MI200 has up to four of 36GB/s, "
            "MI100 has 24GB/s); bandwidth=XGMI,PCIE,ADAPTER sets it"
        )
    if far:
        machine.notes.append(
            f"{far} pairs of GPUs of type XGMI are several hops apart, so no link joins them directly"
        )


def _add_cpus(tables: _Tables, machine: Machine, pcie: Fraction) -> None:
    """Add a CPU for each NUMA node, with the PCIe links of its GPUs."""
    gpus = range(len(tables.names))
    nodes = {gpu: tables.numa.get(gpu, "") for gpu in gpus}
    if "" in nodes.values():
        hops = {pair: tables.cell("hops", *pair) for pair in combinations(gpus, 2)}
        near = [pair for pair, count in hops.items() if not count.isdecimal() or int(count) <= _NEAR]
        groups = enumerate(grouped(len(gpus), near))
        nodes = {gpu: str(number) for number, members in groups for gpu in members}
        machine.notes.append(
            f"the file has no NUMA nodes: GPUs at most {_NEAR} hops apart are taken for those of one CPU"
        )
    cpus = []
    for node in dict.fromkeys(nodes.values()):
        cpus.append(machine.add(Device(DeviceKind.CPU, f"cpu{node}")))
        machine.cables.extend(Cable(cpus[-1], gpu, pcie) for gpu in gpus if nodes[gpu] == node)
    machine.cables.extend(Cable(*pair, _CPUS) for pair in combinations(cpus, 2))


def _title(line: str) -> tuple[int | None, str]:
    """Return where a title begins in a line, or None, and the table that it belongs to."""
    for table, title in _TITLES:
        if match := title.search(line):
            return match.start(), table
    return None, ""


def _read(text: str, where: str) -> _Tables:
    """Return the tables in a text; if there are several streams with tags, the first."""
    lines = plain_lines(text)
    found = [
        stream
        for stream in streams(lines, lambda line: _title(line)[0])
        if any(_title(line.text)[1] == "type" for line in stream)
    ]
    if not found:
        raise InputError(
            f"{where}: no table of rocm-smi --showtopo (Link Type between two GPUs) or amd-smi topology "
            "(LINK TYPE TABLE)"
        )
    tables = _Tables()
    for table, block in _blocks(found[0]):
        if table and block:
            _add_table(tables, table, block, where)
    for line in found[0]:
        if match := _NUMA.search(line.text):
            tables.numa[int(match[1])] = match[2] if int(match[2]) >= 0 else ""
    _check(tables, where)
    return tables


def _blocks(lines: list[LogLine]) -> Iterator[tuple[str, list[LogLine]]]:
    """Yield the lines between two titles, with the table of the first title."""
    table, block = "", list[LogLine]()
    for line in lines:
        at, title = _title(line.text)
        if at is None:
            block.append(line)
        else:
            yield table, block
            table, block = title, []
    yield table, block


def _add_table(tables: _Tables, table: str, block: list[LogLine], where: str) -> None:
    """Add a table: a row of names, then one row for each name."""
    names: list[str] = []
    rows: dict[str, list[str]] = {}
    for line in block:
        words = line.text.split()
        place = f"{where}, line {line.number}"
        if not names:
            names = words if words and all(map(_NAME.fullmatch, words)) else []
            if len(set(names)) < len(names):
                raise InputError(f"{place}: a GPU occurs twice in the head")
            if len(names) > MOST_DEVICES:
                raise InputError(f"{place}: {len(names)} GPUs; at most {MOST_DEVICES} are read")
        elif words and _NAME.fullmatch(words[0]):
            if words[0] not in names or words[0] in rows or len(words) != len(names) + 1:
                raise InputError(
                    f"{place}: the row {words[0]} has {len(words) - 1} cells; the head has {len(names)} "
                    "GPUs, and each has one row"
                )
            rows[words[0]] = words[1:]
    missing = next((name for name in names if name not in rows), None)
    if not names or missing is not None:
        raise InputError(
            f"{where}: {_TABLES[table][0]} has {'no row ' + missing if missing else 'no head of GPUs'}"
        )
    if table in tables.cells or (tables.names and tables.names != names):
        what = _TABLES[table][0]
        raise InputError(f"{where}: {what} occurs twice, or has other GPUs than the first table")
    tables.names, tables.cells[table] = names, rows


def _check(tables: _Tables, where: str) -> None:
    """Refuse cells that can't be read, and tables that are not symmetric."""
    for table, (what, known) in _TABLES.items():
        for one in range(len(tables.names)) if table in tables.cells else ():
            for other in range(len(tables.names)):
                cell = tables.cell(table, one, other)
                pair = f"{tables.names[one]} and {tables.names[other]}"
                if one == other and cell.upper() not in _SELF:
                    raise InputError(f"{where}: {what} has {cell[:SHOWN]!r} for {tables.names[one]} itself")
                if one != other and not known.fullmatch(cell):
                    raise InputError(f"{where}: {what} has {cell[:SHOWN]!r} for {pair}")
                if one != other and cell != tables.cell(table, other, one):
                    raise InputError(f"{where}: {pair} are not the same in both directions in {what}")
