"""Reads the topology XML of NCCL and RCCL: dumps of ``NCCL_TOPO_DUMP_FILE``, and vendors' static files.

``system`` holds a ``cpu`` for each NUMA node. A ``cpu`` holds nested ``pci`` devices, and these hold a
``gpu`` or a ``nic`` with its ``net`` ports. Links between GPUs are ``nvlink`` or ``xgmi`` elements of a
``gpu``. They name the PCI bus of the peer or the class of an NVSwitch. A GPU's link to its CPU is ``c2c``.
All NVSwitches become one, as in NCCL; CPUs of one host are joined pairwise. Bandwidths depend on the model of
a device, as NCCL and RCCL measured them, and are lower than in data sheets. A dump of an NVLink domain has
several hosts, by ``host_hash``. Source: NCCL 2.30.7, src/graph/{xml,topo}.{h,cc}, and RCCL's.

Static files have neither ``gpu`` nor ``nic``: GPUs and adapters are then PCI devices of their classes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, pairwise
from pathlib import Path
from typing import NamedTuple

from tutti.topologies.errors import SHOWN, InputError
from tutti.topologies.exact import INT32_MAX, NONE
from tutti.topologies.importing.machine import (
    MOST_TEXT,
    OTHERS,
    AdapterPort,
    Cable,
    Device,
    DeviceKind,
    Joining,
    Machine,
    network,
)
from tutti.topologies.topology import Topology
from tutti.topologies.units import GIGA, exact_number, format_bandwidth
from tutti.topologies.xml_files import Element, read_xml

_NVLINK = ((100, "40.1"), (90, "20.6"), (87, "20"), (86, "12"), (70, "20"), (60, "18"))
"""GB/s of one NVLink, from this compute capability (times ten) on."""
_XGMI = (
    (re.compile("gfx95|950"), "48"),
    (re.compile("gfx94|94[0-2]"), "48"),
    (re.compile("gfx90a|910"), "36"),
    (re.compile("(gfx)?90[0-8]"), "24"),
)
"""GB/s of one Infinity Fabric link, by the start of the GPU's architecture as RCCL writes it."""
_GENERATIONS = {"2.5": 15, "5": 30, "8": 60, "16": 120, "32": 240, "64": 480}
"""Bandwidth of a PCIe lane in units of 100 Mb/s, by its rate in GT/s."""
_UNKNOWN_GENERATION = 60
PCIE_WIDTH = 16
UNKNOWN_NIC = 10_000
"""Mb/s of an adapter whose speed is not in the file."""
_POWER, _ARM, _AMD = Fraction(32 * GIGA), Fraction(6 * GIGA), Fraction(16 * GIGA)
_INTEL = ((0xCF, 40), (0x8F, 22), (0x55, 10), (0, 6))
"""GB/s between two Intel CPUs, from this model of family 6 on: Emerald Rapids, Sapphire Rapids, Skylake."""


def nvlink_bandwidth(capability: int) -> Fraction | None:
    """Return the bandwidth of one NVLink of a GPU of a compute capability (times ten), or None.

    Examples
    --------
    >>> nvlink_bandwidth(90)
    Fraction(20600000000, 1)
    """
    speed = next((speed for least, speed in _NVLINK if capability >= least), None)
    return None if speed is None else Fraction(speed) * GIGA


def xgmi_bandwidth(architecture: str) -> Fraction | None:
    """Return the bandwidth of one Infinity Fabric link of a GPU by its ``gcn``, or None."""
    speed = next((speed for name, speed in _XGMI if name.match(architecture)), None)
    return None if speed is None else Fraction(speed) * GIGA


def pcie_bandwidth(speed: str, width: int) -> Fraction:
    """Return the bandwidth of a PCIe link of `width` lanes. Where the speed is unknown, it is 8 GT/s.

    Parameters
    ----------
    speed
        Such as ``16 GT/s`` or ``16.0 GT/s PCIe``.
    width
        Lanes; 0, as virtual machines report it, means 16.

    Examples
    --------
    >>> pcie_bandwidth("32.0 GT/s PCIe", 16)
    Fraction(48000000000, 1)
    """
    words = speed.split() or [""]
    lane = _GENERATIONS.get(words[0].removesuffix(".0"), _UNKNOWN_GENERATION)
    return Fraction((width or PCIE_WIDTH) * lane * GIGA, 80)


