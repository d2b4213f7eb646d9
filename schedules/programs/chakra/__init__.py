"""Schedules as Chakra execution traces, which ASTRA-sim plays as custom collectives.

`protobuf` encodes the traces, `files` writes them and the files that run them.
"""
