"""Runs programs on real processes and real buffers.

A rank is a process. Its work, from its first barrier to its last, is in `session`: its thread blocks take
turns in one event loop, which moves data between the rank's memory and the slots of FIFOs. A transport
(`shared_memory`, `mpi`; their common part is in `transport`) brings the slots from one process to another;
`shared_memory` also starts and ends the ranks on this machine. `profiling` measures the links between ranks
with the same means, and compares a run with the α-β model. `nccl` is for GPUs.
"""
