"""The portfolio: the fastest of the schedules that its methods make one by one, within its budget."""

import re
import signal
import time
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import tutti
from tutti.experiments.methods import best as best_module
from tutti.experiments.methods.best import HALVES, ORDER, portfolio
from tutti.experiments.registry import METHODS
from tutti.experiments.result import Result
from tutti.experiments.runner import tasks
from tutti.models.bounds import best_bound, found_bounds, report
from tutti.schedules import Problem, collective
from tutti.schedules.collective import Kind
from tutti.schedules.groups import limited
from tutti.schedules.method import Method
from tutti.schedules.simulation.simulate import best_slices
from tutti.schedules.verify import verify
from tutti.topologies import InputError, NoSchedule, Unsupported
from tutti.topologies.apart import Apart
from tutti.topologies.errors import Interrupted
from tutti.topologies.interruption import within
from tutti.topologies.kernels import COMPILATION
from tutti.topologies.progress import listening, tell
from tutti.topologies.text import parse_topology
from tutti.topologies.units import parse_time

QUICK = ("ring", "direct", "bfb", "rhd", "recursive_doubling")


def problem(text, kind, size):
    topology = parse_topology(text)
    rooted = {"root": 0} if kind == "broadcast" else {}
    return Problem(topology, collective(kind, topology.num_ranks, **rooted), Fraction(size))


def best(task, **options):
    method = METHODS["best"]
    return method.synthesize(task, method.options(**options), np.random.default_rng(0))


@pytest.mark.parametrize("text", ["ring:4", "complete:4", "torus:3x3", "dgx_a100:1"])
@pytest.mark.parametrize("size", [2**10, 2**30])
def test_it_is_as_fast_as_the_fastest_of_its_methods(text, size):
    task = problem(text, "allreduce", size)
    chosen = best(task, methods=QUICK, stop_at_gap=0)
    verify(chosen)
    times = {}
    for name in QUICK:
        method = METHODS[name]
        try:
            method.supports(task, method.options())
        except Unsupported:
            continue
        schedule = method.synthesize(task, method.options(), np.random.default_rng(0))
        times[name] = best_slices(schedule, task.size)[1]
    assert best_slices(chosen, task.size)[1] == min(times.values())
    assert times[chosen.stats["algorithm"]] == min(times.values())


def test_what_improves_schedules_is_handed_the_fastest():
    handed = []

    def improve(task, schedule, options, rng):
        tell(f"handed {schedule.stats['algorithm']}")
        return schedule

    polish = replace(METHODS["ring"], name="polish", improve=improve)
    entries = {"direct": METHODS["direct"], "ring": METHODS["ring"], "polish": polish}
    method = portfolio(entries)
    options = method.options(methods=("direct", "ring", "polish", "direct"), stop_at_gap=0)
    with listening(handed.append):
        method.synthesize(problem("ring:6", "allgather", 2**30), options, np.random.default_rng(0))
    # direct sends every shard three times as often
    assert [text for text in handed if "handed" in text] == ["handed ring"]


@pytest.mark.parametrize("size", [2**10, 2**20])
def test_an_allreduce_through_switches_is_also_composed_of_the_fastest_halves(size):
    methods = ("direct", "ring", "tto")
    halves = [
        best(problem("dgx_a100:2", kind, size), methods=methods) for kind in ("reduce-scatter", "allgather")
    ]
    whole = best(problem("dgx_a100:2", "allreduce", size), methods=methods, stop_at_gap=0)
    verify(whole)
    assert [one.method for one in whole.stats["tried"]] == ["direct", "ring", HALVES, "tto"]
    (composed,) = (one.seconds for one in whole.stats["tried"] if one.method == HALVES)
    assert composed <= sum(best_slices(half, Fraction(size))[1] for half in halves) * (1 + 1e-9)
    assert best_slices(whole, Fraction(size))[1] <= composed


