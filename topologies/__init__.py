"""Networks: ranks, switches and links, each link with a bandwidth and an α.

Read `topology` first (the network itself), then `text` (how one line names a network), `families` (what a
line may name), `transforms` (failures, subsets of ranks, parallel links), `files`, and `graphs` and `trees`
(the algorithms on networks that more than one folder needs); `importing` (the files of machines' tools) and
`measurements` (α and bandwidth from measured times). `exact`, `units`, `errors`, `ranges` and `processes` are
what everything above stands on: exact numbers in arrays, quantities with units, the errors a user meets, the
ranges of options, and processes whose limits hold. This folder imports none of the others; `schedules` is the
next.

The names below are imported from their modules when first asked for: a process that needs `topologies.errors`
alone, such as a solver's, starts without compiled kernels.
"""

from importlib import import_module
from typing import Any

_NAMES = {
    "topologies.errors": "InputError NoSchedule TuttiError Unsupported",
    "topologies.exact": "Rationals",
    "topologies.families.circulants": "least_circulant",
    "topologies.families.clusters": (
        "dragonfly fat_tree rail_only rail_spine ring_fc_switch switch2d torus_of_boxes"
    ),
    "topologies.families.direct": (
        "bidirectional_ring de_bruijn diamond directed_circulant kautz modified_de_bruijn slim_fly "
        "twisted_hypercube twisted_torus unidirectional_ring"
    ),
    "topologies.families.expanders": "random_regular xpander",
    "topologies.families.expressions": "Expression parse_notation",
    "topologies.families.grids": (
        "circulant complete complete_bipartite gen_kautz hamming hypercube mesh ring torus uniring"
    ),
    "topologies.families.machines": "dgx1 dgx2 dgx_a100 dgx_h100 mi250 ndv2",
    "topologies.families.platforms": "dgx_b200 dgx_h200 gb200_nvl72 mi300x tpu_v4 tpu_v5p trn2",
    "topologies.families.products": "cartesian_power cartesian_product degree_expansion line_graph",
    "topologies.files": "from_networkx from_node_link read_topology to_networkx to_node_link write_topology",
    "topologies.graphs.shortest_paths": "alpha_distances diameter hop_distances shortest_routes",
    "topologies.text": "FAMILIES Family parse_topology",
    "topologies.topology": "DEFAULT_ALPHA DEFAULT_BANDWIDTH Link Topology",
    "topologies.transforms": "drop_links drop_nodes keep_ranks parallel_links transpose union_with_transpose",
    "topologies.units": "format_bandwidth format_size format_time parse_bandwidth parse_size parse_time",
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
