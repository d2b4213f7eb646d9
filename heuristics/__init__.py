"""Fast methods without a guarantee: TACOS and the plain algorithms that it is compared with.

Read `classic` first (rings, direct, halving and doubling: a method on a page), then `trees` (double binary
trees, MultiTree, Blink and others), `nccl` (what NCCL would choose and run), `tacos` (matching of links and
chunks in time), `rails` (machines and planes joined place by place), `one_shot` (small allreduces), `rounds`
(the smallest sizes), `hybrid` (allreduces of few messages) and `refine` (local search in time,
which improves others' schedules).
What step schedules share is `classic.steps`; all stand on `schedules` and `topologies`. Exact methods are
next door, in `models`, and neither imports the other.
"""

if __name__ != "tutti.heuristics":
    raise ImportError("the package heuristics is called tutti.heuristics")
