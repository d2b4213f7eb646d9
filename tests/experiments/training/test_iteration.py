"""Iterations against times worked out by hand, and pipelines against the formula of their bubble."""

import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from tutti.experiments.training.iteration import (
    BUCKETS,
    Iteration,
    Operation,
    OperationGraph,
    Plan,
    iterate,
    stage_order,
)
from tutti.experiments.training.workload import (
    SEND,
    Communication,
    Layer,
    Parallelism,
    Pass,
    Workload,
    parts_of,
)
from tutti.schedules.collective import Kind
from tutti.topologies.errors import InputError

MB = Fraction(10**6)


def second_a_megabyte(what: Communication) -> float:
    """Return 1 s for each megabyte, whatever the collective."""
    return float(what.size / MB)


def played(workload: Workload, **plan: Any) -> Iteration:
    """Return the iteration where each group has links of its own."""
    return iterate(workload, second_a_megabyte, lambda group: group, replace(Plan(), **plan))


def gradient(megabytes: int, seconds: float = 2.0) -> Pass:
    return Pass(seconds, Communication(Kind.ALLREDUCE, megabytes * MB, "dp"))


def toy(*layers: Layer, microbatches: int = 1, **groups: int) -> Workload:
    return Workload("toy", layers, Parallelism(**groups), microbatches)


DDP = toy(
    Layer("first", Pass(1), Pass(2), gradient(5)),
    Layer("second", Pass(1), Pass(2), gradient(3)),
    Layer("third", Pass(1), Pass(2), gradient(2)),
    dp=2,
)
"""Forward 3 s; backward 4 s a layer, the third first, so that gradients are there at 7, 11 and 15 s."""


@pytest.mark.parametrize(
    ("plan", "seconds"),
    [
        ({"bucket": Fraction(0)}, 20),  # 7-9 (2 MB), 11-14 (3 MB), 15-20 (5 MB)
        ({"bucket": 4 * MB}, 21),  # 2 + 3 MB together at 11-16, then 5 MB at 16-21
        ({"bucket": Fraction(10**12)}, 25),  # all 10 MB from 15 on
        ({"bucket": Fraction(0), "overlap": False}, 25),
    ],
)
def test_ddp_by_hand(plan: dict[str, Any], seconds: float) -> None:
    """Buckets are reduced one after the other, each when its last gradient is there."""
    made = played(DDP, **plan)
    assert made.seconds == pytest.approx(seconds)
    assert made.compute == pytest.approx(15)
    assert made.weights == pytest.approx(seconds - 15)
    assert made.activations == made.bubble == 0


def test_the_best_bucket_is_found() -> None:
    """Of 1 MB, 10 MB, ... the one of least time, here each layer's own."""
    assert played(DDP).bucket == BUCKETS[0]
    assert played(DDP).seconds == pytest.approx(20)


def test_fsdp_by_hand() -> None:
    """Allgathers run one layer ahead, in both directions; a reduce-scatter follows each layer.

    Two layers of 2 s forward and 3 + 1 s backward, 4 MB of weights each. Gathers: first layer 0-4, second
    4-8, as it may start when the first computes, at 4. Forward: 4-6 and 8-10. Backward of the second needs
    its weights again: the gather is issued while it computes forward (8-12), backward 12-16, then the first
    layer's gather, issued when the second's backward starts (12-16). Its backward: 16-20. The second's
    reduce-scatter 16-20, the first's 20-24.
    """
    weights = Communication(Kind.ALLGATHER, 4 * MB, "fsdp")
    back = Pass(1, Communication(Kind.REDUCE_SCATTER, 4 * MB, "fsdp"))
    layers = [Layer(name, Pass(2), Pass(3), back, weights=weights) for name in ("first", "second")]
    made = played(toy(*layers, fsdp=2))
    assert made.seconds == pytest.approx(24)
    assert made.compute == pytest.approx(12)
    assert made.weights == pytest.approx(12)


def test_fsdp_without_prefetching_overlaps_nothing() -> None:
    """All is one after the other: four gathers and two reduce-scatters of 4 s, 12 s of compute."""
    weights = Communication(Kind.ALLGATHER, 4 * MB, "fsdp")
    back = Pass(1, Communication(Kind.REDUCE_SCATTER, 4 * MB, "fsdp"))
    layers = [Layer(name, Pass(2), Pass(3), back, weights=weights) for name in ("first", "second")]
    assert played(toy(*layers, fsdp=2), prefetch=0).seconds == pytest.approx(36)


def test_tensor_parallel_collectives_are_on_the_critical_path() -> None:
    """Forward 1 + 2, backward 3 + 2 + 1 s, twice."""
    summed = Communication(Kind.ALLREDUCE, 2 * MB, "tp")
    layer = Layer("layer", Pass(1, summed), Pass(3, summed), Pass(1))
    made = played(toy(layer, layer, tp=2))
    assert made.seconds == pytest.approx(18)
    assert (made.compute, made.activations) == (pytest.approx(10), pytest.approx(8))


