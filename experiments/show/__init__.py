"""Networks and schedules to look at: ``tutti show``, `tutti.show`, and pictures for reports.

Read `drawing` first, which says where nodes stand, and draws a network with what its links carry. `page` is
all of it in one file that needs nothing else, with a schedule's messages as the simulator times them, which
``show.js`` brings to life, and reads what a text or a file names.
"""
