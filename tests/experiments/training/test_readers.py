"""Files of SimAI and Calculon: small ones made here, and the real samples where they are."""

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tutti.experiments.training.iteration import Iteration, Job, Plan, iterate
from tutti.experiments.training.readers import FIRST, read_calculon, read_simai
from tutti.experiments.training.workload import SEND, Communication, Parallelism, Pass
from tutti.schedules.collective import Kind
from tutti.topologies.errors import InputError

SAMPLES = Path(__file__).parents[4] / "shared" / "samples" / "workloads"
needs_samples = pytest.mark.skipif(not SAMPLES.exists(), reason="no ../shared/samples/workloads")

HEAD = f"{FIRST} model_parallel_NPU_group: 2 ep: 2 pp: 1 vpp: 1 ga: 1 all_gpus: 8 checkpoints: 0"
ROWS = (
    "attention -1 1000 ALLREDUCE 4096 2000 ALLREDUCE 4096 1500 ALLREDUCE 8192 100",
    "experts   -1 3000 ALLTOALL_EP 1024 3000 ALLTOALL_EP 1024 3000 REDUCESCATTER_DP_EP 2048 0",
)


def simai(folder: Path, *rows: str, head: str = HEAD, count: str | None = None) -> Path:
    path = folder / "work.txt"
    path.write_text("\n".join([head, count or str(len(rows)), *rows]) + "\n")
    return path


def test_a_simai_file_is_read(tmp_path: Path) -> None:
    """Nanoseconds; tp for activations, dp for gradients, ep and its replicas by the suffix."""
    workload = read_simai(simai(tmp_path, *ROWS))
    assert workload.parallelism == Parallelism(tp=2, dp=4, ep=2)
    attention, experts = workload.layers
    summed = Communication(Kind.ALLREDUCE, Fraction(4096), "tp")
    assert attention.forward == Pass(1000 * 1e-9, summed)
    assert attention.weight_gradient.communication == Communication(Kind.ALLREDUCE, Fraction(8192), "dp")
    assert attention.update == pytest.approx(1e-7)
    assert experts.forward.communication == Communication(Kind.ALL_TO_ALL, Fraction(1024), "ep")
    assert experts.weight_gradient.communication == Communication(Kind.REDUCE_SCATTER, Fraction(2048), "edp")


@pytest.mark.parametrize(
    ("rows", "head", "message"),
    [
        (("a -1 1 ALLREDUSE 4 1 NONE 0 1 NONE 0 1",), HEAD, "line 3: unknown collective 'ALLREDUSE'"),
        (("a -1 1 ALLREDUCE 4 1 NONE 0 1 NONE 0",), HEAD, "line 3: 11 words; a layer has 12"),
        (
            ("a -1 1.5 NONE 0 1 NONE 0 1 NONE 0 1",),
            HEAD,
            "forward time is '1.5'; it is a whole number",
        ),
        (
            ("a -1 1 NONE 0 1 NONE 0 1 ALLREDUCE -4 1",),
            HEAD,
            "line 3: wg bytes is '-4'",
        ),
        (("a -1 1 ALLREDUCE nan 1 NONE 0 1 NONE 0 1",), HEAD, "line 3: forward bytes is 'nan'"),
        (
            ROWS,
            HEAD.replace("all_gpus: 8", "all_gpus: 9"),
            "tp x pp = 2 x 1 does not divide all_gpus = 9",
        ),
        (ROWS, HEAD.replace("ep: 2", "ep: 3"), "ep = 3 does not divide the 4 ranks that share the batch"),
        (ROWS, HEAD.replace("all_gpus: 8", ""), "line 1: no all_gpus; say parallel = {tp = 2, dp = ...}"),
        (ROWS, "MICRO", f"no SimAI workload; its first word would be {FIRST}"),
        ((), HEAD, "0 layers; 1 to 100000 are allowed"),
        (
            ROWS,
            HEAD.replace("pp: 1 vpp: 1 ga: 1", "pp: 2 vpp: 1 ga: 2"),
            "line 1: ga = 2, but its rows are not those of so many microbatches alike",
        ),
        (ROWS * 3, HEAD.replace("pp: 1 vpp: 1 ga: 1", "pp: 2 vpp: 9 ga: 3"), "but only 2 layers"),
        (
            ROWS,
            HEAD.replace("pp: 1 vpp: 1 ga: 1", "pp: 2 vpp: 1 ga: 0"),
            "option microbatches is 0; it must be a whole number, 1 to 100000",
        ),
    ],
)
def test_what_is_wrong_with_a_simai_file_is_one_line(
    tmp_path: Path, rows: tuple[str, ...], head: str, message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)) as error:
        read_simai(simai(tmp_path, *rows, head=head))
    assert "\n" not in str(error.value)


