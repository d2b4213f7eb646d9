"""NCCL's ring and tree on three NVLink domains against what a user measured (`tests/data/cases/17_*`)."""

import csv
from fractions import Fraction
from pathlib import Path

import pytest

from tutti.experiments.registry import METHODS

(MEASURED,) = (Path(__file__).parents[2] / "data" / "cases").glob("17_*/measured.csv")
ROWS = list(csv.DictReader(MEASURED.read_text().splitlines()))
NETWORKS = {"12 GPUs": "gb200_nvl72:3?ranks=4+4+4", "24 GPUs": "gb200_nvl72:3?ranks=8+8+8"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['system']}, {row['algorithm']}")
def test_a_schedule_is_at_most_4_percent_faster_than_measured(made, seconds, row):
    """The model has no overhead of launches and protocols, so ours is the faster one."""
    (text,) = (network for name, network in NETWORKS.items() if name in row["system"])
    size = int(row["bytes"])
    schedule = made(METHODS["nccl"], text, row["collective"], size, options={"algorithm": row["algorithm"]})
    algbw = size / seconds(schedule, size) / 1e9
    assert 1 <= Fraction(algbw) / Fraction(row["measured_algbw_GBps"]) < Fraction(104, 100)
