"""List scheduling gives pieces of M their places in time, link by link, for one size.

Read `kernel` first, the list scheduler: on every idle link it sends the ready transfer of highest priority.
`trees` makes and improves its schedules of pieces that follow trees, and `piece_counts` searches into how
many pieces M is cut. `flows` makes a list schedule of any flow, by the rules that it tries; `pieces` cuts the
flow. `schedules.message_durations` counts messages' ticks.
"""

from tutti.schedules.list_scheduling.flows import Rules, can_be_listed, list_schedule
from tutti.schedules.list_scheduling.pieces import in_messages

__all__ = ["Rules", "can_be_listed", "in_messages", "list_schedule"]
