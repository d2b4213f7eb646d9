"""Networks of real machines, from the files that their tools write.

Read `machine` first: GPUs, switches and adapters of one host, what is left out of them, and several such
hosts joined to a network. `nccl` reads NCCL's and RCCL's topology XML into it, `nvidia_smi` the matrix of
``nvidia-smi topo -m``, and `amd_smi` the tables of AMD's tools; `speeds` has the bandwidths that no file
holds, `joining` the keys of a text, and `formats` names the three for `topologies.text`. What had to be
guessed stands in `Topology.notes`.

A file that a text names by its path alone is read by `network_files`: node-link JSON, the `graphs` that
networkx writes, and the networks of `astra_sim`.
"""
