"""Networks: ranks, switches and links, each link with a bandwidth and an α.

Read `topology` first (the network itself), then `text` (the one-line texts that name networks), `families`
(the networks that these texts can name), `transforms` (failures, subsets of ranks, parallel links) and
`files`. `graphs` and `trees` hold the algorithms on networks that more than one folder needs. `importing`
reads the files of machines' tools, and `measurements` fits α and bandwidth to measured times. All of this
builds on `exact` (exact numbers in arrays), `units` (quantities with units), `errors` (the errors that users
see), `options` (reading options and checking their ranges) and `processes` (processes with limits of time and
memory). This folder imports none of the others; `schedules` is the next.

The names below are imported from their modules when first asked for: a process that needs `topologies.errors`
alone, such as a solver's, starts without compiled kernels.
"""

if __name__ != "tutti.topologies":
    raise ImportError("the package topologies is called tutti.topologies")

from importlib import import_module
from typing import Any

_NAMES = {
    "errors": "InputError NoSchedule TuttiError Unsupported",
    "exact": "Rationals",
    "families.circulants": "least_circulant",
    "families.clusters": ("dragonfly fat_tree rail_only rail_spine ring_fc_switch switch2d torus_of_boxes"),
    "families.direct": (
        "bidirectional_ring de_bruijn diamond directed_circulant kautz modified_de_bruijn random_regular "
        "slim_fly twisted_hypercube twisted_torus unidirectional_ring xpander"
    ),
    "families.expressions": "Expression parse_notation",
    "families.grids": (
        "circulant complete complete_bipartite gen_kautz hamming hypercube mesh ring torus uniring"
    ),
    "families.machines": (
        "dgx1 dgx2 dgx_a100 dgx_b200 dgx_h100 dgx_h200 gb200_nvl72 mi250 mi300x ndv2 tpu_v4 tpu_v5p trn2"
    ),
    "families.products": "cartesian_power cartesian_product degree_expansion line_graph",
    "files": "from_networkx from_node_link read_topology to_networkx to_node_link write_topology",
    "graphs.shortest_paths": "alpha_distances diameter hop_distances shortest_routes",
    "text": "FAMILIES Family parse_topology",
    "topology": "DEFAULT_ALPHA DEFAULT_BANDWIDTH Link Topology",
    "transforms": "drop_links drop_nodes keep_ranks parallel_links transpose union_with_transpose",
    "units": "format_bandwidth format_size format_time parse_bandwidth parse_size parse_time",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    """Return a public name from the module that defines it."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
