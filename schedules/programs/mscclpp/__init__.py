"""Programs as MSCCL++ execution plans: one-sided programs in JSON.

Read `runtime` (names and limits, where threads meet, and what waits for what), `files`, then `reader`.
"""