def nic_bandwidth(megabits: int) -> Fraction:
    """Return the bandwidth of an adapter of a speed in Mb/s; 10 Gb/s if the speed is not positive."""
    return Fraction((megabits if megabits > 0 else UNKNOWN_NIC) * 10**6, 8)


def cpu_bandwidth(cpu: Mapping[str, str]) -> Fraction | None:
    """Return the bandwidth between two CPUs (NUMA nodes) by the attributes of a ``cpu``, or None."""
    architecture, vendor = cpu.get("arch", ""), cpu.get("vendor", "")
    if architecture.startswith("ppc"):
        return _POWER
    if architecture in ("arm64", "aarch64"):
        return _ARM
    if vendor == "AuthenticAMD":
        return _AMD
    if vendor != "GenuineIntel":
        return None
    words = (cpu.get(name, "") for name in ("familyid", "modelid"))
    family, model = (int(word) if re.fullmatch("[0-9]{1,9}", word) else 0 for word in words)
    return next(Fraction(speed * GIGA) for least, speed in _INTEL if least <= model * (family == 6))


class NcclFileLimits(NamedTuple):
    """Limits on a file that is read. Larger files are refused."""

    elements: int
    """Most elements of the file."""
    cpus: int
    """Most CPUs of a host. They are joined pairwise."""
    links: int
    """Most links from a GPU to one other device."""
    digits: int
    """Most digits of a latency. NCCL writes six decimals."""


LIMITS = NcclFileLimits(elements=2**14, cpus=64, links=64, digits=40)

_GPU_CLASSES, _NIC_CLASSES = ("0x03", "0x12"), ("0x02",)
_NVSWITCH_CLASS, _NVSWITCH_TARGET = "0x068000", "fffffff:ff:ff.0"
_CPU_CLASS = "0x06"
"""PCI class of a CPU, to which an NVLink may also lead: the bridge of a POWER9."""
_PLAIN_LABEL = re.compile(r"[A-Za-z0-9_.:+]{1,64}")
_UNKNOWN = " (unknown)"
_UNKNOWN_LINK = Fraction(20 * GIGA)
_UNKNOWN_CPU = Fraction(10 * GIGA)
_MOST_NVLINKS = ((107, 36), (0, 18))
"""Pairs of a compute capability (times ten) and the largest number of NVLinks of a GPU from there on."""
_SHARP_CAPABILITY = 90
"""Compute capability (times ten) of Hopper, from which on NVSwitches multicast and aggregate."""


@dataclass
class _Gpu:
    """A GPU in the file."""

    element: Element
    device: int
    host: int
    busid: str
    cpu: int

    @property
    def rank(self) -> int:
        """Its rank; -1 if it has none."""
        return self.element.integer("rank", -1, INT32_MAX, -1)

    @property
    def dev(self) -> int:
        """Its number on the host."""
        return self.element.integer("dev", -1, INT32_MAX, 0)


@dataclass
class _TopologyReading:
    """The content read so far. In static files, which lack ``gpu`` or ``net``, PCI classes mark devices."""

    static_gpus: bool
    static_nics: bool
    machine: Machine = field(default_factory=lambda: Machine([], [], []))
    gpus: list[_Gpu] = field(default_factory=list)
    adapters: dict[tuple[int, str, str], int] = field(default_factory=dict)
    nvswitch: int | None = None


