"""TE-CCL: schedules as multicommodity flows with copies over epochs (Liu et al., SIGCOMM 2024).

Read `epochs` first: the routes of chunks, for how many epochs they are held, and chunks placed into them.
Then comes `program`, the paper's model with valid inequalities, and `search`, which looks for the earliest
finish or the most reward, also in rounds of few epochs. `starts` brings other methods' schedules into epochs;
`models.optimum` uses them too. `method` is the method. `program` and `search` need Pyomo, so this package
does not import them.
"""

from tutti.models.teccl.epochs import Epochs, Transfer
from tutti.models.teccl.method import METHOD, TecclOptions, teccl

__all__ = ["METHOD", "Epochs", "TecclOptions", "Transfer", "teccl"]
