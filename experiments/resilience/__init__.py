"""What failures cost: a config with ``[failures]``, a task for each way in which links or adapters fail.

Read `failures` first (which fail), then `study` (what is made of each), `rows` (what is said of it), `losses`
(what that comes to) and `report` (the page).
"""