def read_nccl(path: Path | str, name: str, joining: Joining) -> Topology:
    """Return the network in a topology file of NCCL or RCCL.

    Parameters
    ----------
    path
        The XML.
    name
        The name of the network.
    joining
        The number of such hosts, and the way to join them.

    Raises
    ------
    InputError
        If the file can't be read, is no such file (the message names the line), or has no GPU.
    """
    root = read_xml(path, most_elements=LIMITS.elements, most_bytes=MOST_TEXT)
    if root.tag != "system":
        raise root.error("is no topology of NCCL, whose outermost element is <system>")
    tags, left = set(), [root]
    while left:
        one = left.pop()
        tags.add(one.tag)
        left += one.children
    system = _TopologyReading(static_gpus="gpu" not in tags, static_nics="net" not in tags)
    hosts: dict[str, int] = {}
    cpus: dict[int, list[tuple[int, Element]]] = {}
    for cpu in root.each("cpu"):
        host = hosts.setdefault(cpu.attributes.get("host_hash", ""), len(hosts))
        label = f"cpu{_plain(cpu.attributes.get('numaid', ''), '')}"
        number = system.machine.add(Device(DeviceKind.CPU, label, host))
        cpus.setdefault(host, []).append((number, cpu))
        for nic in cpu.each("nic"):  # sockets and virtual interfaces, perhaps listed under each CPU
            _add_adapter(system, nic, number, host, None)
        for pci in cpu.each("pci"):
            _read_pci(system, pci, number, number, host)
    if not system.gpus:
        raise root.error("has no GPU: no <gpu>, and no <pci> of class 0x03 or 0x12")
    _join_cpus(system, cpus)
    ordered = _ranked(system, root)
    _check_one_rank_each(system, ordered)
    _add_fabric(system, ordered, one_host=len(hosts) == 1)
    if system.static_gpus:
        system.machine.notes.append(
            "no <gpu> in the file: GPUs are its PCI devices of class 0x03 or 0x12, in its order, and nothing "
            "says whether NVLink joins them; a dump of the machine (NCCL_TOPO_DUMP_FILE) does"
        )
    whole = system.machine
    if system.static_nics and whole.of(DeviceKind.NIC):
        system.machine.notes.append(
            "no <net> in the file: adapters are its PCI devices of class 0x02, each as fast as its PCIe link"
        )
    return network(whole.taking([*(gpu.device for gpu in ordered), *whole.of(*OTHERS)]), name, joining)


def _plain(text: str, otherwise: str) -> str:
    return text if _PLAIN_LABEL.fullmatch(text) else otherwise


def _read_pci(system: _TopologyReading, pci: Element, parent: int, cpu: int, host: int) -> None:
    speed, width = pci.attributes.get("link_speed", ""), pci.integer("link_width", -1, 64, 0)
    link = pcie_bandwidth(speed, max(width, 0))
    code = pci.attributes.get("class", "").lower()
    gpus, nics, nested = list(pci.each("gpu")), list(pci.each("nic")), list(pci.each("pci"))
    if not nested and system.static_gpus and code.startswith(_GPU_CLASSES):
        gpus = [pci]
    if len(gpus) + len(nics) > 1 or nested:
        parent = system.machine.add(Device(DeviceKind.PCIE, "pcie", host), parent, link)
    for gpu in gpus:
        device = system.machine.add(Device(DeviceKind.GPU, "", host), parent, link)
        system.gpus.append(_Gpu(gpu, device, host, pci.attributes.get("busid", "").lower(), cpu))
    for nic in nics:
        _add_adapter(system, nic, parent, host, link)
    if not nested and not nics and system.static_nics and code.startswith(_NIC_CLASSES):
        system.machine.add(Device(DeviceKind.NIC, "nic", host, (AdapterPort(link),)), parent, link)
    for child in nested:
        _read_pci(system, child, parent, cpu, host)


def _add_adapter(
    system: _TopologyReading, nic: Element, parent: int, host: int, link: Fraction | None
) -> None:
    """Add an adapter with its ports; an adapter that is listed again gets a link to that place, too."""
    nets = list(nic.each("net"))
    if not nets:
        return
    ports = tuple(_port(net) for net in nets)
    key = (host, nets[0].attributes.get("name", ""), nets[0].attributes.get("dev", ""))
    if key not in system.adapters:
        label = _plain(key[1], f"nic{_plain(key[2], '')}")
        system.adapters[key] = system.machine.add(Device(DeviceKind.NIC, label, host, ports))
    total = sum((port.bandwidth for port in ports), Fraction(0))
    system.machine.cables.append(Cable(parent, system.adapters[key], link or total))


