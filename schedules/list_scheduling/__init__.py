"""List scheduling gives pieces of M their places in time, link by link, for one size.

Read `kernel` first, the list scheduler: on every idle link it sends the ready transfer of highest priority.
`pieces` searches for the number of pieces into which M is cut, and makes and improves list schedules of
pieces that follow trees. `flows` cuts any flow into pieces and makes its list schedule by trying rules.
`schedules.message_durations` counts the ticks of messages.
"""

from tutti.schedules.list_scheduling.flows import Rules, can_be_listed, in_messages, list_schedule

__all__ = ["Rules", "can_be_listed", "in_messages", "list_schedule"]
