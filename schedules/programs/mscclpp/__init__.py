"""Programs as execution plans, which MSCCL++ loads: JSON, one-sided.

Read `names` (what the runtime takes: names, limits), `syncs`, `printer`, `reader`.
"""