def _port(net: Element) -> AdapterPort:
    bandwidth = nic_bandwidth(net.integer("speed", -1, 10**9, 0))
    try:
        latency = exact_number(net.attributes.get("latency", "0")[: LIMITS.digits])
    except InputError as error:
        raise net.error(f"has a latency that is no number: {error}") from None
    if not 0 <= latency <= 10**6:
        raise net.error("has a latency out of range: from 0 to 10^6 us")
    return AdapterPort(bandwidth, latency / (2 * 10**6) if latency else None)


def _join_cpus(system: _TopologyReading, cpus: dict[int, list[tuple[int, Element]]]) -> None:
    """Join the CPUs of each host pairwise, as NCCL does."""
    unknown = False
    for members in cpus.values():
        if len(members) > LIMITS.cpus:
            raise members[-1][1].error(
                f"is one of {len(members)} of a host; at most {LIMITS.cpus} are joined"
            )
        speeds = {number: cpu_bandwidth(cpu.attributes) for number, cpu in members}
        for one, other in combinations(speeds, 2):
            known = [speed for speed in (speeds[one], speeds[other]) if speed is not None]
            unknown |= not known
            system.machine.cables.append(Cable(one, other, min(known, default=_UNKNOWN_CPU)))
    if unknown:
        speed = format_bandwidth(_UNKNOWN_CPU)
        system.machine.notes.append(f"CPUs of an unknown model: {speed} between two of them")


def _ranked(system: _TopologyReading, root: Element) -> list[_Gpu]:
    """Return the GPUs in the order of their ranks, else of their numbers on the host, else of the file."""
    if system.static_gpus:
        return system.gpus
    ranked = [gpu for gpu in system.gpus if gpu.rank >= 0]
    if not ranked:
        system.machine.notes.append("no GPU has a rank; they are numbered by dev")
        return sorted(system.gpus, key=lambda gpu: (gpu.host, gpu.dev))
    without = len(system.gpus) - len(ranked)
    if without:
        system.machine.notes.append(f"{without} GPUs without a rank are left out, as NCCL does")
    ranked.sort(key=lambda gpu: gpu.rank)
    for one, other in pairwise(ranked):
        if one.rank == other.rank:
            raise other.element.error(f"has rank {other.rank}, as the one in line {one.element.line}")
    return ranked


def _check_one_rank_each(system: _TopologyReading, gpus: list[_Gpu]) -> None:
    """Refuse a GPU of several ranks, which share its links: partitions (MIG, MLOPart) or two processes.

    Two GPUs of a host with the same ``dev`` get a note: processes that see one GPU each may number it 0.
    """
    seen: dict[tuple[int, str], _Gpu] = {}
    numbers: dict[tuple[int, str], _Gpu] = {}
    for gpu in gpus:
        other = seen.setdefault((gpu.host, gpu.busid or f"line {gpu.element.line}"), gpu)
        if other is not gpu:
            raise gpu.element.error(
                f"is on the same <pci busid='{gpu.busid[:SHOWN]}'> as the one in line {other.element.line}: "
                "ranks that share a GPU (MIG, MLOPart, NCCL_MULTI_RANK_GPU_ENABLE) share its links, which is "
                "not read; dump with one rank a GPU"
            )
        dev = gpu.element.attributes.get("dev")
        if dev is not None and numbers.setdefault((gpu.host, dev), gpu) is not gpu and not system.static_gpus:
            system.machine.notes.append(
                f"two GPUs of a host have dev={dev[:SHOWN]}, on different PCI buses; taken for two GPUs"
            )


