"""``tutti find``: the best networks of N nodes and degree d, and what their schedules cost."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from tutti.expansions.finder import Candidate, Finder
from tutti.expansions.prediction import bandwidth_factor
from tutti.experiments.cli import Exit
from tutti.experiments.cli.commands import FindCommand
from tutti.experiments.cli.output import console, print_json, print_table
from tutti.experiments.growth.networks import CostParameters, all_to_all_bound, allreduce_bound, least_hops
from tutti.experiments.growth.study import FIRST_NODES, GrowthSearch, command_of, study_of, write_page
from tutti.experiments.printable import remark, say
from tutti.experiments.registry import METHODS
from tutti.experiments.runner.results import CSV
from tutti.experiments.runner.run import RunOptions, carry_out
from tutti.models.all_to_all.demand import Demand
from tutti.models.all_to_all.orbits import solve_by_orbits
from tutti.schedules.collective import Kind, collective
from tutti.schedules.cost import moore_optimal_steps, step_cost
from tutti.schedules.method import Problem
from tutti.schedules.verify import verify
from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.graphs.shortest_paths import diameter
from tutti.topologies.units import parse_time

Row = Mapping[str, Any]
OLD = "frontiers.csv"
"""The name of the table that earlier versions wrote, which is no longer read."""
ALLREDUCE_OF = "a reduce-scatter and then an allgather in steps, 2 (T_L alpha + T_B)"
"""The schedule whose time ``allreduce_us`` is. Without ``--mix``, the best network has the least of it."""
ALL_TO_ALL_OF = "the best flow, without alpha"
"""The flow whose time ``all_to_all_us`` is."""


def do_find(arguments: FindCommand) -> int:
    """Print the Pareto frontier, one network a line, T_L growing and T_B falling; or write all up to some N.

    Raises
    ------
    InputError
        If there is no such network, or a number is out of range.
    """
    nodes, degree, mix = arguments.nodes, arguments.degree, arguments.mix
    if nodes is None:
        return _growth(arguments, arguments.up_to or 0)
    _refuse(arguments, ("output", "workers", "scheduler"), "--up-to, not with --nodes")
    arguments.all_to_all |= mix is not None
    workload = CostParameters.parse(arguments.alpha, arguments.size, arguments.bandwidth)
    problem = nodes, degree, workload
    any_schedule = {"any_allreduce_us": workload.microseconds(allreduce_bound(*problem))}
    if arguments.all_to_all:
        any_schedule["any_all_to_all_us"] = workload.microseconds(all_to_all_bound(*problem))
    finder = Finder(bidirectional=arguments.bidirectional, most_hops=arguments.max_diameter)
    documents = [_document(found, arguments, workload) | any_schedule for found in finder.find(nodes, degree)]
    criterion = "allreduce_us" if mix is None else "mix_us"  # by which the best is marked
    least = min(document[criterion] for document in documents)
    documents = [document | {"best": document[criterion] == least} for document in documents]
    if arguments.json:
        print_json(*documents)
    else:
        _print(documents, arguments, workload, any_schedule)
    return Exit.OK


def _refuse(arguments: FindCommand, options: Sequence[str], goes_with: str) -> None:
    if given := [name for name in options if getattr(arguments, name) not in (None, False)]:
        raise InputError(f"--{given[0].replace('_', '-')} goes with {goes_with}")


def _growth(arguments: FindCommand, largest: int) -> int:
    """Find the frontiers of all N up to the largest, as a study with tables and a page."""
    _refuse(arguments, ("build", "all_to_all", "json", "mix"), "--nodes, not with --up-to")
    if arguments.output is None:
        raise InputError("--up-to needs --output DIR, for its tables and the page")
    if (arguments.output / CSV).exists() and command_of(arguments.output) is None:
        raise InputError(f"--output {arguments.output}: it has the results of a run; give another folder")
    sizes, alpha, bandwidth = arguments.size.split(","), arguments.alpha, arguments.bandwidth
    workloads = [CostParameters.parse(alpha, size, bandwidth) for size in sizes]
    growth = GrowthSearch(arguments.degree, largest, arguments.bidirectional, arguments.max_diameter)
    study = study_of(growth, partial(write_page, growth=growth, workloads=workloads))
    options = RunOptions(out=arguments.output, workers=arguments.workers, scheduler=arguments.scheduler)
    if (arguments.output / OLD).exists():
        remark(f"{arguments.output / OLD}: of an earlier version; made again, in {CSV}")
    summary = carry_out(study, options, console(sys.stderr))
    if summary.interrupted:
        remark(summary.stopped)
        return Exit.INTERRUPTED
    say(f"{FIRST_NODES} to {largest} nodes of degree {arguments.degree}: {summary.report}")
    return Exit.NO if summary.failed or summary.report is None else Exit.OK


def _document(candidate: Candidate, arguments: FindCommand, workload: CostParameters) -> dict[str, Any]:
    """Return what is printed of one network: a line of ``--json``, or a row of the table."""
    cost = candidate.cost
    document: dict[str, Any] = {
        "topology": str(candidate.expression),
        "nodes": cost.nodes,
        "degree": cost.degree,
        "bidirectional": cost.bidirectional,
        "tl_steps": cost.tl,
        "tb_factor": str(cost.tb),
        "exact": cost.exact,
    }
    if arguments.build:
        document |= _built(candidate)
    document["allreduce_us"] = workload.allreduce_us(document["tl_steps"], Fraction(document["tb_factor"]))
    document["allreduce_of"] = ALLREDUCE_OF
    if arguments.all_to_all:
        seconds = float(parse_time(arguments.time_limit))
        document |= _all_to_all(candidate, workload, seconds) | {"all_to_all_of": ALL_TO_ALL_OF}
    return _with_mean(document, arguments.mix)


def _with_mean(row: dict[str, Any], mix: float | None) -> dict[str, Any]:
    """Return a row with the mean of the times of both collectives, if a mix of them is asked for."""
    if mix is None:
        return row
    return row | {"mix_us": (1 - mix) * row["allreduce_us"] + mix * row["all_to_all_us"]}


def _built(candidate: Candidate) -> dict[str, Any]:
    """Construct and verify the schedule; its cost must be what was predicted, or less."""
    topology = candidate.expression.topology()
    problem = Problem(topology, collective(Kind.ALLGATHER, topology.num_ranks))
    method = METHODS["expansion"]
    schedule = method.synthesize(problem, method.options(), np.random.default_rng(0))
    verify(schedule)
    cost = step_cost(schedule)
    if cost.tb is None or (cost.tl_steps, cost.tb) > (candidate.cost.tl, candidate.cost.tb):
        raise InputError(f"{topology.name}: T_L {cost.tl_steps}, T_B {cost.tb} are above the prediction")
    return {
        "tl_steps": cost.tl_steps,
        "tb_factor": str(cost.tb),
        "exact": True,
        "diameter": diameter(topology),
        "transfers": len(schedule),
        "verified": True,
    }


def _all_to_all(candidate: Candidate, workload: CostParameters, seconds: float) -> dict[str, Any]:
    """Return the optimum of LP (A.1): what a flow attains, and what lengths of the links prove."""
    link = workload.bandwidth / candidate.cost.degree
    topology = candidate.expression.topology(bandwidth=link)
    try:
        interval = solve_by_orbits(Demand.uniform(topology), 1e-4, seconds).interval
    except NoSchedule as error:
        raise NoSchedule(f"{topology.name}: {error}; allow more with --time-limit") from error
    return {
        "all_to_all_us": workload.microseconds(interval.upper * workload.size),
        "all_to_all_bound_us": workload.microseconds(interval.lower * workload.size),
        "all_to_all_exact": interval.exact,
        # (A.1)'s f: how much of its data each pair can send in a unit of time, with links of bandwidth 1.
        "mcf": float(1 / (interval.upper * link * candidate.cost.nodes)),
    }


ANY_SCHEDULE = "any schedule, at least"
"""The row of the table that bounds all schedules on all networks."""

_COLUMNS = {
    "topology": "topology",
    "tl_steps": "T_L",
    "tb_factor": "T_B (M/B)",
    "allreduce_us": "allreduce us",
    "all_to_all_us": "all-to-all us",
    "all_to_all_bound_us": "at least us",
    "mix_us": "mix us",
    "diameter": "diameter",
    "best": "best",
}


def _print(
    documents: Sequence[Row], arguments: FindCommand, workload: CostParameters, any_schedule: Row
) -> None:
    """Print a table; its last rows are the least T_L and T_B of any network, and what no schedule beats."""
    nodes, degree = documents[0]["nodes"], arguments.degree
    shown = [name for name in _COLUMNS if name in documents[0]]
    steps, factor = moore_optimal_steps(nodes, degree), bandwidth_factor(nodes)
    least = {"topology": "least T_L and T_B", "tl_steps": steps, "tb_factor": str(factor), "exact": True}
    least["allreduce_us"] = workload.allreduce_us(steps, factor)
    least["all_to_all_us"] = workload.all_to_all_us(least_hops(nodes, degree), nodes)
    most = {"topology": ANY_SCHEDULE, **{name.removeprefix("any_"): us for name, us in any_schedule.items()}}

    def cell(document: Row, name: str) -> object:
        value = document.get(name)
        if name == "tb_factor" and value is not None:
            return f"{'' if document['exact'] else '<= '}{float(Fraction(value)):.4f}"
        return ("least" if value else "") if name == "best" else value

    every = (*documents, _with_mean(least, arguments.mix), _with_mean(most, arguments.mix))
    rows = [[cell(document, name) for name in shown] for document in every]
    title = f"{nodes} nodes of degree {degree}; {arguments.size} at {arguments.bandwidth} a node"
    mix = arguments.mix
    share = "" if mix is None else f"; all-to-all {mix:g} of the collectives, the rest allreduce"
    print_table(f"{title}, alpha {arguments.alpha}{share}", [_COLUMNS[name] for name in shown], rows)
    say(f"allreduce us: {ALLREDUCE_OF}; other schedules may be faster")
    if arguments.all_to_all:
        say(f"all-to-all us: {ALL_TO_ALL_OF}; a schedule pays alpha too")
    say(f"{ANY_SCHEDULE}: no schedule on any network of {nodes} nodes and degree {degree} takes less")
