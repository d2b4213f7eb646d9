"""Networks and schedules that tests of expansions share."""

import numpy as np

from tutti.expansions import METHOD
from tutti.schedules import Problem, collective
from tutti.schedules.verify import verify
from tutti.topologies import parse_topology

REGULAR = ["UniRing(1,3)", "UniRing(2,3)", "K_4", "K_{2,2}", "C(5,{1})", "Pi_{2,5}", "DBJ(2,2)", "C(7,{1,2})"]
"""Networks with parallel links, with self-loops and with neither; some are reverse-symmetric."""


def synthesized(text, kind="allgather"):
    topology = parse_topology(text)
    problem = Problem(topology, collective(kind, topology.num_ranks))
    METHOD.supports(problem, METHOD.options())
    schedule = METHOD.synthesize(problem, METHOD.options(), np.random.default_rng(0))
    assert schedule.topology == topology
    verify(schedule)
    return schedule
