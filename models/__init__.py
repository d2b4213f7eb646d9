"""Exact models: lower bounds with certificates, and the methods that are optimal for what they model.

Read `bounds` first (what no schedule can beat, and why) and `solvers` (one function that calls any solver).
Each method has a folder: `bfb`, `forestcoll`, `allreduce` and `all_to_all` scale; `taccl`, `sccl`, `teccl`
and `optimum` are mixed-integer and constraint programs, the last three on the base of `time_expanded`. Files
named `model` or `program` open with the paper's equations.

They build on `schedules` and `topologies`. Nothing is imported here, so that a process of one solver starts
without the others.
"""

if __name__ != "tutti.models":
    raise ImportError("the package models is called tutti.models")
