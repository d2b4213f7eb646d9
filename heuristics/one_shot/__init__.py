"""Allreduces between one shot and two halves: some ranks add up everything and send it to those near them.

A reduce-scatter and an allgather take twice as many steps as the network's diameter. In *one shot* each rank
is the root of an in-tree of its own, over shortest paths. The deepest ranks send in step 1, and every other
rank sends its own data and what it received in the step after. After as many steps as the diameter all roots
have the sum, for N - 1 times the data. Between the two, only some ranks are roots: enough that each rank has
one within a *radius* ρ, from which it receives the sum in ρ more steps. The sum may be made separately for
each root. Or it is *gathered*: in ρ steps at the nearest root each, until the roots, all joined to each
other, exchange what they have in one step. On a ring of eight two neighbours gather in three steps, exchange
in one and send to the others in three: a step less than with one root, for no more data.

Where the network has dimensions (tori, meshes, hypercubes) the lines of one do this after those of another:
what a rank has added up in one line is its own in the next. So lines share what they have added up, and (d_1
- 1) + (d_2 - 1) + ... ranks send to each instead of N - 1. The dimensions are *nested*: all gather, on ever
fewer ranks, then all exchange, and then they spread it, the last first. Or each is done before the next
begins: more data, but on all lines, and pieces of the vector can follow each other by a step. Parts of the
vector take the dimensions in all rotations of their order. Or the dimensions take turns, step by step, each
part of the vector in an order of its own, so that every step uses as many links as possible (`moves`).

Read `roots` first (the ranks that add up), then `moves` (what is sent when, and which dimension moves next)
and `method` (over which links, and which of all these is best).
"""

from tutti.heuristics.one_shot.method import METHOD, OneShotOptions

__all__ = ["METHOD", "OneShotOptions"]
