"""Networks, collectives and sizes drawn by chance, on which no method was developed: `configs/held_out.toml`.

    python -m tests.held_out > configs/held_out.toml

All families of `ARGUMENTS` occur, with 5 to 64 ranks. Each network is changed: it has other bandwidths (of
all links, or of each class of links), one failure, or hosts of unequal size. None has the ranks, links and
speeds of one of the twenty networks of docs/sizes.md. A network has one cell; all pairs of a collective and a
size have as many cells.
"""

from __future__ import annotations

import csv
import json
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from tutti.topologies import InputError, Topology, parse_topology
from tutti.topologies.text import FAMILIES

SEED = 2026
INSTANCES = Path(__file__).parent / "data" / "reference" / "instances.csv"
KINDS = ("allgather", "reduce-scatter", "allreduce", "all-to-all")
SIZES = ("4KB", "100KB", "3MB", "64MB", "1GB")
CELLS = 3
"""Cells of each collective at each size."""
LEAST_RANKS, MOST_RANKS = 5, 64
SIDES = (2, 3, 5, 7, 9, 11, 13)
ARGUMENTS: dict[str, tuple[Sequence[int], ...]] = {
    **dict.fromkeys(("ring", "uniring", "complete"), (range(5, 30),)),
    **dict.fromkeys(("torus", "mesh"), (SIDES, SIDES)),
    "twisted_torus": (range(3, 12), range(3, 12)),
    **dict.fromkeys(("tpu_v4", "tpu_v5p"), (range(2, 6), range(2, 6), range(2, 6))),
    **dict.fromkeys(("hypercube", "twisted_hypercube"), (range(3, 7),)),
    "complete_bipartite": (range(3, 9),),
    "hamming": (range(2, 4), range(3, 6)),
    "gen_kautz": (range(2, 5), range(7, 64)),
    "circulant": (range(11, 64), range(1, 3), range(3, 6)),
    "least_circulant": (range(4, 7, 2), range(13, 64)),
    "directed_circulant": (range(3, 12),),
    **dict.fromkeys(("biring", "directed_ring"), (range(2, 5, 2), range(5, 24))),
    "kautz": (range(2, 4), range(1, 4)),
    **dict.fromkeys(("debruijn", "modified_debruijn"), (range(2, 4), range(3, 6))),
    "distance_regular": (range(4, 5), range(9, 46)),
    "johnson": (range(4, 8), range(2, 4)),
    "slim_fly": (range(3, 6),),
    "random_regular": (range(3, 6), range(8, 64), range(1, 100)),
    "xpander": (range(3, 6), range(2, 10), range(1, 100)),
    "dragonfly": (range(2, 7), range(3, 9)),
    "switch2d": (range(2, 10), range(2, 8)),
    "rfs": (range(2, 5), range(2, 5), range(2, 6)),
    **dict.fromkeys(("diamond", "dgx1", "trn2"), ()),
    **dict.fromkeys(("ndv2", "dgx2", "dgx_a100", "dgx_h100", "dgx_h200"), (range(1, 8),)),
    **dict.fromkeys(("dgx_b200", "mi300x", "mi250", "gb200_nvl72"), (range(1, 8),)),
    "fat_tree": (range(2, 7), range(3, 9), range(1, 4), range(2, 5)),
    "rail_only": (range(2, 8), range(2, 8)),
    "rail_spine": (range(2, 8), range(2, 8), range(2, 5)),
    "torus_of_boxes": (range(2, 5), range(2, 5), range(2, 5)),
}
"""The families, and the numbers from which their arguments are drawn."""
BANDWIDTHS = ("12.5GB/s", "25GB/s", "40GB/s", "100GB/s", "200GB/s", "450GB/s")
FAILURES = ("fail_links", "fail_nics", "fail_nodes")
HEAD = """\
# Sixty cells on which no method was developed: networks, collectives and sizes that tests/held_out.py drew at
# random. The benefit of a method or a bound is counted on these cells and on those of docs/sizes.md.
#
#     tutti run configs/held_out.toml --out results/held_out_before
#
# It takes about half an hour on two cores that do nothing else. Run it before and after a change, in two
# folders. A row of results.csv is a cell; its `algorithm` is the method that made the schedule. A cell has
# become better or worse if its time_us (for a bound: its bound_us) differs by more than 1 %. `best` searches
# by the clock, so run the cells that differ again, with --only into a third folder, before you count them.
# No code names a network of this file, and no method is tuned for one.
name = "held_out"

[run]
workers = 2
keep_schedules = "none"

[[topology]]
sweep = {{spec = [
{0},
]}}

[[collective]]
sizes = {1}
sweep = {{kind = {2}}}
"""
TABLE = """\
[[method]]
name = "best"
collectives = ["{0}"]
sizes = ["{1}"]
topologies = [
{2},
]
options = {{time_limit = "50s"}}
"""


