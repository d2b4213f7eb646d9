"""Studies of solvers: linear and mixed-integer programs, solved by all back-ends, judged by proven bounds.

Read `config` first (``[[instance]]`` and ``[[solver]]`` tables), then what is solved: `instances` (linear
programs whose optimum is certified) and `milp_instances` (mixed-integer ones, and all models by their text).
`tasks` makes tasks of them for the one runner, and judges the answers. `statistics` computes what comes of
it, and `comparison` which solvers differ; `charts` draws it, and `report` fills the page of all reports with
it. The solvers are in `models.solvers`.
"""
