"""Programs as MSCCL++ execution plans: one-sided programs in JSON.

Read `names` (names and limits of the runtime, and where its threads meet), `files`, then `reader` with
`assembly`.
"""
