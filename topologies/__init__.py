"""Networks: ranks, switches and links with bandwidth and α; families, transforms, text and files.

The names below are imported from their modules when first asked for: a process that needs `topologies.errors`
alone, such as a solver's, starts without compiled kernels.
"""

from importlib import import_module
from typing import Any

_NAMES = {
    "topologies.families.circulants": "least_circulant",
    "topologies.families.clusters": "fat_tree rail_only rail_spine torus_of_boxes",
    "topologies.families.direct": (
        "bidirectional_ring de_bruijn directed_circulant kautz slim_fly twisted_hypercube twisted_torus "
        "unidirectional_ring"
    ),
    "topologies.graphs.shortest_paths": "alpha_distances diameter hop_distances",
    "topologies.errors": "InputError NoSchedule TuttiError Unsupported",
    "topologies.exact": "Rationals",
    "topologies.families.expanders": "random_regular xpander",
    "topologies.families.expressions": "Expression",
    "topologies.families": (
        "circulant complete complete_bipartite gen_kautz hamming hypercube mesh ring torus uniring"
    ),
    "topologies.files": "from_networkx from_node_link read_topology to_networkx to_node_link write_topology",
    "topologies.families.expressions": "parse_notation",
    "topologies.families.machines": "dgx_a100 dgx_h100 mi250",
    "topologies.families.products": "cartesian_power cartesian_product degree_expansion line_graph",
    "topologies.graphs.shortest_paths": "shortest_routes",
    "topologies.families.direct": "diamond modified_de_bruijn",
    "topologies.text": "FAMILIES Family parse_topology",
    "topologies.families.clusters": "dragonfly ring_fc_switch switch2d",
    "topologies.topology": "DEFAULT_ALPHA DEFAULT_BANDWIDTH Link Topology",
    "topologies.transforms": "drop_links drop_nodes keep_ranks parallel_links transpose union_with_transpose",
    "topologies.units": "format_bandwidth format_size format_time parse_bandwidth parse_size parse_time",
    "topologies.families.machines": "dgx1 dgx2 ndv2",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    """Return a public name from the module that it stands in."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
