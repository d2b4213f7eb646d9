"""Schedules as Chakra execution traces, which ASTRA-sim plays as custom collectives.

`protobuf` encodes the traces, `ns3` writes the network for one of the back-ends, `files` writes the traces
and the files that run them.
"""
