"""Networks of real machines, from the files that their tools write.

Read `machine` first: GPUs, switches and adapters of one host, what is left out of them, and several such
hosts joined to a network. `nccl` reads NCCL's and RCCL's topology XML and `nvidia_smi` the matrix of
``nvidia-smi topo -m`` into it; `speeds` has the bandwidths that neither file holds, `joining` the keys of a
text, and `formats` names both for `topologies.text`. What had to be guessed stands in `Topology.notes`.
"""
