"""Schedules on disk: ``.json``, ``.json.gz``, ``.npz``, and ``.rounds`` for tables that outgrow memory.

Read `schedule_file` first, which reads, writes and names files. `document` is their content; it checks every
value, because a file may hold anything. `csv_file` reads the CSV that people and other programs make.
`rounds` has the tables that outgrow memory, and their files.
"""