def test_a_composed_schedule_names_the_makers_of_its_halves():
    """Where the fastest method makes allgathers alone."""

    def gathers(task, options, rng):
        if task.collective.kind is Kind.ALLREDUCE:
            raise NoSchedule("no allreduces")
        return METHODS["direct"].synthesize(task, options, rng)

    direct = replace(METHODS["direct"], synthesize=gathers)
    method = portfolio({"ring": METHODS["ring"], "direct": direct, "tto": METHODS["tto"]})
    options = method.options(methods=("ring", "direct", "tto"), stop_at_gap=0)
    found = method.synthesize(problem("dgx_a100:2", "allreduce", 1000), options, np.random.default_rng(0))
    assert found.stats["algorithm"] == f"{HALVES}: direct, direct"


def test_what_halves_say_of_groups_is_not_said_of_the_whole():
    """Two allreduces side by side: the times alone are those of a whole one."""
    topology = parse_topology("dgx_a100:2")
    groups = [list(range(8)), list(range(8, 16))]
    task = Problem(topology, collective("allreduce", 16, groups=groups), Fraction(2**20))
    plain, composed = (best(task, methods=names, stop_at_gap=0) for names in (("ring",), ("ring", "tto")))
    assert HALVES in [one.method for one in composed.stats["tried"]]
    assert composed.stats["alone"] == plain.stats["alone"]


def test_a_half_gets_no_more_than_its_time():
    def slow(task, options, rng):
        if task.collective.kind is Kind.ALLGATHER:
            time.sleep(5)
        return METHODS["ring"].synthesize(task, options, rng)

    method = portfolio({"ring": replace(METHODS["ring"], synthesize=slow), "tto": METHODS["tto"]})
    options = method.options(methods=("ring", "tto"), stop_at_gap=0, time_limit="1s")
    began = time.monotonic()
    found = method.synthesize(problem("dgx_a100:2", "allreduce", 2**20), options, np.random.default_rng(0))
    assert time.monotonic() - began < 5
    (why,) = (one.why for one in found.stats["tried"] if one.method == HALVES)
    assert why == "a part has no schedule: allgather"


def test_without_switches_no_halves_are_composed():
    tried = best(problem("ring:5", "allreduce", 2**20), methods=("ring", "min_latency"), stop_at_gap=0).stats[
        "tried"
    ]
    assert [one.method for one in tried] == ["ring", "min_latency"]


def test_sizes_switch_over():
    """On a cube: 3 exchanges of M take 3 (α + M/b), the best of the others 6 α + 7/12 M/b."""
    small, large = (best(problem("hypercube:3", "allreduce", size), methods=QUICK) for size in (2**10, 2**30))
    assert small.stats["algorithm"] == "recursive_doubling"
    assert large.stats["algorithm"] == "bfb"


@pytest.mark.parametrize("text", ["ring:8", "torus:4x4", "hypercube:3", "complete:8"])
def test_allgather_of_a_kilobyte_is_within_a_tenth_of_its_bound(text, clock):
    task = problem(text, "allgather", 2**10)
    bound = best_bound(task.topology, task.collective, task.size)
    assert best_slices(best(task, time_limit="12s"), task.size)[1] <= 1.1 * float(bound.time(task.size))


@pytest.mark.parametrize(
    ("size", "first", "second"),
    [(2**10, "min_latency", "list_scheduling"), (2**30, "list_scheduling", "min_latency")],
)
def test_little_data_comes_before_few_messages_where_data_take_long(size, first, second):
    tried = best(problem("ring:5", "allreduce", size), time_limit="1ns", stop_at_gap=0).stats["tried"]
    names = [one.method for one in tried]
    assert names.index(first) < names.index(second)
    assert names[-1] == "local_search"


def test_variants_are_tried_too():
    """On a 4x4 torus the whole vector is exchanged in 4 steps, two of them over two links."""
    found = best(problem("torus:4x4", "allreduce", 2**10), methods=("ring", "swing"))
    assert found.stats["algorithm"] == "swing version=latency"
    assert [one.method for one in found.stats["tried"]] == ["ring", "swing", "swing version=latency"]


def test_mcf_is_asked_for_by_orbits_which_need_no_model():
    found = best(problem("torus:3x3", "all-to-all", 2**30), methods=("mcf",))
    assert METHODS["mcf"].fast == {"by": "orbits", "step_schedule": True}
    assert found.stats["algorithm"] == "mcf"
    assert "program" not in found.stats


