"""The constants of NCCL 2.30.7: of its tuning model and of its search of channels.

The numbers are in ``constants.toml``. Source: NVIDIA/nccl 5067397c, ``src/graph/tuning.cc``, ``search.cc``.

Latencies are in microseconds, bandwidths in GB/s (10^9 bytes a second). Triples of protocols are in the order
of `PROTOCOLS`; triples of hosts are for one, two, and more.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

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


_TABLES = tomllib.loads(Path(__file__).with_name("constants.toml").read_text(encoding="utf-8"))

BASE: Mapping[str, Triple] = _TABLES["base"]
"""Latency before anything moves, by algorithm, as a triple of protocols."""
HOP: Mapping[str, Mapping[str, Triple]] = _TABLES["hop"]
"""Latency of a hop, by wire and algorithm, as a triple of protocols; for NVLS, of all inside a host."""
TREE_FACTORS: Mapping[str, Sequence[float]] = _TABLES["tree_factors"]
"""Factors by which trees fall short of the model at 64 bytes, 128, 256, and so on, by protocol."""
LEAST_SIZE = 64
"""The size in bytes of the first of these factors."""

POSTING: Mapping[str, float] = _TABLES["posting"]
"""Latency of posting to the network, by the vendor of the processor; Simple posts `SIMPLE_POSTS` times."""
SIMPLE_POSTS = 3
LL_MOST: Mapping[str, Triple] = _TABLES["ll_most"]
"""Largest bandwidth of LL, by the vendor and hosts; on one host `Generation.ll_most` counts."""

GENERATIONS = {
    name: Generation(**known | {"nvlink": math.prod(known["nvlink"])})
    for name, known in _TABLES["generation"].items()
}
