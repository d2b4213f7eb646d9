"""Allreduce: over trees, by the linear program (B.5) of the dissertation or spanning trees; and in few steps.

All methods but one reduce M up trees to their roots and broadcast it down trees from there, past reduce-
scatter and then allgather. `allreduce_lp` takes in-trees and out-trees that are optimal together, on any
network; `allreduce_trees` takes spanning trees, each both ways, which meet the partition bound where links
are alike. `allreduce_epochs` makes trees together with the times of their edges.

To read: `model` is linear program (B.5) as the paper has it, and what its answer means, `cuts` the same by
its cuts. `optimum` solves it either way; `certificate` proves the answer in integers from both sides,
`vertex` is the exact solution that a basis means, and `bound` makes a bound of it. `trees` makes whole
trees of an optimum, `balanced_optimum` finds the one that serves messages in time best, `lp_timed` gives
their messages places in time (with `leaf_exchange`, which gives every link leaves), and `lp_method` is the
method. Of the other method `spanning_trees` is the packing by the strength of the network, `products` and
`grids` have lower trees for Cartesian products, `trees_timed` gives the messages places in time, and
`trees_method` is the method. The third is `epochs`. `few_sums` has no trees: which ranks send their sums,
in few steps. The buffer as a line is `schedules.intervals`; allgathers over trees are next door, in
`models.forestcoll`.
"""

from tutti.models.allreduce.certificate import CutProof, TreeOptimum
from tutti.models.allreduce.epochs import METHOD as ALLREDUCE_EPOCHS
from tutti.models.allreduce.epochs import AllreduceEpochsOptions
from tutti.models.allreduce.lp_method import METHOD as ALLREDUCE_LP
from tutti.models.allreduce.lp_method import AllreduceLpOptions
from tutti.models.allreduce.optimum import allreduce_optimum
from tutti.models.allreduce.spanning_trees import Packing, TreeNetwork, pack, tree_network
from tutti.models.allreduce.trees_method import METHOD as ALLREDUCE_TREES
from tutti.models.allreduce.trees_method import AllreduceTreesOptions

__all__ = [
    "ALLREDUCE_EPOCHS",
    "ALLREDUCE_LP",
    "ALLREDUCE_TREES",
    "AllreduceEpochsOptions",
    "AllreduceLpOptions",
    "AllreduceTreesOptions",
    "CutProof",
    "Packing",
    "TreeNetwork",
    "TreeOptimum",
    "allreduce_optimum",
    "pack",
    "tree_network",
]
