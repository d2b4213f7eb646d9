"""A host, or several of one file, as a graph of devices; hosts joined to a network.

GPUs are ranks; all other devices forward: NVSwitches, PCIe switches, CPUs (NUMA nodes) and adapters. Links
between GPUs, direct or through an NVSwitch, are the *fabric*; all others, also those between CPUs, are
*PCIe*.

Some devices are left out. A bridge, which is a PCIe switch with two neighbours, becomes a link as fast as its
slower side. An adapter of one GPU alone becomes this GPU's link to the network. Switches that lead nowhere
are dropped, and so are devices that schedules do not use. A single host needs no adapters, and no PCIe if the
fabric joins its GPUs. Several hosts need no CPUs if the fabric joins the GPUs of each and every GPU shares a
PCIe switch with an adapter. ``pcie=all`` keeps the last two.

The files contain no α. By default, in one direction, it is 0.7 us between GPUs over the fabric (half of it
from a GPU to an NVSwitch and half onwards), as TACCL measured it (Table 1). It is 0.5 us for a GPU's PCIe
link, so that two GPUs are 1 us apart, as in NCCL's tuning (src/graph/tuning.cc), and 0 for other PCIe links.
It is 0.85 us from an adapter to the network, half of what TACCL measured from adapter to adapter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tutti.topologies.assembly import check_size, per_class
from tutti.topologies.errors import InputError, listed
from tutti.topologies.exact import NONE
from tutti.topologies.topology import Link, Topology, components
from tutti.topologies.units import format_bandwidth, format_time


class Joining(NamedTuple):
    """The keys of a text that say how hosts are joined to a network.

    There are `hosts` copies of a host, joined by a `fabric` of one ``switch`` or ``rails``. `pcie` says
    whether ``all`` of PCIe stays or only the ``needed`` part (`machine`). `nvlink` says whether an NVSwitch
    joins the GPUs of each ``host``, or those of ``all`` hosts, as in a rack. `alpha` is one value for all
    links or three: between GPUs, PCIe, network.
    """

    hosts: int = 1
    fabric: str = "switch"
    pcie: str = "needed"
    nvlink: str = "host"
    alpha: list[Fraction] | None = None


CHOICES = {"fabric": ("switch", "rails"), "pcie": ("needed", "all"), "nvlink": ("host", "all")}
MOST_HOSTS = 2**16


def joining_of(text: str, hosts: int, words: dict[str, str], alpha: list[Fraction] | None) -> Joining:
    """Return the way to join hosts, from the keys of a text.

    Raises
    ------
    InputError
        If a key does not allow its word, or the number of hosts is out of range.
    """
    if not 1 <= hosts <= MOST_HOSTS:
        raise InputError(f"{text}: hosts={hosts}; from 1 to {MOST_HOSTS} are joined")
    for key, word in words.items():
        if word not in CHOICES[key]:
            raise InputError(f"{text}: {key}={word[:20]}; allowed: {', '.join(CHOICES[key])}")
    for key in ("fabric", "nvlink"):
        if key in words and hosts == 1:
            raise InputError(f"{text}: {key}= says how hosts are joined; give hosts=2 or more with it")
    return Joining(hosts, alpha=alpha, **words)


MOST_TEXT, MOST_DEVICES = 2**24, 512
"""Largest number of bytes of a tool's output that is read, and of devices in it."""

_US = Fraction(1, 10**6)
FABRIC_ALPHA, PCIE_ALPHA, NETWORK_ALPHA = Fraction(7, 10) * _US, Fraction(1, 2) * _US, Fraction(85, 100) * _US


class DeviceKind(StrEnum):
    """The kinds of devices."""

    GPU = "GPU"
    NVSWITCH = "NVSwitch"
    PCIE = "PCIe switch"
    CPU = "CPU"
    NIC = "adapter"


OTHERS = tuple(kind for kind in DeviceKind if kind is not DeviceKind.GPU)


