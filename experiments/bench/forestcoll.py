"""ForestColl up to 4,096 GPUs, the cut by Newton's method; `experiments.bench.cut` times both searches."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.bench.making import GIGA, make
from experiments.bench.measurement import Measurement, at_most, exactly
from models.bounds.bottleneck_cut import bottleneck_cut
from schedules.cost import congestion

FORESTS = [f"dgx_a100:{2**i}" for i in range(8)] + [f"mi250:{2**i}" for i in range(7)]
"""Up to 1,024 GPUs each, as in the dissertation's Figure 4.14."""
LARGE_FORESTS = ["dgx_a100:512", "mi250:256"]
EXACT_FORESTS = ["dgx_a100:8", "mi250:4"]
"""64 GPUs each, by the exact algorithms alone."""
MOST_SECONDS = {"dgx_a100:128": 20.0, "mi250:64": 20.0}
PARTS = {"search_s": "search", "removal_s": "switch removal", "packing_s": "trees", "build_s": "schedule"}


def bench_forestcoll() -> Iterator[Measurement]:
    """Verified schedules of optimal congestion, and the exact algorithms against the guesses."""
    for text in ("mi250:1", "dgx_a100:2"):
        make(text, "forestcoll")
        make(text, "forestcoll", fast=False)
    for text in FORESTS:
        yield from _forest(text)
    for text in EXACT_FORESTS:
        made = (
            make(text, "forestcoll", search="newton"),
            make(text, "forestcoll", search="newton", fast=False),
        )
        fast, exact = (one.synth_s + one.verify_s for one in made)
        yield at_most("forestcoll", text, "exact algorithms alone, s", exact, 60.0)
        yield Measurement("forestcoll", text, "times as long as with guesses", exact / fast)


def bench_forestcoll_large() -> Iterator[Measurement]:
    """4,096 GPUs."""
    make("mi250:1", "forestcoll")
    make("dgx_a100:2", "forestcoll")
    for text in LARGE_FORESTS:
        yield from _forest(text)


def _forest(text: str) -> Iterator[Measurement]:
    made = make(text, "forestcoll", search="newton")
    schedule, stats, seconds = made.schedule, made.schedule.stats, made.synth_s + made.verify_s
    case = f"{text}, {schedule.topology.num_ranks} GPUs"
    bound = bottleneck_cut(schedule.topology).ratio / schedule.topology.num_ranks
    yield exactly("forestcoll", case, "congestion, s/GB", congestion(schedule) * GIGA, bound * GIGA)
    yield Measurement("forestcoll", case, "trees a root", stats["trees"])
    yield Measurement("forestcoll", case, "height", stats["height"])
    yield Measurement("forestcoll", case, "mean height", stats["mean_height"])
    for name, word in PARTS.items():
        yield Measurement("forestcoll", case, f"{word}, s", stats[name])
    yield Measurement("forestcoll", case, "verification, s", made.verify_s)
    if text in MOST_SECONDS:
        yield at_most("forestcoll", case, "all, s", seconds, MOST_SECONDS[text])
    else:
        yield Measurement("forestcoll", case, "all, s", seconds)
