"""Transfers of a schedule that no postcondition needs, found by walks back from these."""


def useless_transfers(schedule):
    """Return the rows, of one chunk each, that lie on no path of a chunk to a rank that must have it.

    This is for copies only, where a rank has each chunk from at most one row.
    """
    what, items = schedule.collective, schedule.collective.items
    columns = (schedule.chunk.tolist(), schedule.source.tolist(), schedule.target.tolist())
    rows = list(zip(*columns, strict=True))
    brought = {(c, b): row for row, (c, _, b) in enumerate(rows)}
    walked = set()
    for c, item in enumerate(schedule.chunks.item.tolist()):
        end, group = int(items.end[item]), int(items.group[item])
        for node in what.members[group] if end < 0 else (end,):
            here = node
            while (c, here) in brought:
                walked.add(brought[c, here])
                here = rows[brought[c, here]][1]
    return sorted(set(range(len(rows))) - walked)
