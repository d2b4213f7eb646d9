"""Spanning out-trees within the capacities of a network: what ForestColl, Blink and TACOS pack.

In the order of the dissertation's chapter 4: `tree_counts` (how many trees each link carries, B.5.1),
`switch_removal` (Algorithm 3, exact) or `switch_removal_heuristic` with its `switch_shares` (guess and
verify), `packing` (Algorithm 4, exact) or `packing_heuristic` with `tree_local_search`, then `align_trees`.
`forest` holds what they hand to each other. Max-flows come from `topologies.graphs`; schedules are made of
forests in `models.forestcoll`.
"""
