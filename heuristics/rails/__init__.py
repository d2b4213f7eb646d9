"""Rails: allgathers on machines, or planes, joined place by place, timed so that no port or rail waits."""

from heuristics.rails.method import METHOD

__all__ = ["METHOD"]
