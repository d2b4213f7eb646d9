"""Schedules on disk: ``.json``, ``.json.gz``, ``.npz``, and ``.rounds`` for tables that outgrow memory.

`schedule_file` reads and writes; `document` is the content, checked value by value, for files that nobody has
looked at. Tables of rounds have files of their own here.
"""
