r"""An instance in epochs of a fixed length τ: how long links are held, and how much they carry meanwhile.

A message of n chunks of s bytes over link e is a send of

.. math::

    d_e = \lceil (α_e + s / b_e) / τ \rceil \text{ epochs}, \qquad
    n \le n_e = \lfloor (d_e τ - α_e) b_e / s \rfloor.

The paper (TE-CCL, SIGCOMM 2024, section 3.1) has a capacity in every epoch and a delay of ⌈α/τ⌉ epochs in
which the link is free again; in this project a link is held while α is in flight, so both are one duration.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from models.bounds import lower_bounds
from models.sccl.instance import Instance
from topologies.errors import InputError
from topologies.exact import Int64Array

FAR = 2**40
"""An epoch that never comes."""
FASTEST, SLOWEST, BEST = "fastest", "slowest", "best"


@dataclass(frozen=True, eq=False)
class Epochs:
    """An instance at a size, in epochs.

    Parameters
    ----------
    instance
        Chunks, links and their ends.
    size
        M in bytes.
    length
        Seconds of an epoch; or of which link it is what one chunk takes, ``"fastest"`` or ``"slowest"``.

    Raises
    ------
    InputError
        If a length is not positive.
    """

    instance: Instance
    size: Fraction
    length: Fraction | str = FASTEST

    def __post_init__(self) -> None:
        """Check the length."""
        if self.epoch <= 0:
            raise InputError(f"an epoch of {self.length} s; it must be positive")

    @cached_property
    def chunk_bytes(self) -> Fraction:
        """Of one chunk."""
        return self.size * self.instance.collective.items.share[0] / self.instance.chunks

    @cached_property
    def epoch(self) -> Fraction:
        """τ in seconds."""
        if not isinstance(self.length, str):
            return self.length
        topology = self.instance.topology
        times = [a + self.chunk_bytes / b for a, b in zip(topology.alpha, topology.bandwidth, strict=True)]
        return min(times) if self.length == FASTEST else max(times)

    def lengths(self) -> list[Fraction]:
        """Return what messages of 1, 2, ... chunks take on the slowest link, while more may be of use."""
        topology = self.instance.topology
        need = np.bincount([n for _, n in self.wanted], minlength=topology.num_ranks)
        links = np.bincount(topology.target, minlength=topology.num_ranks)
        most = int((-(-need // np.maximum(links, 1))).max())
        pairs = list(zip(topology.alpha, topology.bandwidth, strict=True))
        return [max(a + n * self.chunk_bytes / b for a, b in pairs) for n in range(1, most + 1)]

    @cached_property
    def lasts(self) -> list[int]:
        """d, epochs that a send holds each link, and after which it has arrived."""
        topology = self.instance.topology
        return [
            math.ceil((alpha + self.chunk_bytes / bandwidth) / self.epoch)
            for alpha, bandwidth in zip(topology.alpha, topology.bandwidth, strict=True)
        ]

    @cached_property
    def carries(self) -> list[int]:
        """n, chunks that a send over each link may be."""
        topology = self.instance.topology
        return [
            math.floor((lasts * self.epoch - alpha) * bandwidth / self.chunk_bytes)
            for lasts, alpha, bandwidth in zip(self.lasts, topology.alpha, topology.bandwidth, strict=True)
        ]

    @cached_property
    def ends(self) -> list[tuple[int, int]]:
        """Source and target of each link."""
        topology = self.instance.topology
        return list(zip(topology.source.tolist(), topology.target.tolist(), strict=True))

    @cached_property
    def between(self) -> Int64Array:
        """int64, shape (ranks, ranks): epochs from one rank to another on the way of least epochs."""
        count = self.instance.topology.num_ranks
        time = np.where(np.eye(count, dtype=np.bool_), 0, FAR).astype(np.int64)
        for (a, b), lasts in zip(self.ends, self.lasts, strict=True):
            time[a, b] = min(time[a, b], lasts)
        for middle in range(count):
            np.minimum(time, time[:, middle, None] + time[None, middle, :], out=time)
        return time

    @cached_property
    def wanted(self) -> tuple[tuple[int, int], ...]:
        """(chunk, rank) of all that must be brought somewhere."""
        table = (self.instance.wanters & ~self.instance.holders)[self.instance.item]
        return tuple((int(c), int(n)) for c, n in np.argwhere(table))

    @cached_property
    def least(self) -> int:
        """Epochs below which no schedule can end: the project's bounds, the longest way, the links' room."""
        instance = self.instance
        bounds = lower_bounds(instance.topology, instance.collective, self.size)
        proven = max(math.ceil(Fraction(bound.time(self.size)) / self.epoch) for bound in bounds)
        first = np.where(instance.holders[instance.item][:, :, None], self.between, FAR).min(axis=1)
        way = max((int(first[c, n]) for c, n in self.wanted), default=0)
        least = max(proven, way)
        while not self._room(least):
            least += 1
        return least

    def _room(self, epochs: int) -> bool:
        """Whether every rank's links can bring it what it must have in so many epochs."""
        room = np.zeros(self.instance.topology.num_ranks, dtype=np.int64)
        for (_, b), lasts, carries in zip(self.ends, self.lasts, self.carries, strict=True):
            room[b] += epochs // lasts * carries
        need = np.bincount([n for _, n in self.wanted], minlength=len(room))
        return bool((need <= room).all())
