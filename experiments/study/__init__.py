"""Studies of solvers: linear programs, solved by every back-end and judged by certified values."""

from experiments.study.config import StudyConfig, is_study, read_study
from experiments.study.instances import MODELS, Instance, LinearModel, find_model
from experiments.study.runner import run_study

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
