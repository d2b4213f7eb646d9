"""Studies of solvers: linear and mixed-integer programs, solved by all back-ends, judged by proven bounds."""

from experiments.solver_study.config import StudyConfig, is_study, read_study
from experiments.solver_study.instances import MODELS, Instance, LinearModel
from experiments.solver_study.models import find_model
from experiments.solver_study.run import run_study

__all__ = [
    "MODELS",
    "Instance",
    "LinearModel",
    "StudyConfig",
    "find_model",
    "is_study",
    "read_study",
    "run_study",
]
