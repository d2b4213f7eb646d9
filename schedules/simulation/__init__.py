"""The α-β simulator: a deterministic discrete-event simulation of a schedule's messages.

Read `simulate` first, which also chooses the number of slices of a flow. `dependencies` says which message
waits for which, in any clock. `events` is the event loop, and also simulates schedules whose messages enter
links in table order in one pass. These modules read only the table of `schedules.schedule`, whatever made it.
"""
