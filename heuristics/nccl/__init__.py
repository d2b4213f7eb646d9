"""NCCL's choice of algorithm and protocol, by the model of its version 2.30.7, and its schedule.

Read `model` first (NCCL's numbers, and the times that follow from them), then `machine` (the GPUs and
channels that NCCL would find in a network) and `method` (the order of ranks in each).
"""

from tutti.heuristics.nccl.machine import NcclOptions
from tutti.heuristics.nccl.method import METHOD

__all__ = ["METHOD", "NcclOptions"]