def test_nothing_is_tried_once_the_bound_is_met():
    found = best(problem("complete:8", "allgather", 2**30), methods=("direct", "ring", "tacos"))
    assert [one.why for one in found.stats["tried"]] == ["", *["the proven bound is met"] * 3]


def test_nothing_is_tried_once_the_bound_is_near_enough():
    """Rings of 8: 7 α + 7/16 of M/B, and the bound has one α less for each of the 6 steps after the first."""
    task = problem("ring:8", "allgather", 2**30)
    methods = ("ring", "direct", "bfb")
    assert [one.why for one in best(task, methods=methods, stop_at_gap=2.0).stats["tried"][1:]] == [
        "near enough to the proven bound"
    ] * 2
    assert [one.why for one in best(task, methods=methods, stop_at_gap=0).stats["tried"]] == [""] * 3


def test_bounds_that_methods_prove_are_those_of_its_schedule():
    """What lengths of links prove of an all-to-all comes from `mcf`; the quick bounds are there before."""
    task = problem("mesh:4x4", "all-to-all", 2**10)
    found = best(task, methods=("shortest_path_all_to_all", "mcf"), stop_at_gap=0)
    assert found.stats["algorithm"] == "shortest_path_all_to_all"
    alone = METHODS["mcf"].synthesize(task, METHODS["mcf"].options(), np.random.default_rng(0))
    (own,) = alone.stats["bounds"]
    (kept,) = found.stats["bounds"]
    assert kept.kind == "mcf"
    assert kept.time(task.size) == own.time(task.size)
    assert found.stats["found"].bounds[0].kind == "cut"


def test_an_answer_finds_no_bound_a_second_time(monkeypatch):
    task = problem("torus:4x4", "all-to-all", 2**20)
    expected = best_bound(task.topology, task.collective, task.size)
    found = best(task, methods=("shortest_path_all_to_all", "mcf"), stop_at_gap=0)
    monkeypatch.setattr(report, "cut_bound", lambda *_: pytest.fail("the cut is found a second time"))
    monkeypatch.setitem(report.ELSEWHERE, "mcf", "none:none")
    report._finder.cache_clear()
    try:
        assert Result(found, Fraction(task.size), "best").bound.proof == expected
    finally:
        report._finder.cache_clear()


def test_bounds_found_beside_hold_for_their_problem_alone():
    """On links four times as fast the old bounds are too large; at another size they are too small."""
    task = problem("torus:4x4", "allgather", 2**20)
    made = best(task, methods=("bfb",))
    assert found_bounds(made).complete
    fast = parse_topology("torus:4x4?bandwidth=200GB/s&alpha=0.1us")
    assert found_bounds(made.replace(topology=fast)) is None
    for size in (Fraction(2**10), Fraction(2**24)):
        assert Result(made, size, "best").bound.proof == best_bound(task.topology, task.collective, size)


def test_what_has_no_schedule_is_passed_over_and_named_if_nothing_is_left():
    task = problem("ring:5", "allreduce", 2**10)
    tried = best(task, methods=("rhd", "ring")).stats["tried"]
    assert [one.method for one in tried] == ["rhd", "rhd distance=halving", "ring"]
    assert all("power of two" in one.why for one in tried[:2])
    with pytest.raises(NoSchedule, match=r"^best: no method has a schedule of this \(rhd: rhd needs a power"):
        best(task, methods=("rhd",))


def test_a_budget_that_is_over_tries_no_other_method():
    tried = best(problem("ring:5", "allreduce", 2**10), methods=("ring", "direct"), time_limit="1ns").stats[
        "tried"
    ]
    assert [one.why for one in tried] == ["", "no time left"]


