"""The cost of failures: a config with ``[failures]`` has a task for each sample of failed links or adapters.

Read `failures` first (the samples, and the columns of the rows), then `study` (the schedules for each
sample), `losses` (the statistics) and `report` (the page).
"""
