"""List scheduling gives pieces of M their places in time, link by link, for one size.

Read `kernel` first, the list scheduler that all share: transfers wait for each other and for links, the most
urgent first. `forward_backward` improves what it makes; `trees` states what it moves where pieces follow
trees; `piece_counts` searches into how many pieces M is cut. `flows` lists any flow, by `rules` that it
tries, cut into `pieces`. How long messages last is counted in `schedules.message_durations`.
"""

from schedules.list_scheduling.flows import can_be_listed, list_schedule
from schedules.list_scheduling.pieces import in_messages
from schedules.list_scheduling.rules import Rules

__all__ = ["Rules", "can_be_listed", "in_messages", "list_schedule"]