class AdapterPort(NamedTuple):
    """A port from an adapter to the network: bytes/s, one-way seconds if the file has them, and its owner.

    The port of a GPU's own adapter includes the PCIe link between them in its bandwidth and α.
    """

    bandwidth: Fraction
    alpha: Fraction | None = None
    own: bool = False


@dataclass(frozen=True)
class Device:
    """A node of a host; GPUs are in the order of their ranks."""

    kind: DeviceKind
    label: str
    host: int = 0
    ports: tuple[AdapterPort, ...] = ()
    sharp: bool = False
    """True for an NVSwitch that multicasts and aggregates."""


class Cable(NamedTuple):
    """A link between two devices, by number. A fabric link is directed, a PCIe link has both directions."""

    one: int
    other: int
    bandwidth: Fraction
    fabric: bool = False


@dataclass(frozen=True)
class Machine:
    """Devices, the cables between them, notes on guesses, and the source of the CPUs' bandwidth."""

    devices: list[Device]
    cables: list[Cable]
    notes: list[str]
    cpus_by: str = "NCCL's number for their model"

    def add(self, device: Device, above: int | None = None, bandwidth: Fraction = Fraction(0)) -> int:
        """Add a device, and a PCIe cable of a bandwidth to the device above, if there is one.

        Return the number of the device.
        """
        self.devices.append(device)
        if above is not None:
            self.cables.append(Cable(above, len(self.devices) - 1, bandwidth))
        return len(self.devices) - 1

    def join(self, one: int, other: int, bandwidth: Fraction) -> None:
        """Add a fabric link in each direction."""
        self.cables.extend(Cable(*ends, bandwidth, fabric=True) for ends in ((one, other), (other, one)))

    def of(self, *kinds: DeviceKind) -> list[int]:
        """Return the numbers of the devices of these kinds."""
        return [number for number, device in enumerate(self.devices) if device.kind in kinds]

    def taking(self, kept: list[int]) -> Machine:
        """Return the machine of these devices, in this order, and the cables between them."""
        place = {number: index for index, number in enumerate(kept)}
        cables = [
            cable._replace(one=place[cable.one], other=place[cable.other])
            for cable in self.cables
            if cable.one in place and cable.other in place
        ]
        return replace(self, devices=[self.devices[number] for number in kept], cables=cables)

    def without(self, gone: Iterable[int]) -> Machine:
        """Return the machine without these devices and their cables."""
        left = set(gone)
        return self.taking([number for number in range(len(self.devices)) if number not in left])

    def in_a_rack(self, hosts: int) -> Machine:
        """Return this number of copies of the host; the GPUs of all share one NVSwitch."""
        (hub,) = self.of(DeviceKind.NVSWITCH)
        devices = [replace(self.devices[hub], host=NONE)]
        cables = []
        for host in range(hosts):
            at = {hub: 0}
            for number, device in enumerate(self.devices):
                if number != hub:
                    at[number] = len(devices)
                    devices.append(replace(device, host=host))
            cables += [cable._replace(one=at[cable.one], other=at[cable.other]) for cable in self.cables]
        rack = replace(self, devices=devices, cables=cables)
        return rack.taking([*rack.of(DeviceKind.GPU), *rack.of(*OTHERS)])

    def pcie_at(self) -> list[set[int]]:
        """Return the numbers of the PCIe cables at each device."""
        at: list[set[int]] = [set() for _ in self.devices]
        for number, cable in enumerate(self.cables):
            if not cable.fabric:
                at[cable.one].add(number)
                at[cable.other].add(number)
        return at


