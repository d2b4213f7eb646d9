"""Spanning out-trees within the capacities of a network: what ForestColl, Blink and TACOS pack.

Read the modules in the order of the dissertation's chapter 4. `forest` says how many trees each link carries
(B.5.1), holds the data that the others pass on, and makes the trees of a forest similar. `switch_removal`
(Algorithm 3, exact) or `switch_removal_heuristic` (guess and verify) removes switches. `packing` (Algorithm
4, exact) or `packing_heuristic` with `tree_local_search` packs trees. Max-flows come from
`topologies.graphs`; `models.forestcoll` makes schedules of forests.
"""
