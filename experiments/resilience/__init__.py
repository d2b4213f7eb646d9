"""The cost of failures: a config with ``[failures]`` has a task for each sample of failed links or adapters.

Read `study` first (the samples, the columns of the rows, the schedules for each sample, and the statistics of
the losses), then `report` (the page).
"""
