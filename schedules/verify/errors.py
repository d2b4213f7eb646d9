"""What the verifier says: one line that names the first wrong transfer."""

from __future__ import annotations

from schedules.files.rounds import RoundTable
from schedules.schedule import Clock, Schedule
from topologies.errors import TuttiError


class VerificationError(TuttiError):
    """A schedule does not do what it should; the text is one line.

    Parameters
    ----------
    text
        What is wrong, and where; what follows "transfer 7" if a row is given.
    row
        The first wrong transfer; None where no single one is to blame (the chunk table, missing data).
    """

    def __init__(self, text: str, row: int | None = None) -> None:
        super().__init__(text if row is None else f"transfer {row}{text}")
        self.text, self.row = text, row

    def renumbered(self, first_row: int) -> VerificationError:
        """Return the same of the table in which the first row has this number."""
        return self if self.row is None else VerificationError(self.text, self.row + first_row)


def wrong_transfer(schedule: Schedule, row: int, chunk: int | None, what: str) -> VerificationError:
    """Return the error for one transfer of a table whose indices are in range.

    `chunk` is the one of the row's run that shows it, None where all do.
    """
    labels, route = schedule.topology.labels, schedule.route[row]
    ends = f"{labels[schedule.route_source[route]]}->{labels[schedule.route_target[route]]}"
    parts = [ends, chunk_name(schedule, int(schedule.chunk[row]) if chunk is None else chunk)]
    if schedule.order is not None:
        unit = "step" if schedule.clock is Clock.STEP else "tick"
        parts.append(f"{unit} {schedule.order[row]}")
    return VerificationError(f" ({', '.join(parts)}): {what}", row)


def chunk_name(schedule: Schedule | RoundTable, chunk: int) -> str:
    """Return ``"chunk 7 of rank 2's shard"``, with labels; in all-to-all also whom it is for."""
    items, item = schedule.collective.items, int(schedule.chunks.item[chunk])
    labels = schedule.topology.labels
    owner, dest = labels[items.owner[item]], int(items.dest[item])
    return f"chunk {chunk} of rank {owner}'s shard" + (f" for {labels[dest]}" if dest >= 0 else "")
