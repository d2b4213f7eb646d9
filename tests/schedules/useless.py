"""Transfers of a schedule that serve nothing, found by walks back from the postconditions."""


def useless_transfers(schedule):
    """Return the rows, of one chunk each, on no way of a chunk to a rank that must have it.

    For what copies: a rank has each chunk from one row at most.
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
