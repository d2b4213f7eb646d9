"""Predicted costs: those measured, or above them, and those of the papers' tables."""

import csv
from pathlib import Path

import pytest

from tests.expansions.cases import REGULAR, synthesized
from tests.sweep import for_each
from tutti.expansions import predict
from tutti.schedules.cost import step_cost
from tutti.topologies import parse_topology
from tutti.topologies.families.expressions import parse_notation
from tutti.topologies.graphs.shortest_paths import hop_distances

REFERENCE = Path(__file__).parents[1] / "data" / "reference"


@for_each(
    "text",
    [
        *REGULAR,
        *(f"L({text})" for text in REGULAR),
        *(f"{text}^2" for text in REGULAR),
        "L^2(K_4)",
        "K_4 * 2",
        "L(K_4 * 2)",
        "(L(K_3) * 2)^2",
        "UniRing(1,3) x K_4",
        "Pi_{2,5} x K_3",
        "L(BiRing(2,4) x UniRing(1,4)^2)",
    ],
)
def test_the_prediction_is_the_measured_cost_or_an_upper_bound(text):
    schedule = synthesized(text)
    topology, cost, claim = schedule.topology, step_cost(schedule), predict(parse_notation(text))
    assert (claim.nodes, claim.degree, claim.tl) == (topology.num_ranks, topology.degree, cost.tl_steps)
    assert claim.tb == cost.tb if claim.exact else claim.tb >= cost.tb


def printed(name, rename=()):
    with (REFERENCE / name).open() as file:
        for row in csv.DictReader(file):
            text = row["topology"].replace(";", ",")
            if text != "bound" and not text.endswith("torus"):
                yield text, row


@for_each(("text", "row"), [*printed("table_A1_pareto_d4.csv"), *printed("table_3_4_n1024_d4.csv")])
def test_predictions_are_those_of_the_papers_tables(text, row):
    """Tables A.1 and 3.4: T_L, diameter and T_B to the printed digits (T_B is cut off or rounded there)."""
    claim = predict(parse_notation(text))
    assert claim.tl == int(row["tl_alpha"])
    digits = len(row["tb_mb"].partition(".")[2])
    assert abs(float(claim.tb) - float(row["tb_mb"])) < 10**-digits
    hops = hop_distances(parse_topology(text))
    assert hops.max() == int(row["diameter"])


@pytest.mark.parametrize(
    "text", ["L^2(K_{4,4})", "L^2(DistReg(4,32))", "Pi_{4,64}", "L(UniRing(1,4)^3 x UniRing(1,2))"]
)
def test_rows_of_table_a1_replay(text):
    claim, cost = predict(parse_notation(text)), step_cost(synthesized(text))
    assert (cost.tl_steps, cost.tb) == (claim.tl, claim.tb)
