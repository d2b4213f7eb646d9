"""A schedule as CSV is the same when it is read again."""

import pytest

from tests.schedules.programs.replays import CASES, made
from tutti.schedules.files import csv_file
from tutti.schedules.files.csv_file import read_csv
from tutti.schedules.files.schedule_file import content_hash
from tutti.schedules.method import NoOptions


@pytest.mark.parametrize("case", [*CASES, ("mesh:2x3", "allgather", "tacos")], ids=str)
def test_what_is_written_is_read_again(case, tmp_path):
    schedule = made(*case)
    csv_file.write(schedule, tmp_path / "x.csv", NoOptions())
    again = read_csv(tmp_path / "x.csv")
    assert content_hash(again) == content_hash(schedule)
    assert (again.tick, again.size, again.claims) == (schedule.tick, schedule.size, schedule.claims)


def test_a_line_a_transfer(tmp_path):
    schedule = made("ring:2", "allgather", "ring")
    csv_file.write(schedule, tmp_path / "x.csv", NoOptions())
    lines = [line for line in (tmp_path / "x.csv").read_text().splitlines() if not line.startswith("#")]
    assert lines == ["chunk,src,dst,route,order", "0,0,1,0,1", "1,1,0,1,1"]
