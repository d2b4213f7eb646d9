"""The cost of failures: a config with ``[failures]`` has a task for each sample of failed links or adapters.

Read `study` first (the samples, the columns of the rows, and the schedules for each sample), then `losses`
(the statistics) and `report` (the page).
"""