def test_all_to_all_waits_for_an_allreduce_on_the_same_network() -> None:
    """The second layer's gradient is reduced at 4-9; the first's all-to-all, ready at 6, runs 9-10."""
    moved = Communication(Kind.ALL_TO_ALL, MB, "ep")
    first, second = (
        Layer("first", Pass(1), Pass(2, moved), Pass(1)),
        Layer("second", Pass(1), Pass(1), gradient(5, 1.0)),
    )
    workload = toy(first, second, dp=2, ep=2)
    plan = Plan(Fraction(0))
    shared = iterate(workload, second_a_megabyte, lambda group: "network", plan)
    assert shared.seconds == pytest.approx(11)
    assert iterate(workload, second_a_megabyte, lambda group: group, plan).seconds == pytest.approx(9)


def pipeline(stages: int, microbatches: int, chunks: int = 1) -> Workload:
    layer = Layer("layer", Pass(1), Pass(1), Pass(1))
    count = stages * chunks
    return Workload("toy", (layer,) * count, Parallelism(pp=stages), microbatches, chunks=chunks)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("stages", "microbatches"), [(2, 1), (4, 2), (4, 8)])
def test_a_pipeline_by_hand(schedule: str, stages: int, microbatches: int) -> None:
    """(m + p - 1)(f + b) with f = 1 and b = 2: a bubble of p - 1 microbatches, in both schedules."""
    made = played(pipeline(stages, microbatches), schedule=schedule)
    assert made.seconds == pytest.approx(3 * (microbatches + stages - 1))
    assert made.bubble == pytest.approx(3 * (stages - 1))


@pytest.mark.parametrize(("stages", "microbatches", "chunks"), [(2, 4, 2), (4, 8, 2), (4, 8, 3)])
def test_interleaving_divides_the_bubble(stages: int, microbatches: int, chunks: int) -> None:
    """The bubble is (p - 1)(f + b)/v of a stage's whole layers (Narayanan et al. 2021, section 2.2)."""
    made = played(pipeline(stages, microbatches, chunks), schedule="interleaved")
    assert made.seconds == pytest.approx(3 * chunks * microbatches + 3 * (stages - 1))


def test_a_stage_sends_what_the_next_waits_for() -> None:
    """Two stages, one microbatch: 1, send 5, 1 and 2, send 5, 2."""
    workload = pipeline(2, 1)
    workload = Workload("toy", workload.layers, workload.parallelism, 1, 5 * MB)
    made = played(workload)
    assert made.seconds == pytest.approx(16)
    assert made.activations == pytest.approx(10)
    assert made.communication == {"pp": pytest.approx(5)}
    assert sum(one.label == Communication(SEND, 5 * MB, "pp") for one in made.operations) == 2


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "interleaved"])
def test_every_part_of_every_microbatch_runs_once(schedule: str) -> None:
    chunks = 2 if schedule == "interleaved" else 1
    for stage in range(4):
        order = list(stage_order(pipeline(4, 8, chunks), schedule, stage))
        every = {(phase, c, m) for phase in ("forward", "backward") for c in range(chunks) for m in range(8)}
        assert len(order) == len(every)
        assert set(order) == every


@pytest.mark.parametrize(
    ("workload", "schedule", "message"),
    [
        (
            pipeline(2, 3),
            "zero bubble",
            "option schedule is 'zero bubble'; allowed: 1f1b, gpipe, interleaved",
        ),
        (
            pipeline(2, 3),
            "interleaved",
            "1 chunks a stage; only interleaved has several, and it needs 2 or more",
        ),
        (pipeline(2, 3, 2), "interleaved", "3 microbatches don't divide over 2 stages, as interleaved needs"),
    ],
)
def test_a_schedule_that_does_not_fit_is_refused(workload: Workload, schedule: str, message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        played(workload, schedule=schedule)


def test_operations_in_a_circle_are_refused() -> None:
    with pytest.raises(InputError, match=r"^operations wait for each other in a circle, at a$"):
        OperationGraph([Operation("a", "x", 1.0, ("b",)), Operation("b", "y", 1.0, ("a",))])


def test_parts_have_nearly_equal_compute() -> None:
    """Cut where the sum of the compute is nearest; none is empty, even where nothing computes."""
    layers = [Layer(str(number), Pass(seconds)) for number, seconds in enumerate((0, 2, 2, 2, 2, 1))]
    assert [len(part) for part in parts_of(layers, 2)] == [3, 3]
    assert [len(part) for part in parts_of([Layer("a")] * 3, 3)] == [1, 1, 1]


def test_chunks_on_one_stage_send_nothing() -> None:
    """Two layers as two chunks of one stage that is no pipeline: 2 x (1 + 2) s, and no network is asked."""
    layer = Layer("layer", Pass(1), Pass(1), Pass(1))
    work = replace(toy(layer, layer), chunks=2, boundary=Fraction(8))
    made = played(work, schedule="interleaved")
    assert made.seconds == pytest.approx(6)
    assert made.communication == {}
