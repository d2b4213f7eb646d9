"""Measured times, and the α and bandwidth of links that they give.

Read `tables` first (it reads nccl-tests, the OSU micro-benchmarks and a CSV), then `regression` (it fits a
line, and makes a network with the measured values). `pcie` finds the GPUs that share a PCIe switch.
"""
