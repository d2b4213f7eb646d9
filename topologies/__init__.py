"""Networks: ranks, switches and links with bandwidth and α; families, transforms, text and files."""

from topologies.distances import alpha_distances, diameter, hop_distances
from topologies.errors import InputError, NoSchedule, TuttiError, Unsupported
from topologies.exact import Rationals
from topologies.families import (
    circulant,
    complete,
    complete_bipartite,
    gen_kautz,
    hamming,
    hypercube,
    mesh,
    ring,
    torus,
    uniring,
)
from topologies.files import (
    from_networkx,
    from_node_link,
    read_topology,
    to_networkx,
    to_node_link,
    write_topology,
)
from topologies.platforms import dgx_a100, mi250
from topologies.routes import shortest_routes
from topologies.text import FAMILIES, Family, parse_topology
from topologies.topology import DEFAULT_ALPHA, DEFAULT_BANDWIDTH, Link, Topology
from topologies.transforms import (
    drop_links,
    drop_nodes,
    keep_ranks,
    parallel_links,
    transpose,
    union_with_transpose,
)
from topologies.units import (
    format_bandwidth,
    format_size,
    format_time,
    parse_bandwidth,
    parse_size,
    parse_time,
)

__all__ = [
    "DEFAULT_ALPHA",
    "DEFAULT_BANDWIDTH",
    "FAMILIES",
    "Family",
    "InputError",
    "Link",
    "NoSchedule",
    "Rationals",
    "Topology",
    "TuttiError",
    "Unsupported",
    "alpha_distances",
    "circulant",
    "complete",
    "complete_bipartite",
    "dgx_a100",
    "diameter",
    "drop_links",
    "drop_nodes",
    "format_bandwidth",
    "format_size",
    "format_time",
    "from_networkx",
    "from_node_link",
    "gen_kautz",
    "hamming",
    "hop_distances",
    "hypercube",
    "keep_ranks",
    "mesh",
    "mi250",
    "parallel_links",
    "parse_bandwidth",
    "parse_size",
    "parse_time",
    "parse_topology",
    "read_topology",
    "ring",
    "shortest_routes",
    "to_networkx",
    "to_node_link",
    "torus",
    "transpose",
    "union_with_transpose",
    "uniring",
    "write_topology",
]
