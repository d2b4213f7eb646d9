"""The tools' files that a line of text may name: ``nccl:FILE?hosts=2``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from tutti.topologies.importing.machine import Joining
from tutti.topologies.topology import Topology

Rates = list[Fraction] | None


@dataclass(frozen=True)
class TopologyFormat:
    """A kind of file, as the text grammar and ``tutti list topologies`` know it.

    Parameters
    ----------
    name
        The word before the colon.
    example
        An example of a whole text.
    summary
        A description in one line.
    read
        Takes the path, the network's name, the way to join hosts, and the given bandwidths.
    bandwidths
        Whether bandwidths may be given, because the file holds none.
    """

    name: str
    example: str
    summary: str
    read: Callable[[str, str, Joining, Rates], Topology]
    bandwidths: bool = False


def _nccl(path: str, name: str, joining: Joining, _bandwidth: Rates) -> Topology:
    from tutti.topologies.importing.nccl import (
        read_nccl,  # few texts name a file, and every command imports this module
    )

    return read_nccl(path, name, joining)


def _nvidia_smi(path: str, name: str, joining: Joining, bandwidth: Rates) -> Topology:
    from tutti.topologies.importing.nvidia_smi import read_nvidia_smi

    return read_nvidia_smi(path, name, joining, bandwidth)


def _amd_smi(path: str, name: str, joining: Joining, bandwidth: Rates) -> Topology:
    from tutti.topologies.importing.amd_smi import read_amd_smi

    return read_amd_smi(path, name, joining, bandwidth)


FORMATS = {
    one.name: one
    for one in (
        TopologyFormat(
            "nccl",
            "nccl:topo.xml?hosts=2",
            "hosts by NCCL's or RCCL's topology XML (NCCL_TOPO_DUMP_FILE)",
            _nccl,
        ),
        TopologyFormat(
            "nvidia-smi",
            "nvidia-smi:topo.txt?hosts=2",
            "hosts by the matrix of nvidia-smi topo -m",
            _nvidia_smi,
            bandwidths=True,
        ),
        TopologyFormat(
            "rocm-smi",
            "rocm-smi:topo.txt",
            "a host by the tables of rocm-smi --showtopo",
            _amd_smi,
            bandwidths=True,
        ),
        TopologyFormat(
            "amd-smi",
            "amd-smi:topo.txt",
            "a host by the tables of amd-smi topology",
            _amd_smi,
            bandwidths=True,
        ),
    )
}
