"""Programs on real processes and real buffers.

A rank is a process. Its thread blocks take turns in one event loop (`executor`), which moves data between the
rank's memory and the slots of FIFOs (`fifos`); a transport (`shared_memory`, `mpi`; what they have in
common is in `transport`) brings the slots from one process to another. `data` are the inputs and the outputs
that are due, `session` what a rank does from its first barrier to its last, and `launch` starts the ranks of
this machine and ends them. `profiling` measures the links between ranks by the same means, and sets the α-β
model beside a run. `nccl` is for GPUs.
"""