def test_a_method_that_takes_too_long_is_ended_and_the_next_one_tried():
    """Of two seconds it has a half."""

    def synthesize(task, options, rng):
        time.sleep(20)

    slow = Method("slow", "heuristic", synthesize)
    methods = {"ring": METHODS["ring"], "slow": slow, "direct": METHODS["direct"]}
    method = portfolio(methods)
    options = method.options(time_limit="2s", methods=tuple(methods), stop_at_gap=0)
    began = time.monotonic()
    found = method.synthesize(problem("ring:6", "allgather", 2**30), options, np.random.default_rng(0))
    assert [one.why for one in found.stats["tried"]] == ["", "out of time", ""]
    assert time.monotonic() - began < 2


def test_the_first_has_a_limit_too_and_the_next_one_a_schedule(monkeypatch):
    monkeypatch.setattr(best_module, "BUDGET", best_module.BUDGET._replace(least_overtime=2.0))

    def synthesize(task, options, rng):
        time.sleep(60)

    methods = {"slow": Method("slow", "heuristic", synthesize), "ring": METHODS["ring"]}
    method = portfolio(methods)
    options = method.options(time_limit="300ms", methods=tuple(methods), stop_at_gap=0)
    began = time.monotonic()
    found = method.synthesize(problem("ring:6", "allgather", 2**30), options, np.random.default_rng(0))
    assert [one.why for one in found.stats["tried"]] == ["out of time", ""]
    assert time.monotonic() - began < 20


def test_the_overtime_ends(monkeypatch):
    monkeypatch.setattr(best_module, "BUDGET", best_module.BUDGET._replace(least_overtime=0.2))

    def synthesize(task, options, rng):
        time.sleep(60)

    methods = {name: Method(name, "heuristic", synthesize) for name in ("slow", "slower", "slowest", "last")}
    method = portfolio(methods)
    options = method.options(time_limit="100ms", methods=tuple(methods))
    began = time.monotonic()
    with pytest.raises(
        NoSchedule, match="no method has a schedule of this in 100ms and overtime; give it a longer"
    ):
        method.synthesize(problem("ring:6", "allgather", 2**30), options, np.random.default_rng(0))
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        *(("gen_kautz:4,64", "allreduce"), ("torus:8x8", "allgather"), ("L(C(8,{1,3}))", "allreduce")),
        *(("hypercube:4", "all-to-all"), ("ring:9", "allreduce"), ("dgx_a100:4", "allreduce")),
    ],
)
def test_the_first_that_is_tried_is_that_of_the_least_closed_form(text, kind):
    task = problem(text, kind, 2**20)
    estimates = {}
    for name, method in METHODS.items():
        options = method.options(**method.fast)
        with suppress(Unsupported):
            method.supports(task, options)
            estimates[name] = method.estimate and method.estimate(task, options)
    told = {name: seconds for name, seconds in estimates.items() if seconds is not None and name in ORDER}
    first = best(task, time_limit="1ns", stop_at_gap=0).stats["tried"][0].method.split()[0]
    assert told[first] == min(told.values())


def test_what_is_much_slower_in_closed_form_is_left_out():
    """A ring of 64 takes 126 α of allreduce, and the network has a diameter of 3: 6 α."""
    tried = best(problem("gen_kautz:4,64", "allreduce", 2**10), time_limit="2s").stats["tried"]
    (why,) = (one.why for one in tried if one.method == "ring")
    assert re.fullmatch(r"its closed form is [\d.]+ times the fastest so far", why)
    named = best(problem("gen_kautz:4,64", "allreduce", 2**10), methods=("bfb", "ring"), stop_at_gap=0).stats[
        "tried"
    ]
    assert [(one.method, one.why) for one in named] == [("bfb", ""), ("ring", "")]  # who names it gets it


def test_progress_says_which_part_it_is_of():
    heard = []
    with listening(heard.append):
        best(problem("dgx_a100:2", "allreduce", 2**20), methods=("direct", "ring", "tto"), stop_at_gap=0)
    parts = [text for text in heard if "alone" in text]
    assert parts[0].startswith("the reduce-scatter alone: direct; the whole so far ")
    assert re.match(r"the reduce-scatter alone: ring; the reduce-scatter alone so far .* by direct", parts[1])
    assert any(text.startswith("the allgather alone: direct; the whole so far") for text in parts)
    assert all(
        re.match(r"(direct|ring|tto)(; so far .* by (direct|ring).*)?$", each)
        for each in heard
        if each not in parts
    )


