"""Networks and schedules to look at: ``tutti show``, `tutti.show`, and pictures for reports.

Read `drawing` first, which says where nodes stand, and draws a network with what its links carry. `page`
writes a network or a schedule to one HTML file, in which ``show.js`` plays the messages at their simulated
times. It also reads the network or the schedule that a text or a file names.
"""
