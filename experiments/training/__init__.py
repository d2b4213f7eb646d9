"""Collectives in training: the time of an iteration, and what optimal collectives would save.

Read `workload` first: a table of layers, each with its compute times and the collectives that belong to it,
and the networks that say how long a collective takes. `models` has shipped tables as formulae, `readers`
reads other tools' files. `iteration` makes a table a list of operations, with buckets, prefetching and a
pipeline, and plays it. `study` makes this a kind of study of the one runner, ``tutti run``, and `report`
draws its page.
"""