def test_bounds_that_take_too_long_are_found_beside_the_methods(monkeypatch):
    """With no time before the first method, all bounds come from beside."""
    budget = best_module.BUDGET._replace(proving=1.0, least_seconds=1e-6)
    monkeypatch.setattr(best_module, "BUDGET", budget)
    monkeypatch.setattr(best_module, "within", lambda seconds: within(1e-6))
    task = problem("ring:4", "all-to-all", 10**9)
    found = best(task, methods=("mcf",), time_limit="5s", stop_at_gap=0).stats["found"]
    exact = best_bound(task.topology, task.collective, task.size)
    assert found.complete
    assert {"cut", "mcf", "distance"} <= {bound.kind for bound in found.bounds}
    assert max(bound.time(task.size) for bound in found.bounds) == exact.time(task.size)


def test_bounds_that_take_too_long_are_ended(monkeypatch):
    def proving(topology, what, size, *further):
        yield best_bound(topology, what, size)
        while True:
            time.sleep(0.01)

    monkeypatch.setattr("tutti.experiments.methods.best.each_bound", proving)
    found = best(problem("ring:6", "allgather", 2**30), methods=("direct", "bfb", "ring"), time_limit="1s")
    assert [one.why for one in found.stats["tried"]] == ["", "", "near enough to the proven bound"]


def test_a_budget_that_is_over_still_lets_the_first_that_is_able_make_a_schedule():
    task, methods = problem("ring:5", "allreduce", 2**10), ("rhd", "ring", "direct")
    tried = best(task, methods=methods, time_limit="1ns").stats["tried"]
    assert [one.method for one in tried if not one.why] == ["ring"]
    assert tried[-1].why == "no time left"


@pytest.mark.parametrize("name", ["list_scheduling", "allreduce_lp", "taccl"])
@pytest.mark.parametrize(("left", "given"), [(0.5, 0.5), (10**6, None)])
def test_a_method_with_a_time_limit_gets_no_more_than_is_left(name, left, given):
    own = METHODS[name].options()
    limit = limited(own, left).time_limit
    seconds = float(parse_time(limit)) if isinstance(limit, str) else limit
    if given is not None:
        assert seconds == given
    elif own.time_limit is None:
        assert seconds == left
    else:
        assert limit == own.time_limit or seconds == float(parse_time(own.time_limit))


def test_trees_are_listed_where_that_is_faster():
    """Slices of equal length take 2 sqrt(α T / 2) = 3.2 % longer than T there; a list schedule does not."""
    task = problem("dragonfly:4x5?bandwidth=400GB/s,200GB/s", "allgather", 10**9)
    chosen = best(task, methods=("multitree", "list_scheduling"), time_limit="8s")
    verify(chosen)
    assert chosen.stats["algorithm"] == "list_scheduling"
    bound = best_bound(task.topology, task.collective, task.size)
    assert best_slices(chosen, task.size)[1] <= 1.02 * float(bound.time(task.size))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time_limit": "0s"}, "best option time_limit is '0s'; it must be positive"),
        ({"time_limit": "soon"}, "soon"),
        ({"stop_at_gap": -0.1}, "best option stop_at_gap is -0.1; it must be 0 or more, such as 0.005"),
        ({"methods": "ring"}, "best option methods is 'ring'; it must be a list of names"),
        ({"methods": [1]}, r"best option methods is \[1\]; it must be a list of names"),
    ],
)
def test_bad_options_are_one_line(options, message):
    with pytest.raises(InputError, match=message):
        METHODS["best"].options(**options)


def test_an_unknown_method_is_named():
    with pytest.raises(InputError, match="best option methods: unknown method 'rings'; did you mean 'ring'"):
        best(problem("ring:5", "allreduce", 2**10), methods=("rings",))


def test_a_portfolio_of_other_methods_has_only_those():
    only = portfolio({"ring": METHODS["ring"]})
    schedule = only.synthesize(problem("ring:5", "allgather", 9), only.options(), np.random.default_rng(0))
    assert [one.method for one in schedule.stats["tried"]] == ["ring"]


