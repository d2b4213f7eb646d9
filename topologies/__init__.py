"""Networks: ranks, switches and links with bandwidth and α; families, transforms, text and files."""

from topologies.errors import InputError, NoSchedule, TuttiError, Unsupported
from topologies.exact import Rationals
from topologies.topology import DEFAULT_ALPHA, DEFAULT_BANDWIDTH, Link, Topology

__all__ = [
    "DEFAULT_ALPHA",
    "DEFAULT_BANDWIDTH",
    "InputError",
    "Link",
    "NoSchedule",
    "Rationals",
    "Topology",
    "TuttiError",
    "Unsupported",
]
