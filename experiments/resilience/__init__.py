"""What failures cost: a config with ``[failures]``, a task for each way in which links or adapters fail.

Read `failures` first (which fail, and the columns of the rows), then `study` (what is made of each),
`losses` (what that comes to) and `report` (the page).
"""
