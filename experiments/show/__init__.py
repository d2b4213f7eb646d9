"""Networks and schedules to look at: ``tutti show``, `tutti.show`, and pictures for reports.

Read `layout` first, which says where nodes stand, then `drawing`, the picture of a network with what its
links carry. `player` has a schedule's messages as the simulator times them. `page` is all of it in one file
that needs nothing else, which ``show.js`` brings to life, and reads what a text or a file names.
"""
