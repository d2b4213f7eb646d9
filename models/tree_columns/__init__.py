"""Trees and the times of their edges, found together by column generation over epochs.

Read `generation` first, which has the linear program, its rounds, and the schedules that trees make. `links`
has the lines that trees may use in each epoch, and `pricing` makes trees that are cheap under prices.
Two methods use this: `models.forestcoll.epochs` has trees from each root for an allgather, and
`models.allreduce.epochs` pairs of a tree to a root and one from it.
"""
