"""Networks: ranks, switches and links with bandwidth and α; families, transforms, text and files."""

from topologies.circulants import least_circulant
from topologies.clusters import fat_tree, rail_only, rail_spine, torus_of_boxes
from topologies.direct import (
    bidirectional_ring,
    de_bruijn,
    directed_circulant,
    kautz,
    slim_fly,
    twisted_hypercube,
    twisted_torus,
    unidirectional_ring,
)
from topologies.distances import alpha_distances, diameter, hop_distances
from topologies.errors import InputError, NoSchedule, TuttiError, Unsupported
from topologies.exact import Rationals
from topologies.expanders import random_regular, xpander
from topologies.expressions import Expression
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
from topologies.notation import parse_notation
from topologies.platforms import dgx_a100, dgx_h100, mi250
from topologies.products import cartesian_power, cartesian_product, degree_expansion, line_graph
from topologies.routes import shortest_routes
from topologies.searched import diamond, modified_de_bruijn
from topologies.text import FAMILIES, Family, parse_topology
from topologies.tiers import dragonfly, ring_fc_switch, switch2d
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
    "Expression",
    "Family",
    "InputError",
    "Link",
    "NoSchedule",
    "Rationals",
    "Topology",
    "TuttiError",
    "Unsupported",
    "alpha_distances",
    "bidirectional_ring",
    "cartesian_power",
    "cartesian_product",
    "circulant",
    "complete",
    "complete_bipartite",
    "de_bruijn",
    "degree_expansion",
    "dgx1",
    "dgx2",
    "dgx_a100",
    "dgx_h100",
    "diameter",
    "diamond",
    "directed_circulant",
    "dragonfly",
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
    "kautz",
    "keep_ranks",
    "least_circulant",
    "line_graph",
    "mesh",
    "mi250",
    "modified_de_bruijn",
    "ndv2",
    "parallel_links",
    "parse_bandwidth",
    "parse_notation",
    "parse_size",
    "parse_time",
    "parse_topology",
    "rail_only",
    "rail_spine",
    "random_regular",
    "read_topology",
    "ring",
    "ring_fc_switch",
    "shortest_routes",
    "slim_fly",
    "switch2d",
    "to_networkx",
    "to_node_link",
    "torus",
    "torus_of_boxes",
    "transpose",
    "twisted_hypercube",
    "twisted_torus",
    "unidirectional_ring",
    "union_with_transpose",
    "uniring",
    "write_topology",
    "xpander",
]
