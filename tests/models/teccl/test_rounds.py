"""TE-CCL's rounds: they end, and never earlier than the whole program."""

from tests.models.teccl.cases import made, problem


def test_rounds_end_where_one_program_does_not_fit():
    """Two rounds of the decomposition see less than the whole, so they may end later, never earlier."""
    for text in ("mesh:2x4", "gen_kautz:2,7", "mesh:3x3?drop_nodes=8"):
        whole, rounds = made(problem(text)), made(problem(text), window=1)
        assert whole.stats["solver_gap"] == 0
        assert rounds.stats["epochs"] >= whole.stats["epochs"]
