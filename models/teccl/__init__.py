"""TE-CCL: schedules as multicommodity flows with copies over epochs (Liu et al., SIGCOMM 2024).

Read `epochs` (the routes of chunks, for how many epochs they are held, and chunks placed into them), then
`program` (the paper's model, and the valid inequalities that are added), and `search` (the earliest finish,
the most reward, rounds of few epochs). `starts` brings other methods' schedules into epochs; `models.optimum`
uses them too. `method` is the method. `program` and `search` need Pyomo, so this package does not import
them.
"""

from tutti.models.teccl.epochs import Epochs, Transfer
from tutti.models.teccl.method import METHOD, TecclOptions, teccl

__all__ = ["METHOD", "Epochs", "TecclOptions", "Transfer", "teccl"]