def test_what_it_tries_by_default_are_methods_each_once_and_what_improves_them_again_at_last():
    assert set(ORDER) <= set(METHODS)
    assert len(set(ORDER)) == len(ORDER) - 1
    assert ORDER[-1] == "local_search"


def test_channels_of_machines_are_within_a_twentieth_of_the_bound_of_allreduce():
    """2 boxes of 8 A100 at 1 GB: every adapter carries an eighth each way, the inside 28/16 of M."""
    task = problem("dgx_a100:2", "allreduce", 10**9)
    chosen = best(task, methods=("ring", "dbt", "nccl_like"))
    assert chosen.stats["algorithm"] == "nccl_like"
    bound = best_bound(task.topology, task.collective, task.size)
    assert best_slices(chosen, task.size)[1] <= 1.05 * float(bound.time(task.size))


def test_a_method_whose_trees_would_be_too_many_is_passed_over():
    """These bandwidths would take 10^6 trees a root at the optimum; one tree a root does with less."""
    topology = parse_topology("mesh:2x4?bandwidth=1GiB/s,123456789B/s")
    problem = Problem(topology, collective("allgather", 8), Fraction(10**6))
    options = METHODS["best"].options(methods=("forestcoll", "blink", "direct"))
    found = METHODS["best"].synthesize(problem, options, np.random.default_rng(0))
    assert found.stats["algorithm"] in ("direct", "forestcoll trees=1")
    assert [one.method for one in found.stats["tried"] if "trees" in one.why] == ["forestcoll", "blink"]


def falls(problem, options, rng):
    raise OverflowError("too large to convert")


def lies(problem, options, rng):
    """A ring without its last step."""
    schedule = METHODS["ring"].synthesize(problem, METHODS["ring"].options(), rng)
    kept = np.flatnonzero(schedule.order < schedule.order.max())
    return schedule.replace(
        chunk=schedule.chunk[kept], route=schedule.route[kept], order=schedule.order[kept], count=None
    )


@pytest.mark.parametrize(
    ("synthesize", "why"),
    [
        (falls, "a fault: OverflowError: too large to convert"),
        (lies, "a fault: VerificationError: chunk 0 of rank 0's shard is missing"),
    ],
)
def test_a_fault_in_one_method_does_not_end_the_portfolio(synthesize, why):
    methods = {"ring": Method("ring", "heuristic", synthesize), "direct": METHODS["direct"]}
    method = portfolio(methods)
    task = Problem(parse_topology("ring:4"), collective("allgather", 4), Fraction(1000))
    found = method.synthesize(task, method.options(stop_at_gap=0), np.random.default_rng(0))
    assert found.stats["algorithm"] == "direct"
    assert found.stats["tried"][0].why.startswith(why)
    with pytest.raises(NoSchedule, match=f"ring: {why}"):
        method.synthesize(task, method.options(methods=("ring",)), np.random.default_rng(0))


def test_best_is_not_done_again_for_its_timing(monkeypatch):
    """The first time compiled until the time was over; a second would go on with what is left for as long."""
    calls = []

    def synthesize(problem, options, rng):
        calls.append(problem)
        monkeypatch.setattr(tasks.COMPILATION, "seconds", tasks.COMPILATION.seconds + 1e-9)
        made = METHODS["ring"].synthesize(problem, METHODS["ring"].options(), rng)
        return made.replace(stats={"tried": ("ring",)} if len(calls) == 1 else {})

    asked = problem("ring:4", "allgather", 1000)
    method = replace(METHODS["ring"], synthesize=synthesize)
    tasks.synthesize_best(method, asked, method.options(), [0], Fraction(1000))
    assert len(calls) == 1
    tasks.synthesize_best(method, asked, method.options(), [0], Fraction(1000))
    assert len(calls) == 3, "another method is"


