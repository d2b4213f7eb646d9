"""Families of networks: each is a function that returns a `Topology`; `topologies.text` gives it a name.

Read `grids` first (rings, tori, meshes, hypercubes); all build on `topologies.assembly`. `direct`,
`circulants`, `expanders` and `algebraic` (over `finite_fields`) are networks without switches; `machines`
(the papers'), `platforms` (by data sheets) and `clusters` are those with them; `products` makes networks of
networks and `expressions` reads the papers' notation for that. They use `topologies.graphs` to search and
check, and nothing above it.
"""
