"""Measured times, and the α and bandwidth of links that they give.

Read `tables` first (what nccl-tests, the OSU micro-benchmarks and a CSV say), then `regression` (a line
through them) and `calibration` (a network with what was measured).
"""
