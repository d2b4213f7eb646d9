"""Definitions 1, 2 and 14 as printed, over sets of rows ((owner, element), (sender, receiver), step).

Shards are sets of elements, so a part of a shard is a set too. Networks are lists of (u, v, key), nodes any
hashable. Nothing here is shared with the project.
"""

from itertools import product


def line(links, rows, elements):
    """Definition 1; nodes of the result are the links."""
    nodes = list(links)
    joined = [(e, f) for e in nodes for f in nodes if e[1] == f[0] and e != f]
    made = {((e, x), (e, f), 1) for e, f in joined for x in range(elements)}
    for (v, x), arc, t in rows:
        for e in nodes:
            for f in nodes:
                if e[1] == v and f[0] == arc[1] and e != f:
                    made.add(((e, x), (arc, f), t + 1))
    return made


def degree(links, rows, elements, n):
    """Definition 2; nodes of the result are (v, copy); parts are elements, so n d must divide `elements`."""
    made = set()
    for (v, x), arc, t in rows:
        for i, j in product(range(n), repeat=2):
            made.add((((v, j), x), ((arc[0], j), (arc[1], i), arc[2]), t))
    last = max(t for *_, t in rows) + 1
    for u in {v for _, v, _ in links}:
        into = [((a, c), key) for a, b, key in links if b == u for c in range(n)]
        part = elements // len(into)
        for alpha, (sender, key) in enumerate(into):
            for i, j in product(range(n), repeat=2):
                if i != j:
                    for x in range(alpha * part, (alpha + 1) * part):
                        made.add((((u, i), x), (sender, (u, j), key), last))
    return made


def power(nodes, rows, elements, n):
    """Definition 14; nodes of the result are tuples, element x of subshard i is i * elements + x."""
    steps = max(t for *_, t in rows)
    made = set()
    for shift in range(n):

        def turned(v, shift=shift):
            return v[n - shift :] + v[: n - shift]

        for j in range(1, n + 1):
            for (w, c), (u, v, key), t in rows:
                for x in product(nodes, repeat=j - 1):
                    for y in product(nodes, repeat=j - 1):
                        for z in product(nodes, repeat=n - j):
                            owner = turned((*x, w, *z))
                            ends = (turned((*y, u, *z)), turned((*y, v, *z)), key)
                            made.add(((owner, shift * elements + c), ends, t + (j - 1) * steps))
    return made