def grouped(count: int, pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return 0..count-1 in the groups that these pairs join, sorted by the least number of each."""
    ends = np.array(list(pairs), dtype=np.int64).reshape(-1, 2)
    number, label = components(count, ends[:, 0], ends[:, 1])
    return [np.flatnonzero(label == group).tolist() for group in range(number)]


def network(machine: Machine, name: str, joining: Joining) -> Topology:
    """Return the hosts as a network with `Topology.notes`.

    Raises
    ------
    InputError
        If there are several hosts but no adapter, or if `Topology` refuses the network.
    """
    if joining.nvlink == "all":
        machine = _rack(machine, name, joining.hosts)
        joining = joining._replace(hosts=1)
    adapters = machine.of(DeviceKind.NIC)
    if joining.hosts == 1:
        machine = machine.without(adapters)
    elif not adapters:
        rack = "; nvlink=all joins them by NVLink, as the family gb200_nvl72 is"
        rack *= bool(machine.of(DeviceKind.NVSWITCH))
        raise InputError(
            f"{name}: no network adapter in the file; hosts={joining.hosts} needs one to join them{rack}"
        )
    elif machine.of(DeviceKind.NVSWITCH):
        machine.notes.append(
            "each host has an NVSwitch of its own; if NVLink joins the hosts, as in a rack of GB200, "
            "nvlink=all says so"
        )
    machine, bridges = _collapsed(machine)
    if joining.pcie == "needed":
        machine, more = _collapsed(_needed(machine, joining.hosts))
        bridges += more
    machine = _with_own_adapters(machine)
    if bridges:
        slowest = "a link is as fast as its slowest part"
        machine.notes.append(f"PCIe bridges with nothing to share ({bridges}) are left out; {slowest}")
    between = {cable.bandwidth for cable in machine.cables if _kinds(machine, cable) == {DeviceKind.CPU}}
    if between:
        speeds = " or ".join(map(format_bandwidth, sorted(between)))
        machine.notes.append(f"any two CPUs of a host are joined at {speeds}, {machine.cpus_by}")
    names = Counter((device.host, device.label) for device in machine.devices)
    used: Counter[tuple[int, str]] = Counter()
    devices = []
    for device in machine.devices:
        key = device.host, device.label
        many = names[key] > 1 or device.kind is DeviceKind.PCIE
        devices.append(replace(device, label=f"{device.label}{used[key]}") if many else device)
        used[key] += 1
    return _joined(replace(machine, devices=devices), name, joining)


def _rack(machine: Machine, name: str, hosts: int) -> Machine:
    """Return hosts whose GPUs are joined by one NVSwitch."""
    if len(machine.of(DeviceKind.NVSWITCH)) != 1 or {device.host for device in machine.devices} - {0, NONE}:
        raise InputError(f"{name}: nvlink=all needs a file of one host with one NVSwitch")
    check_size(name, hosts * len(machine.devices), 2 * hosts * len(machine.cables))
    machine.notes.append(f"one NVSwitch joins the GPUs of all {hosts} hosts (nvlink=all)")
    return machine.in_a_rack(hosts)


def _kinds(machine: Machine, cable: Cable) -> set[DeviceKind]:
    return {machine.devices[cable.one].kind, machine.devices[cable.other].kind}


def _collapsed(machine: Machine) -> tuple[Machine, int]:
    """Return the machine without bridges and switches that lead nowhere, and the number of bridges."""
    cables, at = dict(enumerate(machine.cables)), machine.pcie_at()
    gone: set[int] = set()
    bridges, left = 0, machine.of(DeviceKind.PCIE, DeviceKind.CPU)
    while left:
        device = left.pop()
        if device in gone:
            continue
        numbers = sorted(at[device])
        ends = [cables[number].one + cables[number].other - device for number in numbers]
        kinds = {machine.devices[end].kind for end in (device, *ends)}
        bridge = len(numbers) == 2 and machine.devices[device].kind is DeviceKind.PCIE
        if not bridge and len(numbers) > 1 and kinds != {DeviceKind.CPU}:
            continue
        gone.add(device)
        bridges += bridge
        for number, end in zip(numbers, ends, strict=True):
            at[end].remove(number)
        if bridge:
            slower = min(cables[number].bandwidth for number in numbers)
            cables[numbers[0]] = Cable(ends[0], ends[1], slower)
            for end in ends:
                at[end].add(numbers[0])
        else:
            left += [end for end in ends if machine.devices[end].kind in (DeviceKind.PCIE, DeviceKind.CPU)]
        for number in numbers[bridge:]:
            del cables[number]
    kept = [cables[number] for number in sorted(cables)]
    return replace(machine, cables=kept).without(gone), bridges


def _needed(machine: Machine, hosts: int) -> Machine:
    """Return the machine without PCIe, or without the CPUs above it, if schedules have no use for them."""
    gpus = machine.of(DeviceKind.GPU)
    fabric = _reached(machine, gpus[:1], [cable for cable in machine.cables if cable.fabric])
    if not fabric.issuperset(gpus):
        return machine
    above = machine.of(DeviceKind.CPU)
    if hosts == 1:
        above += machine.of(DeviceKind.PCIE)
        if above:
            machine.notes.append(
                "links between GPUs join them all, so PCIe and CPUs are left out; pcie=all keeps them"
            )
        return replace(machine, cables=[cable for cable in machine.cables if cable.fabric]).without(above)
    below = machine.without(above)
    pcie = [cable for cable in below.cables if not cable.fabric]
    reached = _reached(below, below.of(DeviceKind.GPU), pcie)
    lost = [device for device in below.of(DeviceKind.NIC) if device not in reached]
    if not above or not _reached(below, below.of(DeviceKind.NIC), pcie).issuperset(below.of(DeviceKind.GPU)):
        return machine
    named = _named([below.devices[device] for device in lost])
    machine.notes.append(
        "links between GPUs join those of a host, and each GPU shares a PCIe switch with an adapter, so CPUs"
        + f" and what only they reach ({named})" * bool(lost)
        + " are left out; pcie=all keeps them"
    )
    return below.without(lost)


def _with_own_adapters(machine: Machine) -> Machine:
    """Return the machine; a one-port adapter that one GPU alone reaches becomes that GPU's port."""
    at = machine.pcie_at()
    devices, gone = list(machine.devices), []
    for number in machine.of(DeviceKind.NIC):
        if len(at[number]) != 1 or len(devices[number].ports) != 1:
            continue
        cable = machine.cables[min(at[number])]
        gpu = cable.one + cable.other - number
        if devices[gpu].kind is DeviceKind.GPU:
            (port,) = devices[number].ports
            own = AdapterPort(min(port.bandwidth, cable.bandwidth), port.alpha, own=True)
            devices[gpu] = replace(devices[gpu], ports=(*devices[gpu].ports, own))
            gone.append(number)
    if gone:
        named = _named([machine.devices[number] for number in gone])
        machine.notes.append(
            f"an adapter that one GPU alone reaches is its link to the network ({named}); drop_links= "
            "fails it"
        )
    return replace(machine, devices=devices).without(gone)


def _named(devices: list[Device]) -> str:
    """Return the labels of devices, with the bandwidth of an adapter."""
    shown = [
        device.label + "".join(f" {format_bandwidth(port.bandwidth)}" for port in device.ports[:1])
        for device in devices
    ]
    return listed(shown)


def _reached(machine: Machine, start: list[int], cables: list[Cable]) -> set[int]:
    """Return the devices that cables, in either direction, join to a device in `start`."""
    groups = grouped(len(machine.devices), ((cable.one, cable.other) for cable in cables))
    return {device for members in groups if not set(start).isdisjoint(members) for device in members}


def _joined(machine: Machine, name: str, joining: Joining) -> Topology:
    """Return `joining.hosts` copies of a machine, joined by one switch or by one for each port."""
    devices, copies = machine.devices, joining.hosts
    gpus, switches = machine.of(DeviceKind.GPU), machine.of(*OTHERS)
    ports = [(number, port) for number, device in enumerate(devices) for port in device.ports]
    ports *= copies > 1
    rails = min(len(ports), len(ports) if joining.fabric == "rails" else 1)
    check_size(name, copies * len(devices) + rails, 2 * copies * (len(machine.cables) + len(ports)))
    ranks, hosts = copies * len(gpus), max(device.host for device in devices) + 1
    first_rail = ranks + copies * len(switches)
    alpha = _alphas(machine, name, joining, [port for _, port in ports])
    links: list[Link] = []
    for copy in range(copies):
        at = {number: copy * len(gpus) + index for index, number in enumerate(gpus)}
        at |= {number: ranks + copy * len(switches) + index for index, number in enumerate(switches)}
        for cable in machine.cables:
            links.append(Link(at[cable.one], at[cable.other], cable.bandwidth, alpha(cable)))
            if not cable.fabric:
                links.append(Link(at[cable.other], at[cable.one], cable.bandwidth, alpha(cable)))
        for rail, (number, port) in enumerate(ports):
            ends = at[number], first_rail + rail % rails
            links += [Link(*way, port.bandwidth, alpha(port)) for way in (ends, ends[::-1])]
    each = [(copy, devices[number]) for copy in range(copies) for number in switches]
    placed = [(copy, devices[number]) for copy in range(copies) for number in gpus] + each
    sharp = [ranks + index for index, (_, device) in enumerate(each) if device.sharp]
    return Topology.from_links(
        name,
        ranks,
        sorted(links, key=lambda link: link.source),
        labels=[
            *map(str, range(ranks)),
            *(_prefix(copy, device, copies, hosts) + device.label for copy, device in each),
            *(["network"] if rails == 1 else [f"rail{rail}" for rail in range(rails)]),
        ],
        hosts=[NONE if d.host == NONE else copy * hosts + d.host for copy, d in placed] + [NONE] * rails,
        multicast=sharp,
        aggregate=sharp,
        notes=machine.notes,
    )


def _prefix(copy: int, device: Device, copies: int, hosts: int) -> str:
    """Return a prefix that distinguishes hosts; a device in no host gets the number of the copy."""
    if device.host == NONE:
        return f"d{copy}." * (copies > 1)
    return f"h{copy * hosts + device.host}." * (copies * hosts > 1)


def _alphas(
    machine: Machine, name: str, joining: Joining, ports: list[AdapterPort]
) -> Callable[[Cable | AdapterPort], Fraction]:
    """Return the function that gives a link its α, and note the defaults that it uses."""
    defaults = [FABRIC_ALPHA, PCIE_ALPHA, NETWORK_ALPHA]
    given = per_class(f"topology {name}: alpha", joining.alpha, defaults)

    def alpha(link: Cable | AdapterPort) -> Fraction:
        if isinstance(link, AdapterPort):
            out = link.alpha if link.alpha is not None and joining.alpha is None else given[2]
            return out + given[1] * link.own
        ends = _kinds(machine, link)
        if joining.alpha is not None:
            return given[0 if link.fabric else 1]
        if link.fabric:
            return FABRIC_ALPHA / (1 + (DeviceKind.NVSWITCH in ends))
        return PCIE_ALPHA * (DeviceKind.GPU in ends)

    if joining.alpha is None:
        pcie = any(port.own for port in ports) or not all(cable.fabric for cable in machine.cables)
        said = {
            f"{format_time(FABRIC_ALPHA)} from GPU to GPU": any(cable.fabric for cable in machine.cables),
            f"{format_time(PCIE_ALPHA)} for a GPU's PCIe link": pcie,
            f"{format_time(NETWORK_ALPHA)} from an adapter to the network": None in [p.alpha for p in ports],
        }
        machine.notes.append(
            f"alpha is not in the file, so it is {', '.join(what for what, there in said.items() if there)}; "
            "alpha= sets it"
        )
    return alpha
