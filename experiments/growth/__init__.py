"""Growth of the best networks of a degree with N: their frontiers, beside others (A.1.3, Fig. 3.7).

This is ``tutti find --up-to``. Read `frontiers` first, which has the networks of one N, then `study`, which
has the runner do all N. `baselines` has closed forms beside them, and lower bounds for any schedule on any
network; `report` draws the page. The finder is `expansions.finder`.
"""
