"""A certificate proves what its finder claims and no more: each claim is raised until it is refused."""

from fractions import Fraction
from pkgutil import resolve_name

import pytest

from tutti.experiments.registry import METHODS
from tutti.models.bounds import lower_bounds
from tutti.models.bounds.check import proven
from tutti.models.bounds.report import ELSEWHERE, PROGRAMS
from tutti.schedules import Problem, collective
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify_answer
from tutti.topologies.errors import InputError
from tutti.topologies.text import parse_topology
from tutti.topologies.units import exact_number

FACTORS = [1 + Fraction(2) ** power for power in (-60, -28, -18, -7, -2, 0)]
"""The claims are raised by these."""

EXACT, DOUBLES, MILLIONTH = Fraction(0), Fraction(1, 2**29), Fraction(1, 2**19)
"""Largest relative gap between a finder's time and the largest provable one, by the constants in its file.

`unicast_price` and `partition_latency` search in doubles; `multicast_price` and `path_price` give up a
millionth.
"""

CASES = [
    ("complete:4", "allgather", 100_000, "combined", EXACT),
    ("complete:4", "allgather", 100_000, "first_hop", EXACT),
    ("complete:2", "allgather", 100_000, "first_hop", EXACT),
    ("complete:8", "reduce-scatter", 100_000, "first_hop", EXACT),
    ("ring:4", "all-to-all", 100_000, "first_hop", EXACT),
    ("ring:3", "allreduce", 3_000, "message_count", EXACT),
    ("torus:4x4", "allreduce", 1_000_000, "partition_latency", DOUBLES),
    ("ring:4", "all-to-all", 100_000, "unicast_price", DOUBLES),
    ("switch2d:2x4?switches=forward", "allreduce", 30_000, "broadcast_growth", EXACT),
    ("switch2d:2x4?switches=forward", "allreduce", 30_000, "cut_gossip", EXACT),
    ("ring:3", "allreduce", 3_000, "multicast_price", MILLIONTH),
    ("complete:2", "allreduce", 30_000, "path_price", MILLIONTH),
]


def raised(certificate):
    """Yield the certificate with a larger claim: a later time, a longer tick, more ticks."""
    for key in {"time", "tick", "h"} & certificate.keys():
        claim = exact_number(str(certificate[key]))
        yield from ({**certificate, key: str(claim * factor)} for factor in FACTORS)
    if "ticks" in certificate:
        yield from ({**certificate, "ticks": certificate["ticks"] + more} for more in range(1, 4))


@pytest.mark.parametrize(("text", "kind", "size", "bound", "rounding"), CASES)
def test_the_largest_accepted_claim_is_the_finders(text, kind, size, bound, rounding):
    topology = parse_topology(text)
    what = collective(kind, topology.num_ranks)
    if bound in PROGRAMS:  # found whether or not the others prove more
        found = resolve_name(ELSEWHERE[bound])(topology, what, Fraction(size), Fraction(1, 2 * 10**6))
    else:
        (found,) = (one for one in lower_bounds(topology, what, size) if one.kind == bound)
    found.check(topology, what)
    accepted = [found.value]
    for certificate in raised(found.certificate):
        try:
            accepted.append(proven(bound, certificate, topology, what))
        except InputError:
            continue
    assert max(accepted) <= found.value * (1 + rounding)


@pytest.mark.parametrize(
    ("text", "kind", "claim"),
    [("complete:4", "allgather", "1/800000"), ("complete:8", "reduce-scatter", "15/16000000")],
)
def test_a_claim_that_a_schedule_beats_is_refused(text, kind, claim):
    """The links have brought all data earlier, and for a while after that they bring nothing more."""
    topology = parse_topology(text)
    problem = Problem(topology, collective(kind, topology.num_ranks), Fraction(100_000))
    direct = METHODS["direct"]
    schedule = verify_answer(direct.synthesize(problem, direct.options(), None), problem, "direct")
    assert simulate(schedule, 100_000).time < float(Fraction(claim))
    certificate = {"node": 0, "direction": "in", "size_bytes": 100_000, "time": claim}
    for direction in ("in", "out"):
        with pytest.raises(InputError, match="may have all before"):
            proven("first_hop", {**certificate, "direction": direction}, topology, problem.collective)
