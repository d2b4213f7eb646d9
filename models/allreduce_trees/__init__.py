"""Allreduce over spanning trees: reduced up and broadcast down, past reduce-scatter + allgather."""

from models.allreduce_trees.method import METHOD, AllreduceTreesOptions
from models.allreduce_trees.network import TreeNetwork, tree_network
from models.allreduce_trees.packing import Packing, pack

__all__ = ["METHOD", "AllreduceTreesOptions", "Packing", "TreeNetwork", "pack", "tree_network"]
