"""Growth of the best networks of a degree with N: their frontiers, beside others (A.1.3, Fig. 3.7).

This is ``tutti find --up-to``. Read `networks` first: the frontier of one N, closed forms of other networks,
and lower bounds for any schedule on any network. `study` lets the runner do all N, and draws the page. The
finder is `expansions.finder`.
"""
