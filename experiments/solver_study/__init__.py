"""Studies of solvers: linear and mixed-integer programs, solved by all back-ends, judged by proven bounds.

Read `config` first (``[[instance]]`` and ``[[solver]]`` tables), then what is solved: `instances` and
`programs` (linear programs whose optimum is certified) and `milp_instances` (mixed-integer ones, and all
models by their text). `tasks` solves one and `run` all, on the runner's pool and store. `statistics`
and `milp_statistics` say what comes of it, `report` and `charts` show it. The solvers are in
`models.solvers`.
"""

from tutti.experiments.solver_study.config import StudyConfig, is_study, read_study
from tutti.experiments.solver_study.instances import MODELS, LinearModel, SolverInstance
from tutti.experiments.solver_study.milp_instances import find_model
from tutti.experiments.solver_study.run import run_study

__all__ = [
    "MODELS",
    "LinearModel",
    "SolverInstance",
    "StudyConfig",
    "find_model",
    "is_study",
    "read_study",
    "run_study",
]
