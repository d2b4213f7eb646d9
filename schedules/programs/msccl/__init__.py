"""Programs as MSCCL XML, which MSCCL and RCCL load.

Read `flavours` (names and limits of the two runtimes), `reader`, `lint` (the runtimes' own rules, for files
from any source), then `files`. All that is printed is checked by `lint`.
"""
