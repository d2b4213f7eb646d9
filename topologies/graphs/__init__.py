"""Exact graph algorithms on networks, in arrays, that more than one folder needs.

`shortest_paths` has hops, α and routes; `max_flow` has minimum cuts, too; `strength` counts the spanning
trees that fit. `symmetry` finds automorphisms and their orbits, and `free_action` those that fix no rank.
`grid_structure` recognizes products of lines, and `heaps` (with a counting sort) serves kernels. Nothing here
knows of trees, schedules or families; `topologies.trees` and everything above build on it.
"""
