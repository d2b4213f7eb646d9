"""List schedules: a flow's pieces given places in time, link by link, for one size."""

from schedules.listing.listed import can_be_listed, list_schedule
from schedules.listing.messages import in_messages
from schedules.listing.rules import Rules

__all__ = ["Rules", "can_be_listed", "in_messages", "list_schedule"]
