"""Trees made together with the times of their edges: few long messages, and no link idle at the end."""

from models.forestcoll.epochs.method import planned_schedule

__all__ = ["planned_schedule"]
