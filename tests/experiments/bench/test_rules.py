"""Who is fastest under which rule."""

import pytest

from tutti.experiments.bench.rules import RULES, Case, compare, lines

OURS, WHOLE, FLIGHT = RULES


def test_a_case_names_the_first_of_the_fastest_and_what_our_choice_costs():
    case = Case("x", "allgather", "1KB", {OURS: {"a": 2.0, "b": 2.0, "c": 3.0}, FLIGHT: {"a": 3.0, "c": 2.0}})
    assert (case.fastest(OURS), case.fastest(FLIGHT), case.regret(FLIGHT)) == ("a", "c", 1.5)


def test_a_ring_under_each_rule():
    """Three steps, in each 125 B over a link of 50 GB/s and 0.5 us: nothing that a rule would change."""
    case = compare("ring:4", "allgather", "1KB", ("ring", "direct", "rails"))
    assert set(case.seconds[OURS]) == {"ring", "direct"}  # rails is for machines
    assert case.seconds[OURS]["ring"] == pytest.approx(3 * (0.5e-6 + 2.5e-9))
    assert case.seconds[FLIGHT]["ring"] == pytest.approx(3 * (0.5e-6 + 2.5e-9))


def test_the_table_marks_other_winners():
    found = [
        Case("n", kind, size, {rule: {"a": 1.0, "b": 1.5 if rule != FLIGHT else 0.8} for rule in RULES})
        for kind in ("allgather", "allreduce")
        for size in ("1KB", "1MB", "1GB")
    ]
    text = list(lines(found))
    assert text[2] == "| `n` |" + " a; α: b (+25 %) |" * 6
    assert text[-1] == "| α in flight, 1GB | 2 of 2 | 25 % | 0.800 | 0.800 to 0.800 |"
    assert text[-6] == "| store and forward, 1KB | 0 of 2 | 0 % | 1.000 | 1.000 to 1.000 |"
