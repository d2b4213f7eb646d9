"""Runs programs on real processes and real buffers.

A rank is a process. Its thread blocks take turns in one event loop (`executor`), which moves data between
the rank's memory and the slots of FIFOs. A transport (`shared_memory`, `mpi`; their common part is in
`transport`) brings the slots from one process to another. `session` is the work of a rank from its first
barrier to its last, with its data; `shared_memory` also starts and ends the ranks on this machine.
`profiling` measures the links between ranks with the same means, and compares a run with the α-β model.
`nccl` is for GPUs.
"""
