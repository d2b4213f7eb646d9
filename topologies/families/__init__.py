"""Families of networks: each is a function that returns a `Topology`; `topologies.text` gives it a name.

Read `grids` first (rings, tori, meshes, hypercubes); all build on `topologies.assembly`. `direct`,
`circulants` and `algebraic` (over `finite_fields`) have networks without switches. `machines` (from papers
and data sheets) and `clusters` have networks with switches. `products` combines networks, and `expressions`
reads the papers' notation for that. They use `topologies.graphs` to search and check, and nothing above it.
"""
