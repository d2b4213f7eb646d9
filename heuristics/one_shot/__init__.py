"""Allreduces between one shot and two halves: some ranks add up everything and tell those near them.

A reduce-scatter and an allgather take twice as many steps as the network is wide. In *one shot* each rank is
the root of an in-tree of its own, over shortest paths: the deepest ranks send in step 1, every other what it
has and got in the step after, and in as many steps as the network is wide all roots have the sum, for N - 1
times the data. Between the two, only some ranks are roots: so many that each rank has one within a *radius*
ρ, from which it gets the sum in ρ more steps. The sum is made for each root anew, or it is *gathered*: in ρ
steps at the nearest root each, until the roots, which are joined each to each, exchange what they have in
one. On a ring of eight two neighbours gather in three steps, exchange in one and tell the others in three: a
step less than with one root, for no more data.

Where the network has dimensions (tori, meshes, hypercubes) the lines of one do this after those of another:
what a rank has added up in one line is its own in the next. So lines share what they have added up, and
(d_1 - 1) + (d_2 - 1) + ... ranks send to each instead of N - 1. The dimensions are *nested*: all gather, on
ever fewer ranks, then all exchange, and then they spread it, the last first. Or each is done before the next
begins: more data, but on all lines, and pieces of the vector can follow each other by a step. Parts of the
vector take the dimensions in all rotations of their order. Or the dimensions take turns, step by step, each
part of the vector in an order of its own, so that every step uses as many links as can be (`orders`).

Read `roots` first (who adds up), then `parts` (what is sent when), `orders` (which dimension moves next) and
`method` (over which links, and which of all these is best).
"""

from tutti.heuristics.one_shot.method import METHOD, OneShotOptions

__all__ = ["METHOD", "OneShotOptions"]
