"""An oracle for collectives from one rank to one: where each datum is in the end, and how much it is."""

from collections import defaultdict
from fractions import Fraction

from tutti.schedules import Problem, collective


def problem(where, amounts):
    """Return the all-to-all of a table of bytes, at the size that these are."""
    what = collective("all-to-all", where.num_ranks, matrix=amounts)
    return Problem(where, what, Fraction(max(sum(map(int, row)) for row in amounts)))


def delivered(schedule, size):
    """Return the bytes that arrived (or stayed), by owner and destination; senders must have them."""
    items, chunks, table = schedule.collective.items, schedule.chunks, schedule.route_table
    where = [{int(items.owner[item])} for item in chunks.item]
    orders = [0] * len(schedule) if schedule.order is None else schedule.order.tolist()
    pending, now = [], None
    for row in range(len(schedule)):
        if orders[row] != now or schedule.order is None:
            for chunk, node in pending:
                where[chunk].add(node)
            pending, now = [], orders[row]
        links = table.links[table.offsets[schedule.route[row]] : table.offsets[schedule.route[row] + 1]]
        for chunk in range(
            schedule.chunk[row], schedule.chunk[row] + (1 if schedule.count is None else schedule.count[row])
        ):
            assert int(schedule.topology.source[links[0]]) in where[chunk]
            pending.append((chunk, int(schedule.topology.target[links[-1]])))
    for chunk, node in pending:
        where[chunk].add(node)
    bytes_of = defaultdict(Fraction)
    for chunk, item in enumerate(chunks.item.tolist()):
        if int(items.dest[item]) in where[chunk]:
            pair = int(items.owner[item]), int(items.dest[item])
            bytes_of[pair] += Fraction(int(chunks.size[chunk]), chunks.denominator) * size
    return dict(bytes_of)
