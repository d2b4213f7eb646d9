"""Fast methods without a guarantee: TACOS and the plain algorithms that it is compared with.

Read `classic` first (rings, direct, halving and doubling: a method on a page), then `trees` (double binary
trees, MultiTree, Blink and others) and `nccl` (what NCCL would choose and run). `tacos` matches links and
chunks in time, and `rails` is for machines and planes that are joined place by place. `one_shot` does small
allreduces, `rounds` the smallest sizes, and `hybrid` allreduces of few messages. `refine` improves the
schedules of others by local search in time. Step schedules share `classic.steps`; all build on `schedules`
and `topologies`. Exact methods are in `models`, and neither folder imports the other.
"""

if __name__ != "tutti.heuristics":
    raise ImportError("the package heuristics is called tutti.heuristics")
