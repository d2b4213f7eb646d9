"""Trees of Cartesian products: taken apart only where they are one, exact and lower."""

from fractions import Fraction

import numpy as np

from tutti.models.allreduce import pack, tree_network
from tutti.models.allreduce.products import factors
from tutti.topologies.text import parse_topology
from tutti.topologies.trees.forest import heights, mean_height


def test_ten_thousand_ranks_are_exact_as_a_product():
    network = tree_network(parse_topology("mesh:100x100"))
    found = pack(network.graph)
    assert found.ratio == Fraction(101, 200)
    assert (len(found.forest), heights(found.forest).max()) == (200, 149)


def test_a_product_is_taken_apart_only_where_it_is_one():
    even = tree_network(parse_topology("mesh:3x4?bandwidth=50GB/s,25GB/s")).graph
    one, other = factors(even)
    assert (one.num_nodes, one.capacity.tolist()) == (3, [2, 2])
    assert (other.num_nodes, other.capacity.tolist()) == (4, [1, 1, 1])
    uneven = even._replace(capacity=even.capacity + (np.arange(len(even.capacity)) == 0))
    assert factors(uneven) is None
    assert factors(tree_network(parse_topology("ring:6")).graph) is None
    assert factors(tree_network(parse_topology("mesh:3x4?drop_links=0-1")).graph) is None


def test_trees_of_a_product_are_lower():
    graph = tree_network(parse_topology("mesh:10x10")).graph
    made, packed = pack(graph), pack(graph, products=False)
    assert made.ratio == packed.ratio == Fraction(11, 20)
    assert mean_height(made.forest) == 12  # a comb has 5 hops along its spine and 5 to 9 along its teeth
    assert mean_height(made.forest) < mean_height(packed.forest)