def _add_fabric(system: _TopologyReading, gpus: list[_Gpu], *, one_host: bool) -> None:
    """Add the links between GPUs, to the NVSwitch, and to CPUs other than PCIe links."""
    place = {(gpu.host, gpu.busid): index for index, gpu in reversed(list(enumerate(gpus)))}
    speeds: dict[str, Fraction] = {}
    lost, bare = 0, []
    fabric: set[tuple[int, int]] = set()
    for index, gpu in enumerate(gpus):
        links = list(gpu.element.each("nvlink", "xgmi"))
        if not links:
            bare.append(index)
        to_switch = Fraction(0)
        _check_count(gpu)
        for link in links:
            count, speed = link.integer("count", 0, LIMITS.links, 1), _link_speed(gpu, link.tag, speeds)
            code = link.attributes.get("tclass", "").lower()
            target = link.attributes.get("target", "").lower()
            peer = place.get((gpu.host, target))
            if code == _NVSWITCH_CLASS or target == _NVSWITCH_TARGET:
                to_switch += count * speed
            elif code.startswith(_CPU_CLASS):
                system.machine.cables.append(Cable(gpu.cpu, gpu.device, count * speed))
            elif peer is None or peer == index:
                lost += 1
            else:
                fabric.add((index, peer))
                system.machine.cables.extend(
                    [Cable(gpu.device, gpus[peer].device, speed, fabric=True)] * count
                )
        for link in gpu.element.each("c2c"):
            speed = Fraction(link.integer("bw", 1, 10**8) * link.integer("count", 1, 1024, 1) * 10**6)
            system.machine.cables.append(Cable(gpu.cpu, gpu.device, speed))
        if to_switch:
            _to_nvswitch(system, gpus, gpu, to_switch, one_host)
    _note_fabric(system.machine.notes, speeds, lost, bare if len(bare) < len(gpus) else [])
    one_way = sorted((a, b) for a, b in fabric if (b, a) not in fabric)
    if one_way:
        system.machine.notes.append(
            f"{len(one_way)} links between GPUs are listed at one end only, such as {one_way[0]}; they have "
            "one direction"
        )


def _check_count(gpu: _Gpu) -> None:
    """Refuse more NVLinks than a GPU can have."""
    count = sum(link.integer("count", 0, LIMITS.links, 1) for link in gpu.element.each("nvlink"))
    capability = gpu.element.integer("sm", 0, 10**4, 0)
    most = next(most for least, most in _MOST_NVLINKS if capability >= least)
    if count > most:
        raise gpu.element.error(f"has {count} NVLinks; a GPU of sm {capability} has at most {most}")


def _to_nvswitch(
    system: _TopologyReading, gpus: list[_Gpu], gpu: _Gpu, bandwidth: Fraction, one_host: bool
) -> None:
    if system.nvswitch is None:
        sharp = all(other.element.integer("sm", 0, 10**4, 0) >= _SHARP_CAPABILITY for other in gpus)
        host = 0 if one_host else NONE
        system.nvswitch = system.machine.add(Device(DeviceKind.NVSWITCH, "nvswitch", host, sharp=sharp))
        able = "; it multicasts and aggregates (NVLink SHARP), as from Hopper on" * sharp
        system.machine.notes.append(f"all NVSwitches are one switch{able}")
    system.machine.join(gpu.device, system.nvswitch, bandwidth)


def _link_speed(gpu: _Gpu, tag: str, speeds: dict[str, Fraction]) -> Fraction:
    """Return the bandwidth of one link of a GPU, and remember the model."""
    if tag == "xgmi":
        model = gpu.element.attributes.get("gcn", "")
        speed = xgmi_bandwidth(model)
        what = f"Infinity Fabric link of gcn {model[:16]!r}"
    else:
        capability = gpu.element.integer("sm", 0, 10**4, 0)
        speed = nvlink_bandwidth(capability)
        what = f"NVLink of sm {capability}"
    speeds[what + _UNKNOWN * (speed is None)] = speed or _UNKNOWN_LINK
    return speed or _UNKNOWN_LINK


def _note_fabric(notes: list[str], speeds: dict[str, Fraction], lost: int, bare: list[int]) -> None:
    for what, speed in speeds.items():
        by = "RCCL's number" if "gcn" in what else "NCCL's number"
        by = "a guess" if what.endswith(_UNKNOWN) else by
        carried = f"one {what} carries {format_bandwidth(speed)}"
        notes.append(f"{carried}, {by}; the file has counts only")
    if lost:
        notes.append(f"{lost} links lead to GPUs that are not in the file or have no rank; left out")
    if bare:
        notes.append(
            f"no link to other GPUs in the file for GPU {', '.join(map(str, bare[:8]))}; others have some"
        )
