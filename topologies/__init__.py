"""Networks: ranks, switches and links with bandwidth and α; families, transforms, text and files."""

from topologies.clusters import fat_tree, rail_only, rail_spine, torus_of_boxes
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
from topologies.platforms import dgx_a100, dgx_h100, mi250
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
from topologies.volta import dgx1, dgx2, ndv2

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
    "dgx1",
    "dgx2",
    "dgx_a100",
    "dgx_h100",
    "diameter",
    "drop_links",
    "drop_nodes",
    "fat_tree",
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
    "ndv2",
    "parallel_links",
    "parse_bandwidth",
    "parse_size",
    "parse_time",
    "parse_topology",
    "rail_only",
    "rail_spine",
    "read_topology",
    "ring",
    "shortest_routes",
    "to_networkx",
    "to_node_link",
    "torus",
    "torus_of_boxes",
    "transpose",
    "union_with_transpose",
    "uniring",
    "write_topology",
]
