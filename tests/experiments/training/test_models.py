"""Shipped models: their weights are as many as published, and their tables move all of them."""

import re

import pytest

from tutti.experiments.training.models import MODELS, TrainingSetup, find_model
from tutti.experiments.training.workload import Parallelism
from tutti.schedules.collective import Kind
from tutti.topologies.errors import InputError

BILLION = 10**9
PUBLISHED = {
    "gnmt": 0.278,  # MLPerf v0.7's GNMT is of 32,317 pieces and ties nothing
    "resnet50": 0.0255570,  # torchvision
    "gpt2": 0.124,
    "gpt2_medium": 0.355,
    "gpt2_large": 0.774,
    "gpt2_xl": 1.558,
    "turing_nlg": 17.2,
    "gpt3_175b": 174.6,  # Table 2.1 says 175.0
    "megatron_22b": 22.0,
    "msft_1t": 1008,
    "llama2_7b": 6.74,
    "llama2_13b": 13.02,
    "llama2_70b": 68.98,
    "llama3_8b": 8.03,
    "llama3_70b": 70.55,
    "llama3_405b": 405.9,
    "llama3_119b": 119,
    "gemma2_2b": 2.61,
    "gemma2_9b": 9.24,
    "gemma2_27b": 27.23,
    "switch_base_128": 7.4,
    "switch_base_256": 14.7,
    "switch_large_128": 26.3,
    "switch_c_2048": 1571,
    "deepseek_v3_like": 671,
}


@pytest.mark.parametrize("name", list(MODELS))
def test_weights_are_as_published(name: str) -> None:
    """Gradients are of all weights, 2 bytes each: all experts are one rank's here."""
    workload = find_model(name).workload(TrainingSetup(Parallelism(dp=2)))
    reduced = [one for one in workload.communications if one.kind == Kind.ALLREDUCE]
    assert {one.group for one in reduced} <= {"dp", "edp"}
    assert sum(one.size for one in reduced) / 2 == pytest.approx(PUBLISHED[name] * BILLION, rel=0.012)


def test_fsdp_gathers_and_scatters_all_weights() -> None:
    workload = find_model("llama2_7b").workload(TrainingSetup(Parallelism(fsdp=4)))
    for kind in (Kind.ALLGATHER, Kind.REDUCE_SCATTER):
        moved = sum(one.size for one in workload.communications if one.kind == kind)
        assert moved / 2 == pytest.approx(PUBLISHED["llama2_7b"] * BILLION, rel=0.012)


def test_tensor_parallel_collectives_are_megatrons() -> None:
    """Two allreduces of the activations a layer, forward and backward, of 2 b s h bytes."""
    load = TrainingSetup(Parallelism(tp=8), batch=4)
    found = find_model("gpt3_175b").workload(load).communications
    inside = [one for one in found if one.group == "tp"]
    assert {one.size for one in inside} == {2 * 4 * 2048 * 12288}
    assert len(inside) == 4 * 96 + 2  # and one each for embedding and vocabulary


def test_experts_move_every_token_four_times_a_layer() -> None:
    """To the experts and back, forward and backward, k times 2 bytes of each of its numbers."""
    load = TrainingSetup(Parallelism(dp=8, ep=8), batch=2)
    found = find_model("deepseek_v3_like").workload(load).communications
    moved = [one for one in found if one.group == "ep"]
    assert {one.size for one in moved} == {2 * 8 * 2 * 4096 * 7168}
    assert len(moved) == 4 * 58


def test_a_popular_expert_computes_longest() -> None:
    """If all tokens of eight ranks go to one, its experts compute eight times as long."""

    def seconds(matrix: str | None) -> float:
        load = TrainingSetup(Parallelism(dp=8, ep=8), batch=64, matrix=matrix)
        layers = find_model("deepseek_v3_like").workload(load).layers
        return sum(layer.seconds for layer in layers if layer.name.startswith("experts"))

    assert seconds("hot:1") == pytest.approx(8 * seconds(None))
    assert seconds("uniform") == pytest.approx(seconds(None))


def test_compute_is_six_operations_a_weight_and_token() -> None:
    """Where attention and memory count little: 6 W T over half the peak (Kaplan et al. 2020)."""
    load = TrainingSetup(Parallelism(), batch=8, sequence=128)
    seconds = sum(layer.seconds for layer in find_model("gpt3_175b").workload(load).layers)
    dense = 174.6e9 - 2048 * 12288
    assert seconds == pytest.approx(6 * dense * 8 * 128 / 156e12, rel=0.01)


@pytest.mark.parametrize(
    ("name", "groups", "message"),
    [
        ("gpt2", {"tp": 7}, "tp = 7 does not divide hidden = 768"),
        ("switch_base_128", {"dp": 3, "ep": 3}, "ep = 3 does not divide 128 experts"),
        ("resnet50", {"tp": 2}, "resnet50: tp = 2; only dp, fsdp and pp divide it"),
        ("gpt2", {"dp": 2, "fsdp": 2}, "gpt2: dp = 2 and fsdp = 2; shipped models have one of the two"),
        ("gpt2", {"pp": 99}, "gpt2: 99 parts for 99 stages, but only 26 layers"),
    ],
)
def test_a_parallelism_that_does_not_fit_is_refused(name: str, groups: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        find_model(name).workload(TrainingSetup(Parallelism(**groups)))


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(InputError, match=r"^unknown model 'gpt2_larg'.*gpt2_large"):
        find_model("gpt2_larg")