def test_groups_must_multiply_to_the_file_s_ranks(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"line 1: tp x dp x pp = 4, but all_gpus = 8$"):
        read_simai(simai(tmp_path, *ROWS), Parallelism(tp=2, dp=2, ep=2))


PIPELINE = HEAD.replace("model_parallel_NPU_group: 2 ep: 2", "model_parallel_NPU_group: 1 ep: 1")
PIPELINE = PIPELINE.replace("pp: 1 vpp: 1 ga: 1 all_gpus: 8", "pp: 2 vpp: 1 ga: 2 all_gpus: 2 pp_comm: 0")
STAGE = ("once -1 0 NONE 0 500 NONE 0 0 NONE 0 100", *("row -1 1000 NONE 0 1000 NONE 0 1000 NONE 0 0",) * 2)


def test_a_simai_file_of_several_stages_is_a_pipeline(tmp_path: Path) -> None:
    """1F1B by hand, in us: the second stage F 1-2, B 2-4, F 4-5, B 5-7, once to 7.5; the first F 0-1, F 1-2,
    B 4-6, B 7.5-9.5, once to 10, update to 10.1. A stage computes 6.6.
    """
    workload = read_simai(simai(tmp_path, *STAGE, head=PIPELINE))
    assert (workload.parallelism, workload.microbatches) == (Parallelism(pp=2), 2)
    made = iterate(workload, lambda what: 0.0, str, Plan())
    assert made.seconds == pytest.approx(10.1e-6)
    assert (made.compute, made.bubble) == (pytest.approx(6.6e-6), pytest.approx(3.5e-6))
    assert workload.taking(1.0).seconds == pytest.approx(1.0)


def test_stages_send_what_the_file_says(tmp_path: Path) -> None:
    """Two microbatches go forward and back once each."""
    head = PIPELINE.replace("pp_comm: 0", "pp_comm: 4096")
    workload = read_simai(simai(tmp_path, *STAGE, head=head))
    assert workload.boundary == 4096
    made = iterate(workload, lambda what: 1e-6 if what.kind == SEND else 0.0, str, Plan())
    assert sum(one.seconds for one in made.operations if isinstance(one.label, Communication)) == 4e-6
    assert made.seconds > 10.1e-6


def test_chunks_of_a_stage_are_interleaved(tmp_path: Path) -> None:
    """Two rows a microbatch, one a chunk: the bubble is half as long (Narayanan et al. 2021, 2.2)."""
    head = PIPELINE.replace("vpp: 1", "vpp: 2")
    workload = read_simai(simai(tmp_path, *STAGE[1:] * 2, head=head))
    made = iterate(workload, lambda what: 0.0, str, Plan(schedule="interleaved"))
    assert (made.compute, made.bubble) == (pytest.approx(12e-6), pytest.approx(3e-6))


@needs_samples
@pytest.mark.parametrize(("name", "rows"), [("aicb_gpt13b_tp8", 92), ("aicb_llama65b_tp8", 33)])
def test_aicbs_files_are_read(name: str, rows: int) -> None:
    """The count in the second one's line 2, 839, is wrong: the note says so."""
    workload = read_simai(SAMPLES / f"{name}.txt", Parallelism(tp=8, dp=4))
    assert len(workload.layers) == rows
    assert ("line 2 says 839" in workload.source) == (name == "aicb_llama65b_tp8")


MODEL = {"hidden": 8, "feedforward": 16, "seq_size": 4, "attn_heads": 2, "attn_size": 4, "num_blocks": 2}
SYSTEM: dict[str, Any] = {
    "matrix": {"float16": {"tflops": 1e-6, "gflops_efficiency": [[0, 1.0]]}},
    "vector": {"float16": {"tflops": 1e6, "gflops_efficiency": [[0, 1.0]]}},
    "mem1": {"GiB": 1, "GBps": 1e9, "MB_efficiency": [[0, 1.0]]},
    "processing_mode": "no_overlap",
    "networks": [
        {
            "bandwidth": 1e-6,
            "efficiency": 0.5,
            "size": 8,
            "latency": 0.25,
            "ops": {
                "p2p": [1.0, None],
                "reduce_scatter": [1.0, -1],
                "all_gather": [1.0, -1],
                "all_reduce": [2.0, -1],
            },
        }
    ],
}
EXECUTION: dict[str, Any] = {
    "num_procs": 2,
    "tensor_par": 2,
    "pipeline_par": 1,
    "data_par": 1,
    "tensor_par_net": 0,
    "pipeline_par_net": 0,
    "data_par_net": 0,
    "batch_size": 3,
    "microbatch_size": 1,
    "datatype": "float16",
    "activation_recompute": "none",
    "pipeline_interleaving": 1,
    "optimizer_sharding": False,
    "tensor_par_comm_type": "ar",
}


