"""The runner: from a config to rows, kept as they come.

In the order in which it happens: `config` reads the file, whatever its kind. The kind's own function makes
tasks of it and a `study`: for comparisons of methods these are in `plan` and `tasks` (synthesize, verify,
judge), for others in `experiments.solver_study`, `training` and `resilience`. `store` keeps what each task
gave and arranges the rows, `pool` hands the tasks to worker processes and `cluster` to those of a Dask
cluster, `progress` shows how far it is, and `run` does all this. `judge` compares a schedule with bounds;
`results` has the files. Its neighbours are `experiments.registry`, which has the methods, and
`experiments.report`, which draws what is kept here.
"""
