"""Measured times, and the α and bandwidth of links that they give.

Read `tables` first (what the OSU micro-benchmarks and a CSV say, and `nccl_tests` in them), then `regression`
(a line through them) and `calibration` (a network with what was measured). `pcie` finds which GPUs share a
PCIe switch.
"""
