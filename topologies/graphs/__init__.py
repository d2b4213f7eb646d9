"""Graph algorithms on networks, exact and in arrays: what more than one folder needs to know of a network.

`shortest_paths` (hops, α, routes), `max_flow` (with minimum cuts), `strength` (how many spanning trees fit),
`symmetry` and `isomorphism` (automorphisms, their orbits), `grid_structure` (which networks are products of
lines), `description` (what there is to say of a network), `heaps` (and a counting sort) for the kernels.
Nothing here knows of trees, schedules or families; `topologies.trees` and everything above build on it.
"""
