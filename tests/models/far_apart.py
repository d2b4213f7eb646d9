"""Networks whose bandwidths differ by up to 10^15: linear programs stay accurate on them."""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from tutti.topologies import Topology, parse_topology
from tutti.topologies.exact import Rationals


def far_apart(text: str, digits: int, seed: int = 0) -> Topology:
    """The network with bandwidths from 1 B/s to 10^digits, each a power of ten."""
    topology = parse_topology(text)
    powers = np.random.default_rng(seed).integers(0, digits + 1, topology.num_links)
    powers[:2] = 0, digits
    return replace(topology, bandwidth=Rationals.of([Fraction(10 ** int(power)) for power in powers]))


NETWORKS = ["mesh:3x3", "gen_kautz:2,8", "ring:5", "dgx_a100:1?ranks=4"]