@pytest.mark.parametrize(("compiled", "said"), [(3.0, True), (1.0, False)])
def test_time_that_compiling_took_is_told(compiled, said):
    """Methods that, of ten seconds, spend some on compiling what they call."""

    def synthesize(task, options, rng):
        COMPILATION.seconds += compiled
        return METHODS["ring"].synthesize(task, METHODS["ring"].options(), rng)

    slow = replace(METHODS["ring"], name="slow", synthesize=synthesize)
    method = portfolio({"slow": slow})
    options = method.options(time_limit="10s", methods=("slow",))
    made = method.synthesize(problem("ring:5", "allgather", 2**20), options, np.random.default_rng(0))
    why = "compiling kernels and loading libraries took 3 s, which only a first run does"
    note = f"{why}; run it again to try more methods"
    assert made.stats.get("note") == (note if said else None)


def test_ctrl_c_keeps_the_fastest_schedule_so_far(monkeypatch):
    call = Apart.call

    def stopped(self, attempt, limit=None):
        if attempt.label == "direct":
            raise KeyboardInterrupt
        return call(self, attempt, limit)

    task = problem("ring:6", "allgather", 2**30)
    monkeypatch.setattr(Apart, "call", stopped)
    with pytest.raises(Interrupted) as stop:
        best(task, methods=("ring", "direct", "bfb"), stop_at_gap=0)
    verify(stop.value.found)
    assert [one.method for one in stop.value.found.stats["tried"]] == ["ring"]
    assert stop.value.found.stats["note"] == "interrupted before all methods were tried"
    with pytest.raises(KeyboardInterrupt) as early:
        best(task, methods=("direct", "ring"), stop_at_gap=0)
    assert not isinstance(early.value, Interrupted), "there was none yet"


def test_in_python_ctrl_c_brings_the_result(monkeypatch):
    """As what a method raises says; it is a KeyboardInterrupt, so that a loop over networks ends too."""

    def stopped(problem, options, rng):
        raise Interrupted(METHODS["ring"].synthesize(problem, METHODS["ring"].options(), rng))

    monkeypatch.setitem(METHODS, "best", replace(METHODS["best"], synthesize=stopped))
    with pytest.raises(KeyboardInterrupt) as stop:
        tutti.synthesize("ring:4", "allgather", "1MB")
    assert stop.value.found.schedule.collective.kind is Kind.ALLGATHER
    assert stop.value.found.bound.check()


def test_ctrl_c_keeps_the_best_of_the_seeds_so_far():
    def synthesize(problem, options, rng):
        if rng.random() == np.random.default_rng(2).random():
            raise KeyboardInterrupt
        return METHODS["ring"].synthesize(problem, METHODS["ring"].options(), rng)

    method = replace(METHODS["ring"], synthesize=synthesize, seeded=True)
    task = problem("ring:4", "allgather", 1000)
    with pytest.raises(Interrupted) as stop:
        tasks.synthesize_best(method, task, method.options(), range(5), Fraction(1000))
    assert (stop.value.found.seed, stop.value.found.seeds) == (0, 2)


def test_a_method_whose_process_dies_is_passed_over():
    """As one that a fault in compiled code ends."""

    def dies(problem, options, rng):
        signal.raise_signal(signal.SIGKILL)

    methods = {"ring": Method("ring", "heuristic", dies), "direct": METHODS["direct"]}
    method = portfolio(methods)
    task = problem("ring:4", "allgather", 1000)
    found = method.synthesize(task, method.options(stop_at_gap=0), np.random.default_rng(0))
    assert found.stats["algorithm"] == "direct"
    assert found.stats["tried"][0].why == "its process died (SIGKILL)"


def test_what_is_random_goes_on_where_the_method_before_left_it():
    def draws(problem, options, rng):
        tell(f"drew {rng.random()}")
        return METHODS["ring"].synthesize(problem, METHODS["ring"].options(), rng)

    method, told = portfolio({"ring": replace(METHODS["ring"], synthesize=draws)}), []
    with listening(told.append):
        method.synthesize(
            problem("ring:5", "allreduce", 1000),
            method.options(methods=("ring", "ring"), stop_at_gap=0),
            np.random.default_rng(7),
        )
    rng = np.random.default_rng(7)
    assert [text for text in told if "drew" in text] == [f"drew {rng.random()}" for _ in range(2)]
