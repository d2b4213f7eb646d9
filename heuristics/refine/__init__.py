"""Schedules in time are improved by local search: messages, routes and cuts are changed one at a time.

Read `plan` first: it defines a plan and the times of its messages, and has the parameters of the search.
`moves` changes a plan at one place, and `cuts` moves all cuts of a plan together. `roads` and `instance` make
a problem of items on routes, one item for all its images under symmetries, and turn a plan into a schedule.
`starts` has the first plans, and `refinement` has the search.
"""

from tutti.heuristics.refine.refinement import Maker, refined

__all__ = ["Maker", "refined"]