def calculon(folder: Path, **changes: dict[str, Any]) -> list[Path]:
    parts = {"model": MODEL, "system": SYSTEM, "execution": EXECUTION}
    paths = []
    for name, values in parts.items():
        paths.append(folder / f"{name}.json")
        paths[-1].write_text(json.dumps(values | changes.get(name, {})))
    return paths


def played(job: Job) -> Iteration:
    return iterate(job.workload, lambda what: job.networks[what.group].time(what), str, job.plan)


def test_a_calculon_job_takes_what_a_calculation_by_hand_says(tmp_path: Path) -> None:
    """Products at 10^6 FLOPS, everything else free: three microbatches of two blocks of 4 tokens.

    Weights a rank: 4 x 8 x 4 (attention) + 2 x 8 x 8 = 256, hence 2 x 256 x 4 = 2,048 operations forward and
    twice that backward; scores and values 2 x 2 x 4 x 4 x 4 = 256 forward (one head a rank), twice that
    backward. Four allreduces a block of 4 x 8 x 2 = 64 bytes: 0.25 s and 2 (1 - 1/2) 64 bytes at 500 B/s.
    """
    job = read_calculon(*calculon(tmp_path))
    made = iterate(
        job.workload, lambda what: job.networks[what.group].time(what), lambda group: group, job.plan
    )
    compute = 3 * 2 * 3 * (2048 + 256) / 1e6
    communication = 3 * 2 * 4 * (0.25 + 64 / 500)
    assert made.compute == pytest.approx(compute, rel=1e-6)
    assert made.seconds == pytest.approx(compute + communication, rel=1e-6)


def test_recomputing_adds_a_forward_pass_and_its_collectives(tmp_path: Path) -> None:
    job = read_calculon(*calculon(tmp_path, execution={"activation_recompute": "full"}))
    made = iterate(
        job.workload, lambda what: job.networks[what.group].time(what), lambda group: group, job.plan
    )
    assert made.compute == pytest.approx(3 * 2 * 4 * (2048 + 256) / 1e6, rel=1e-6)
    assert made.activations == pytest.approx(3 * 2 * 6 * (0.25 + 64 / 500), rel=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"execution": {"num_procs": 3}}, "tp x pp x dp x fsdp = 2 x 1 x 1 x 1 = 2, but there are 3 ranks"),
        ({"execution": {"datatype": "int3"}}, "datatype 'int3'; one of float8, float16, bfloat16, float32"),
        ({"execution": {"weight_offload": True}}, "'weight_offload' must be False"),
        (
            {"execution": {"tensor_par_comm_type": "p2p_rs_ag"}},
            "'tensor_par_comm_type' must be 'ar' or 'rs_ag'",
        ),
        ({"execution": {"tensor_par": 4, "num_procs": 4}}, "tensor_par 4 does not divide attn_heads"),
        (
            {"execution": {"microbatch_size": 2}},
            "batch_size 3 is no multiple of data_par x",
        ),
        ({"execution": {"tensor_par_net": 5}}, "no network 5; it has 1"),
        ({"model": {"hidden": -8}}, "'hidden' must be greater than 0, not -8"),
        ({"model": {"hidden": "8"}}, "'hidden' must be a valid integer, not '8'"),
        ({"system": {"matrix": {}}}, "matrix has no float16"),
        (
            {"system": {"mem1": {"GBps": 1.0, "MB_efficiency": [[0, 2.0]]}}},
            "'mem1' must be less than or equal to 1, not 2.0",
        ),
    ],
)
def test_what_is_wrong_with_calculons_files_is_one_line(
    tmp_path: Path, changes: dict[str, dict[str, Any]], message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)) as error:
        read_calculon(*calculon(tmp_path, **changes))
    assert "\n" not in str(error.value)


@needs_samples
@pytest.mark.parametrize(
    ("model", "seconds"),
    [
        # Megatron-LM on A100s, which Calculon validates against: Korthikanti et al. 2022, Table 5
        ("megatron-22B", 1.42),
        ("gpt3-175B", 18.13),
    ],
)
def test_calculons_validation_runs_are_within_a_tenth_of_the_machine(model: str, seconds: float) -> None:
    files = (f"calculon_{model}", "calculon_a100_80g", f"calculon_{model}_full")
    job = read_calculon(*(SAMPLES / f"{name}.json" for name in files))
    made = iterate(
        job.workload, lambda what: job.networks[what.group].time(what), lambda group: group, job.plan
    )
    assert made.seconds == pytest.approx(seconds, rel=0.1)
    if job.workload.parallelism.pp > 1:
        assert any(one.label.kind == SEND for one in made.operations if isinstance(one.label, Communication))
