"""Allreduce over trees, by the linear program (B.5) of the dissertation or spanning trees; and in few steps.

All methods but one reduce M up trees to their roots and broadcast it down trees from there. This may be
faster than a reduce-scatter and then an allgather. `allreduce_lp` takes in-trees and out-trees that are
optimal together, on any network. `allreduce_trees` takes spanning trees, each used up and down. They meet the
partition bound where links have equal bandwidth in both directions. `allreduce_epochs` makes trees together
with the times of their edges.

To read: `model` is linear program (B.5) as the paper has it, and says what its answer means. `cuts` has the
same program by its cuts. `optimum` solves it in either form, finds the optimum that is best for messages in
time, and makes a bound of it. `certificate` proves the answer in integers from both sides, and has the exact
solution that a basis means. `trees` makes whole trees of an optimum. `lp_timed` gives every link leaves and
their messages times, and `lp_method` is the method. Of the other method `spanning_trees` is the packing by
the strength of the network. `products` and `grids` have lower trees for Cartesian products, `trees_timed`
gives the messages times, and `trees_method` is the method. The third is `epochs`. `few_sums` has no trees: it
finds which ranks send their sums, in few steps. The buffer as a line is `schedules.intervals`. Allgathers
over trees are in `models.forestcoll`.
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
