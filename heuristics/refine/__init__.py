"""Schedules in time are improved by local search: messages, routes and cuts are changed one at a time.

Read `plan` first: it defines a plan and the times of its messages, and has the parameters of the search.
`moves` changes a plan at one place. `instance` makes a problem of items on routes, one item for all images
of it, has the first plans, and turns a plan into a schedule. `refinement` has the search, and the linear
program that moves all cuts of a plan together.
"""

from tutti.heuristics.refine.refinement import Maker, refined

__all__ = ["Maker", "refined"]
