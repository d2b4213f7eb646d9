"""All-to-alls as flows through messages: one linear program finds their times and all paths.

Read `program` first (the linear program of an order of events), then `search` (which orders are tried) and
`method` (how a flow becomes a schedule).
"""

from tutti.models.all_to_all.message_flow.method import METHOD, MessageFlowOptions

__all__ = ["METHOD", "MessageFlowOptions"]
