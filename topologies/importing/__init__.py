"""Networks of real machines, from the files that their tools write.

Read `machine` first: the GPUs, switches and adapters of one host, the devices that are left out, and how
several such hosts become a network. `nccl` reads NCCL's and RCCL's topology XML, `nvidia_smi` the matrix of
``nvidia-smi topo -m``, and `amd_smi` the tables of AMD's tools. Guesses are listed in `Topology.notes`.

`formats` names these formats for `topologies.text`, and reads the files that are named by their path alone:
node-link JSON, the `graphs` that networkx writes, and the networks of ASTRA-sim.
"""
