"""Studies of solvers: linear and mixed-integer programs, solved by all back-ends, judged by proven bounds.

Read `config` first (``[[instance]]`` and ``[[solver]]`` tables), then what is solved: `instances` and
`programs` (linear programs whose optimum is certified) and `milp_instances` (mixed-integer ones, and all
models by their text). `tasks` makes tasks of them for the one runner, and judges the answers. `statistics`
and `milp_statistics` say what comes of it, `report` and `charts` show it. The solvers are in
`models.solvers`.
"""
