"""Demands and verified schedules that the tests of TACCL share."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np

from tutti.models.taccl import METHOD, read_sketch
from tutti.models.taccl.demand import ChunkDemand, PathRules, demand_of, with_symmetry
from tutti.models.taccl.logical import logical_links
from tutti.schedules import Problem, collective
from tutti.schedules.schedule import Chunks
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies.text import parse_topology

REFERENCE = Path(__file__).parents[2] / "data" / "reference"
SLOW = "?bandwidth=1GB/s&alpha=2us"
"""A send of a chunk of 8 KB takes 2 + 8 us, as in the peers' cases."""
CHUNK = 8000
QUICK = {"reroutes": 0, "restarts": 0}
MEGABYTE = Fraction(10**6)


def made(text, kind, size=None, **options):
    """Return a verified schedule."""
    topology = parse_topology(text)
    what = collective(kind, topology.num_ranks)
    problem = Problem(topology, what, Fraction(size or CHUNK * topology.num_ranks))
    schedule = METHOD.synthesize(problem, METHOD.options(**options), np.random.default_rng(0))
    verify(schedule)
    return schedule


def microseconds(schedule) -> float:
    return float(simulate(schedule, schedule.size).time) * 1e6


def demand(text, kind="allgather", chunks=1, sketch=None, symmetry=False) -> ChunkDemand:
    topology = parse_topology(text)
    what = collective(kind, topology.num_ranks)
    drawn = None if sketch is None else read_sketch(sketch)
    logical = logical_links(topology, drawn)
    size = Fraction(CHUNK * topology.num_ranks * chunks)
    found = demand_of(logical, what, Chunks.even(what, chunks), size, PathRules(drawn))
    return with_symmetry(found, what, drawn) if symmetry else found


LISTING_1 = {
    "intranode_sketch": {
        "strategy": "switch",
        "switches": [list(range(16))],
        "switch_hyperedge_strategy": ["uc-min"],
    },
    "internode_sketch": {
        "strategy": "relay",
        "internode_conn": {str(i): [i - 1] for i in range(1, 16, 2)},
        "beta_split": {str(i): 1 for i in range(1, 16, 2)},
        "chunk_to_relay_map": [2, 1],
    },
    "symmetry_offsets": [[2, 16], [16, 32]],
    "hyperparameters": {"input_chunkup": 2, "input_size": "1M"},
}
"""TACCL, Appendix A."""


def written(tmp_path, document) -> str:
    path = tmp_path / "sketch.json"
    path.write_text(json.dumps(document))
    return str(path)


def changed(path, value):
    document = json.loads(json.dumps(LISTING_1))
    *tables, key = path.split(".")
    place = document
    for table in tables:
        place = place[table]
    place[key] = value
    return document
