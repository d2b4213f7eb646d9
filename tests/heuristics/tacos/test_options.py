"""Options of TACOS out of range are refused in one line."""

import tracemalloc

import pytest

from tests.heuristics.tacos.synthesis import tacos
from tutti.heuristics.tacos import TacosOptions
from tutti.schedules.verify import verify
from tutti.topologies import InputError


@pytest.mark.parametrize(
    ("text", "kind", "options", "count"),
    [
        ("mesh:3x3", "allgather", {}, 7 * 9 * 8),
        ("mesh:3x3", "all-to-all", {}, 7 * 9 * 8),
        ("mesh:3x3", "gather", {}, 7 * 8),
        ("mesh:3x3", "allgather", {"groups": [(0, 1, 2), (3, 7, 8)]}, 7 * 6 * 2),
        ("mesh:3x3", "scatter", {"groups": [(0, 1, 2), (3, 7, 8)]}, 7 * 2 * 2),
        ("dgx_a100:1", "reduce-scatter", {}, 7 * 8 * 7),
    ],
)
def test_there_are_at_least_so_many_transfers(text, kind, options, count):
    with pytest.raises(InputError, match=f"^tacos: {count} transfers on .* allowed are 1e-07 GB"):
        tacos(text, kind, chunks=7, memory="100B", **options)
    assert len(tacos(text, kind, chunks=7, **options)) >= count


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("mesh:3x3", {}),
        ("mesh:3x3", {"kind": "all-to-all"}),
    ],
)
def test_nothing_is_built_before_it_is_refused(text, options):
    """Nine or 81 million chunks: their table alone would be over 100 MB."""
    tracemalloc.start()
    with pytest.raises(InputError, match=r"of memory; allowed are 0\.1 GB"):
        tacos(text, chunks=10**6, memory="100MB", **options)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10**7


def test_what_the_memory_can_not_hold_is_refused(monkeypatch):
    """90 transfers of 16 bytes each, and two bits for each of 100 pairs."""
    monkeypatch.setattr("tutti.heuristics.tacos.options.memory", lambda: 1464)
    with pytest.raises(InputError) as error:
        tacos("ring:10")
    expected = "tacos: 90 transfers on ring:10 need 1.46e-06 GB of memory; this machine has 1.46e-06 GB"
    assert str(error.value) == expected
    monkeypatch.setattr("tutti.heuristics.tacos.options.memory", lambda: 1465)
    verify(tacos("ring:10"))


def test_a_memory_budget_is_kept(monkeypatch):
    with pytest.raises(InputError) as error:
        tacos("ring:10", memory="1464B")
    assert str(error.value) == (
        "tacos: 90 transfers on ring:10 need 1.46e-06 GB of memory; allowed are 1.46e-06 GB"
    )
    verify(tacos("ring:10", memory="1465B"))
    monkeypatch.setattr("tutti.heuristics.tacos.options.memory", lambda: 1464)
    with pytest.raises(InputError, match="this machine has"):
        tacos("ring:10", memory="1GB")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chunks": 0}, "tacos option chunks is 0; it must be a whole number, at least 1"),
        ({"chunks": 1.5}, "tacos option chunks is 1.5; it must be a whole number, at least 1"),
        ({"degree": 0}, "tacos option degree is 0; it must be a whole number, at least 1"),
        ({"degree": True}, "tacos option degree is True; it must be a whole number, at least 1"),
        ({"chunk_rule": "rarist"}, "tacos option chunk_rule is 'rarist'; did you mean 'rarest'?"),
        (
            {"wait_for_faster_link": "no"},
            "tacos option wait_for_faster_link is 'no'; it must be true or false",
        ),
        ({"time_limit": 0}, "time_limit is 0; it must be a positive number of seconds"),
        ({"time_limit": -1.5}, "time_limit is -1.5"),
        ({"time_limit": float("inf")}, "time_limit is inf"),
        ({"memory": "0B"}, "it must be positive"),
        ({"memory": "much"}, "much"),
        ({"memory": "16"}, "16"),
        ({"memory": 16}, "16"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(InputError) as error:
        TacosOptions(**options)
    assert message in str(error.value)
