"""Schedules in time are improved by local search: messages, routes and cuts are changed one at a time.

Read `plan` first: what a plan is, when its messages are sent, and what steers the search. `moves` changes a
plan at one place; `cuts` moves all cuts of a plan at once; `roads` and `instance` make a problem of items on
routes, one for all that a symmetry makes alike, and a schedule of a plan; `starts` has the plans to begin
with, and `refinement` is the way in: it searches.
"""

from tutti.heuristics.refine.refinement import Maker, refined

__all__ = ["Maker", "refined"]
