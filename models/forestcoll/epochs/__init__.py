"""Trees made together with the times of their edges: few long messages, and no link idle at the end.

Read `schedule`, which turns trees into schedules, then `column_generation`, which finds the trees, over what
`epoch_links` offers and under the prices that `pricing` makes trees cheap for.
"""

from tutti.models.forestcoll.epochs.schedule import planned_schedule

__all__ = ["planned_schedule"]
