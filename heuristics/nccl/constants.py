"""The constants of NCCL 2.30.7: of its tuning model and of its search of channels.

Source: NVIDIA/nccl 5067397c, ``src/graph/tuning.cc`` and ``search.cc``.

Latencies are in microseconds, bandwidths in GB/s (10^9 bytes a second). Triples of protocols are in the order
of `PROTOCOLS`; triples of hosts are for one, two, and more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

VERSION = "2.30.7"


class Algorithm(StrEnum):
    """The algorithms, by NCCL's names, which the files of its tuners use, in NCCL's order."""

    TREE = "tree"
    RING = "ring"
    NVLS = "nvls"
    NVLS_TREE = "nvls_tree"
    PAT = "pat"


class Protocol(StrEnum):
    """The protocols: a message marks its arrival by a flag in each 8 bytes, in each 128, or after it."""

    LL = "ll"
    LL128 = "ll128"
    SIMPLE = "simple"


class Wire(StrEnum):
    """The kind of wire of a hop."""

    NVLINK = "nvlink"
    PCIE = "pcie"
    NETWORK = "network"


PROTOCOLS = tuple(Protocol)
Triple = tuple[float, float, float]

BASE: Mapping[Algorithm, Triple] = {
    Algorithm.TREE: (6.8, 14.0, 8.4),
    Algorithm.RING: (6.6, 14.0, 8.4),
    Algorithm.NVLS: (0.0, 0.0, 0.0),
    Algorithm.NVLS_TREE: (0.0, 0.0, 0.0),
    Algorithm.PAT: (8.0, 8.0, 8.0),
}
"""Latency before anything moves."""

HOP: Mapping[Wire, Mapping[Algorithm, Triple]] = {
    Wire.NVLINK: {
        Algorithm.TREE: (0.6, 1.25, 4.0),
        Algorithm.RING: (0.6, 1.9, 3.4),
        Algorithm.NVLS: (25.0, 25.0, 25.0),
        Algorithm.NVLS_TREE: (25.0, 25.0, 25.0),
        Algorithm.PAT: (4.0, 4.0, 4.0),
    },
    Wire.PCIE: {
        Algorithm.TREE: (1.0, 1.9, 4.0),
        Algorithm.RING: (1.0, 2.5, 5.7),
        Algorithm.NVLS: (0.0, 0.0, 0.0),
        Algorithm.NVLS_TREE: (0.0, 0.0, 0.0),
        Algorithm.PAT: (4.0, 4.0, 4.0),
    },
    Wire.NETWORK: {
        Algorithm.TREE: (5.0, 8.5, 14.0),
        Algorithm.RING: (2.7, 4.0, 14.0),
        Algorithm.NVLS: (18.0, 18.0, 18.0),
        Algorithm.NVLS_TREE: (20.9, 20.9, 20.9),
        Algorithm.PAT: (14.0, 14.0, 14.0),
    },
}
"""Latency of a hop; for NVLS, of everything inside a host."""

# fmt: off
TREE_FACTORS: Mapping[Protocol, tuple[float, ...]] = {
    Protocol.LL: (1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1),
    Protocol.LL128: (1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1),
    Protocol.SIMPLE:
        (.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9),
}
"""Factors by which trees fall short of the model at 64 bytes, 128, 256, and so on."""
# fmt: on
LEAST_SIZE = 64
"""The size in bytes of the first of these factors."""

POSTING = {"intel": 1.0, "amd": 2.0}
"""Latency of posting to the network, by the vendor of the processor; Simple posts `SIMPLE_POSTS` times."""
SIMPLE_POSTS = 3
LL_MOST = {"intel": (39.0, 39.0, 20.4), "amd": (87.7, 22.5, 19.0)}
"""Largest bandwidth of LL, by the vendor and hosts; on one host `Generation.ll_most` counts."""


@dataclass(frozen=True)
class Generation:
    """A generation of GPUs.

    Parameters
    ----------
    nvlink
        The bandwidth of all NVLinks of a GPU in NCCL's model.
    rated
        Their advertised bandwidth, by which a network's generation is recognized.
    ll_most
        Largest bandwidth of LL on one host.
    ring_ll128, tree, tree_ll128, nvls_tree
        Largest bandwidth of a channel, by hosts: rings with LL128, trees, those with LL128, trees of NVLS.
    nvls
        The fraction of the bandwidth that a switch reaches which adds and multicasts; 0: it can't.
    plateau
        The factor by which the latency of a ring with Simple grows on several hosts.
    inside, between
        The speeds that the search of channels tries, on one host and on several.
    whole
        From this speed on, more than a few channels are halved (`heuristics.nccl.machine`).
    """

    nvlink: float
    rated: float
    ll_most: float
    ring_ll128: Triple
    tree: Triple
    tree_ll128: Triple
    nvls_tree: Triple
    nvls: float
    plateau: float
    inside: tuple[float, ...]
    between: tuple[float, ...]
    whole: float


_INSIDE = (40.0, 30.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0)
_BETWEEN = (
    *(48.0, 30.0, 28.0, 24.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0),
    *(2.4, 1.2, 0.24, 0.12),
)
_HOPPER_INSIDE = (60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 11.0, 6.0, 3.0)
_HOPPER_BETWEEN = (
    *(48.0, 45.0, 42.0, 40.0, 30.0, 24.0, 22.0, 20.0, 17.5, 15.0, 12.0, 6.0, 3.0),
    *(2.4, 1.2, 0.24, 0.12),
)
_BLACKWELL_INSIDE = (90.0, 80.0, 70.0, 60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 19.0, 18.0)
_BLACKWELL_BETWEEN = (96.0, 48.0, 45.1, *_HOPPER_BETWEEN[2:])

GENERATIONS: Mapping[str, Generation] = {
    "volta": Generation(
        nvlink=6 * 20.0,
        rated=150.0,
        ll_most=39.0,
        ring_ll128=(20.0, 20.0, 20.0),
        tree=(26.5, 18.5, 10.0),
        tree_ll128=(20.0, 20.0, 20.0),
        nvls_tree=(0.0, 0.0, 0.0),
        nvls=0.0,
        plateau=1.9,
        inside=_INSIDE,
        between=_BETWEEN,
        whole=25.0,
    ),
    "ampere": Generation(
        nvlink=12 * 20.0,
        rated=300.0,
        ll_most=87.7,
        ring_ll128=(20.0, 20.0, 20.0),
        tree=(24.0, 23.6, 17.8),
        tree_ll128=(20.0, 20.0, 20.0),
        nvls_tree=(0.0, 0.0, 0.0),
        nvls=0.0,
        plateau=1.4,
        inside=_INSIDE,
        between=_BETWEEN,
        whole=25.0,
    ),
    "hopper": Generation(
        nvlink=18 * 20.6,
        rated=450.0,
        ll_most=141.0,
        ring_ll128=(36.7, 36.7, 36.7),
        tree=(38.7, 41.4, 36.0),
        tree_ll128=(36.7, 36.7, 29.0),
        nvls_tree=(0.0, 57.7, 45.5),
        nvls=0.85,
        plateau=1.4,
        inside=_HOPPER_INSIDE,
        between=_HOPPER_BETWEEN,
        whole=50.0,
    ),
    "blackwell": Generation(
        nvlink=18 * 40.1,
        rated=900.0,
        ll_most=282.0,
        ring_ll128=(40.0, 40.0, 40.0),
        tree=(70.0, 42.8, 24.0),
        tree_ll128=(55.6, 31.67, 20.0),
        nvls_tree=(0.0, 96.0, 80.0),
        nvls=0.74,
        plateau=1.4,
        inside=_BLACKWELL_INSIDE,
        between=_BLACKWELL_BETWEEN,
        whole=50.0,
    ),
}
