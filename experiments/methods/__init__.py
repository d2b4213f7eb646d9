"""Methods that call other methods: `best`, the portfolio, and `list_scheduled` (``list_scheduling``).

Each is a function of the methods that it may call and returns a `Method`; `experiments.registry` calls both.
A method that calls no other lives in `models`, `heuristics` or `expansions`.
"""
