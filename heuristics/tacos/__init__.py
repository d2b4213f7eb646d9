"""TACOS: greedy link-chunk matching over the time-expanded network (MICRO 2024).

Read `method` first, which says how each collective is made. Then read `network` (links as costs, switches
unwound) and the loop that all rules share, `event_loop` (Algorithm 2). Rules for links of any durations are
in `matching` (Algorithm 1 and the other picks) and `guided` (each chunk has its own goals), on the state of
`event_state`. The rule for up to 10^5 ranks and links of one duration is in `round_matching`, on the state of
`round_state`; `on_disk` writes its rounds to a file. All use the sets of `bitsets`.
"""

from tutti.heuristics.tacos.method import METHOD
from tutti.heuristics.tacos.options import TacosOptions

__all__ = ["METHOD", "TacosOptions"]
