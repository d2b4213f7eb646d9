"""Schedules on disk: ``.json``, ``.json.gz``, ``.npz``, and ``.rounds`` for tables that outgrow memory.

Read `schedule_file` first, which reads, writes and names files; `document` is their content, checked value by
value, for files that nobody has looked at; `csv_file` reads what people and other programs make, as CSV;
`rounds` has the tables that outgrow memory, and their files.
"""
