"""Rails: allgathers on machines, or planes, joined place by place, timed so that no port or rail waits.

Read `method` first, which says which part is made where, and plans the jobs of ranks whose switches multicast
and add. On machines `machines` finds ports and adapters and plays the timeline of one rank, which is that of
all. On planes `planes` finds the parts and the trees inside, and sends on along the trees what rails bring;
`plane_schedule` plans the data that they bring.
"""

from tutti.heuristics.rails.method import METHOD

__all__ = ["METHOD"]
