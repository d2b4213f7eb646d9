"""The runner: from a config to rows, kept as they come.

In the order in which it happens: `config` reads the file, `options` each method's options, `plan` makes tasks
of it and a `study`, `parts` divides those of many seeds, `pool` hands them to worker processes and `cluster`
to those of a Dask cluster (`local_cluster`: one on this machine), `tasks` performs one (synthesize, verify,
judge), `judge` says what a schedule is worth, `results`, `manifest` and `store` keep everything, `rejudging`
takes over what older code made, `progress` shows how far it is, `state` keeps that for other terminals, and
which scheduler a study was left with, and `run` does all this, for studies of solvers
(`experiments.solver_study`) and of growth (`experiments.growth`) too. Its neighbours are
`experiments.registry`, which has the methods, and `experiments.report`, which draws what is kept here.
"""
