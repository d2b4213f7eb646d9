"""TACOS: greedy link-chunk matching over the time-expanded network (MICRO 2024).

Read `method` first, which says what is made how; then `network` (links as costs, switches unwound) and the
event loop: `event_loop` (Algorithm 2), `matching` (Algorithm 1 and the other picks), `guided` (chunks with
goals of their own), all on the sets of `bitsets`. `rounds` is the same between like links, for up to 10^5
ranks, with what it keeps in `round_state` and each node's choice in `round_matching`; `on_disk` writes its
rounds to a file.
"""

from tutti.heuristics.tacos.method import METHOD
from tutti.heuristics.tacos.options import TacosOptions

__all__ = ["METHOD", "TacosOptions"]
