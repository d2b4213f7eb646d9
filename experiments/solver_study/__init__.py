"""Studies of solvers: linear and mixed-integer programs, solved by all back-ends, judged by proven bounds.

Read `tasks` first: it reads the config (``[[instance]]`` and ``[[solver]]`` tables), makes tasks of it for
the one runner, and judges the answers. What is solved are `instances` (linear programs whose optimum is
certified) and `milp_instances` (mixed-integer ones, and all models by their text). `statistics` computes what
comes of it, and which solvers differ; `report` draws it, and fills the page of all reports with it. The
solvers are in `models.solvers`.
"""
