"""Schedules as Chakra execution traces, which ASTRA-sim plays as custom collectives.

`protobuf` encodes the traces, `files` writes them, the files that run them, and the network for one of the
back-ends.
"""
