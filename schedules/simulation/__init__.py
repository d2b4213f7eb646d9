"""The α-β simulator: a deterministic discrete-event simulation of a schedule's messages.

Read `simulate` first; `dependencies` says which message waits for which, whatever the clock, and `events` is
the event loop, with the one-pass way of schedules whose messages enter links in table order. `pipelining`
chooses the number of slices of a flow. They read the table of `schedules.schedule` alone and never ask who
made it.
"""
