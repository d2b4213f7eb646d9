"""The files of tools that a line of text may name: ``nccl:FILE?hosts=2``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from topologies.errors import InputError
from topologies.importing.machine import Joining
from topologies.importing.nccl import read_nccl
from topologies.importing.nvidia_smi import read_nvidia_smi
from topologies.topology import Topology

Rates = list[Fraction] | None


@dataclass(frozen=True)
class Format:
    """A kind of file, as the text grammar and ``tutti list topologies`` know it.

    Parameters
    ----------
    name
        Before the colon.
    example
        A whole text.
    summary
        What it is, in one line.
    read
        Takes the path, the name of the network, how hosts are joined, and the bandwidths that are given.
    bandwidths
        Whether it takes any: where the file holds none.
    """

    name: str
    example: str
    summary: str
    read: Callable[[str, str, Joining, Rates], Topology]
    bandwidths: bool = False


FORMATS = {
    one.name: one
    for one in (
        Format(
            "nccl",
            "nccl:topo.xml?hosts=2",
            "hosts by NCCL's or RCCL's topology XML (NCCL_TOPO_DUMP_FILE)",
            lambda path, name, joining, _bandwidth: read_nccl(path, name, joining),
        ),
        Format(
            "nvidia-smi",
            "nvidia-smi:topo.txt?hosts=2",
            "hosts by the matrix of nvidia-smi topo -m",
            read_nvidia_smi,
            bandwidths=True,
        ),
    )
}
CHOICES = {"fabric": ("switch", "rails"), "pcie": ("needed", "all")}
MOST_HOSTS = 2**16


def joining_of(text: str, hosts: int, words: dict[str, str], alpha: Rates) -> Joining:
    """Return how hosts are joined, from the keys of a text.

    Raises
    ------
    InputError
        If a word is none that its key allows, or the number of hosts is out of range.
    """
    if not 1 <= hosts <= MOST_HOSTS:
        raise InputError(f"{text}: hosts={hosts}; from 1 to {MOST_HOSTS} are joined")
    for key, word in words.items():
        if word not in CHOICES[key]:
            raise InputError(f"{text}: {key}={word[:20]}; allowed: {', '.join(CHOICES[key])}")
    if "fabric" in words and hosts == 1:
        raise InputError(f"{text}: fabric= says how hosts are joined; give hosts=2 or more with it")
    return Joining(hosts, alpha=alpha, **words)
