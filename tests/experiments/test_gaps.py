"""The gap table: one line an instance, one column a method."""

from experiments.gaps import gap_table


def row(method, gap, *, kind="heuristic", status="ok", options="", size=1000):
    """A result row whose bound is 2 us."""
    time = None if gap is None else 2 * (1 + gap)
    return {
        "topology": "ring:4",
        "collective": "allgather",
        "size_bytes": size,
        "method": method,
        "options": options,
        "kind": kind,
        "status": status,
        "bound_us": 2.0,
        "bound_kind": "cut",
        "time_us": time,
        "gap": gap,
    }


def only_line(rows):
    (line,) = gap_table(rows).to_dict("records")
    return line


def test_several_seeds_of_a_method_share_a_column_with_the_best():
    line = only_line([row("tacos", 0.5), row("tacos", 0.25), row("tacos", 0.75)])
    assert line["tacos"] == 0.25
    assert (line["best_us"], line["best_method"], line["best_gap"]) == (2.5, "tacos", 0.25)


def test_options_make_columns_of_their_own():
    line = only_line([row("tacos", 0.5, options="chunks=1"), row("tacos", 0.25, options="chunks=4")])
    assert (line["tacos chunks=1"], line["tacos chunks=4"]) == (0.5, 0.25)
    assert line["best_method"] == "tacos chunks=4"


def test_the_best_exact_value_stands_beside_the_best_of_all():
    line = only_line([row("bfb", 1.0, kind="exact"), row("bfb2", 0.5, kind="exact"), row("ring", 0.25)])
    assert (line["bound_us"], line["bound_kind"]) == (2, "cut")
    assert (line["exact_us"], line["exact_method"]) == (3, "bfb2")
    assert (line["best_us"], line["best_method"]) == (2.5, "ring")


def test_of_equals_the_first_is_best_and_others_than_ok_have_no_gap():
    rows = [row("a", 0.5), row("b", 0.5), row("c", None, status="unsupported")]
    line = only_line(rows)
    assert line["best_method"] == "a"
    assert line["c"] is None or line["c"] != line["c"]


def test_a_line_for_each_size_and_one_where_nothing_was_ok():
    table = gap_table([row("a", 0.5, size=1), row("a", None, status="failed", size=2)])
    assert table["size_bytes"].tolist() == [1, 2]
    assert table["best_method"].isna().tolist() == [False, True]


def test_gaps_are_to_the_largest_bound_that_any_method_proved():
    """2 us is the bound of all, and mcf proved 2.5: ring's 4 us are 60 % above it, mcf's own 2.75 us 10 %."""
    mcf = row("mcf", 0.1, kind="exact") | {"bound_us": 2.5, "bound_kind": "mcf", "time_us": 2.75}
    line = only_line([row("ring", 1.0), mcf])
    assert (line["bound_us"], line["bound_kind"]) == (2.5, "mcf")
    assert (line["ring"], line["mcf"]) == (4 / 2.5 - 1, 0.1)
    assert (line["best_method"], line["best_gap"]) == ("mcf", 0.1)