def networks(rng: random.Random) -> Iterator[str]:
    """Return texts of networks, all different: all families in a random order, again and again."""
    drawn = {_measures(parse_topology(text)) for text in published()}
    while True:
        for family in rng.sample(sorted(ARGUMENTS), len(ARGUMENTS)):
            text, made = _network(family, rng)
            while _measures(made) in drawn:
                text, made = _network(family, rng)
            drawn.add(_measures(made))
            yield text


def published() -> list[str]:
    """Return the twenty networks of docs/sizes.md."""
    rows = csv.DictReader(INSTANCES.read_text().splitlines())
    return [row["topology"] for row in rows if row["set"] == "all"]


def _measures(network: Topology) -> tuple[object, ...]:
    """Return what two networks differ in if one is not the other with its nodes numbered differently."""
    degrees = [sorted(Counter(column.tolist()).values()) for column in (network.source, network.target)]
    speeds = sorted(zip(network.bandwidth, network.alpha, strict=True))
    return network.num_ranks, network.num_nodes, *map(tuple, degrees), tuple(speeds)


def _network(family: str, rng: random.Random) -> tuple[str, Topology]:
    """Return the text of a network of a family, and the network, of a size that is asked for."""
    while True:
        arguments = FAMILIES[family].separator.join(str(rng.choice(numbers)) for numbers in ARGUMENTS[family])
        text = f"{family}:{arguments}" if arguments else family
        try:
            text += rng.choice([_unlike, _broken, _unequal])(text, rng)
            made = parse_topology(text)
        except InputError:
            continue
        if LEAST_RANKS <= made.num_ranks <= MOST_RANKS:
            return text, made


def _unlike(text: str, rng: random.Random) -> str:
    """Return keys with a bandwidth for each class of links, and another α."""
    values = ",".join(rng.choices(BANDWIDTHS, k=rng.randint(1, 3)))
    return f"?bandwidth={values}&alpha={rng.choice(['0.3us', '1us', '2.5us'])}"


def _broken(text: str, rng: random.Random) -> str:
    """Return keys of one failure."""
    return f"?{rng.choice(FAILURES)}=1&seed={rng.randint(1, 99)}"


def _unequal(text: str, rng: random.Random) -> str:
    """Return the key of how many ranks each host keeps, where there are several hosts."""
    made = parse_topology(text)
    hosts = [] if made.hosts is None else made.hosts[: made.num_ranks].tolist()
    kept = [str(rng.randint(1, hosts.count(host))) for host in sorted(set(hosts))]
    if len(kept) < 2:
        raise InputError(f"{text} has no hosts that could differ")
    return "?ranks=" + "+".join(kept)


def cells() -> dict[tuple[str, str], list[str]]:
    """Return the networks of each collective and size."""
    rng = random.Random(SEED)
    pairs = [(kind, size) for kind in KINDS for size in SIZES]
    drawn = dict(zip(networks(rng), rng.sample(CELLS * pairs, CELLS * len(pairs)), strict=False))
    return {pair: [text for text, cell in drawn.items() if cell == pair] for pair in pairs}


def config() -> str:
    """Return the text of the config."""
    drawn = cells()
    head = HEAD.format(_lines(chain.from_iterable(drawn.values())), _words(SIZES), _words(KINDS))
    return "\n".join([head, *(TABLE.format(*pair, _lines(texts)) for pair, texts in drawn.items())])


def _lines(texts: Iterable[str]) -> str:
    return ",\n".join(f'    "{text}"' for text in texts)


def _words(texts: Iterable[str]) -> str:
    return json.dumps(list(texts))


if __name__ == "__main__":
    sys.stdout.write(config())
