"""TE-CCL: schedules as multicommodity flows with copies over epochs (Liu et al., SIGCOMM 2024)."""

from models.teccl.epochs import Epochs
from models.teccl.method import METHOD, teccl
from models.teccl.options import TecclOptions
from models.teccl.program import State
from models.teccl.rounds import by_rounds
from models.teccl.search import Found, earliest_finish, least_finish, most_reward

__all__ = [
    "METHOD",
    "Epochs",
    "Found",
    "State",
    "TecclOptions",
    "by_rounds",
    "earliest_finish",
    "least_finish",
    "most_reward",
    "teccl",
]
