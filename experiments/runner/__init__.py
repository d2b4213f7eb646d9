"""The runner: from a config to rows, kept as they come.

In the order in which it happens: `config` reads the file, `plan` makes tasks of it and a `study`, `pool`
hands them to worker processes and `cluster` to those of a Dask cluster, `tasks` performs one (synthesize,
verify, judge), `judge` says what a schedule is worth, `results`, `manifest`, `kept_schedules`, `store` keep
everything, `progress` shows how far it is, and `run` does all this, for studies of solvers
(`experiments.solver_study`) and of growth (`experiments.growth`) too. Its neighbours are
`experiments.registry`, which has the methods, and `experiments.report`, which draws what is kept here.
"""
