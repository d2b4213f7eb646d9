"""Schedules as Chakra execution traces, which ASTRA-sim executes as custom collectives.

`protobuf` encodes the traces. `files` writes them, the files that run them, and the networks for the
analytical and ns-3 back-ends.
"""
