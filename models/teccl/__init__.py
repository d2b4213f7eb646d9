"""TE-CCL: schedules as multicommodity flows with copies over epochs (Liu et al., SIGCOMM 2024).

Read `epochs` (what chunks are sent over, and for how many epochs), then `program` (the paper's model, and the
valid inequalities that are added), `search` (the earliest finish, the most reward, rounds of few epochs),
`starts` (other methods' schedules in epochs; `models.optimum` uses them too) and `method`. What needs Pyomo
is imported from its file.
"""

from tutti.models.teccl.epochs import Epochs, Transfer
from tutti.models.teccl.method import METHOD, TecclOptions, teccl

__all__ = ["METHOD", "Epochs", "TecclOptions", "Transfer", "teccl"]
