"""``tutti find``: the best networks of N nodes and degree d, and what their schedules cost."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from tutti.expansions.finder import Candidate, Finder, bandwidth_factor
from tutti.experiments.cli import Exit
from tutti.experiments.cli.commands import FindCommand
from tutti.experiments.cli.output import console, print_json, print_table
from tutti.experiments.growth.baselines import CostParameters, all_to_all_bound, allreduce_bound, least_hops
from tutti.experiments.growth.report import write_page
from tutti.experiments.growth.study import FIRST_NODES, GrowthSearch, study_of
from tutti.experiments.printable import remark, say
from tutti.experiments.registry import METHODS
from tutti.experiments.runner.results import CSV
from tutti.experiments.runner.run import RunOptions, carry_out
from tutti.schedules.collective import Kind, collective
from tutti.schedules.cost import moore_optimal_steps, step_cost
from tutti.schedules.method import Problem
from tutti.schedules.verify import verify
from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.graphs.shortest_paths import diameter
from tutti.topologies.units import parse_time

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
    if arguments.nodes is None:
        return _growth(arguments, arguments.up_to or 0)
    _refuse(arguments, ("output", "workers", "scheduler"), "--up-to, not with --nodes")
    asked = _Asked(arguments, arguments.nodes)
    finder = Finder(bidirectional=arguments.bidirectional, most_hops=arguments.max_diameter)
    documents = [_document(found, asked) for found in finder.find(asked.nodes, arguments.degree)]
    least = min(document[asked.criterion] for document in documents)
    documents = [document | {"best": document[asked.criterion] == least} for document in documents]
    for document in documents if arguments.json else ():
        print_json(document)
    if not arguments.json:
        _print(documents, arguments, asked)
    return 0


def _refuse(arguments: FindCommand, options: Sequence[str], goes_with: str) -> None:
    """Raise `InputError` if one of these options is given."""
    given = [name for name in options if getattr(arguments, name) not in (None, False)]
    if given:
        raise InputError(f"--{given[0].replace('_', '-')} goes with {goes_with}")


def _growth(arguments: FindCommand, largest: int) -> int:
    """Find the frontiers of all N up to the largest, as a study with tables and a page."""
    _refuse(arguments, ("build", "all_to_all", "json", "mix"), "--nodes, not with --up-to")
    if arguments.output is None:
        raise InputError("--up-to needs --output DIR, for its tables and the page")
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


class _Asked:
    """The quantities of each network that are asked for, beside its place on the frontier."""

    def __init__(self, arguments: FindCommand, nodes: int) -> None:
        self.nodes, self.degree = nodes, arguments.degree
        self.workload = CostParameters.parse(arguments.alpha, arguments.size, arguments.bandwidth)
        self.build, self.mix = arguments.build, arguments.mix
        self.all_to_all = arguments.all_to_all or self.mix is not None
        self.criterion = "allreduce_us" if self.mix is None else "mix_us"  # by which the best is marked
        self.seconds = float(parse_time(arguments.time_limit))

    def times(self, allreduce_us: float, all_to_all_us: float | None) -> dict[str, Any]:
        """Return a row's times of both collectives, and the mean of a mix of them."""
        share = self.mix or 0.0
        mean = (1 - share) * allreduce_us + share * (all_to_all_us or 0.0)
        return {"allreduce_us": allreduce_us, "all_to_all_us": all_to_all_us, "mix_us": mean}

    def any_schedule(self) -> dict[str, float]:
        """Return lower bounds on the times of any schedule on any network, in us."""
        problem, us = (self.nodes, self.degree, self.workload), self.workload.microseconds
        least = {"any_allreduce_us": us(allreduce_bound(*problem))}
        return least | ({"any_all_to_all_us": us(all_to_all_bound(*problem))} if self.all_to_all else {})


def _document(candidate: Candidate, asked: _Asked) -> dict[str, Any]:
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
    if asked.build:
        document |= _built(candidate)
    tb = Fraction(document["tb_factor"])
    document["allreduce_us"] = asked.workload.allreduce_us(document["tl_steps"], tb)
    document["allreduce_of"] = ALLREDUCE_OF
    if asked.all_to_all:
        document |= _all_to_all(candidate, asked) | {"all_to_all_of": ALL_TO_ALL_OF}
    if asked.mix is not None:
        document["mix_us"] = asked.times(document["allreduce_us"], document["all_to_all_us"])["mix_us"]
    return document | asked.any_schedule()


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


def _all_to_all(candidate: Candidate, asked: _Asked) -> dict[str, Any]:
    """Return the optimum of LP (A.1): what a flow attains, and what lengths of the links prove."""
    from tutti.models.all_to_all.demand import Demand
    from tutti.models.all_to_all.orbits import solve_by_orbits

    cost, workload = candidate.cost, asked.workload
    link = workload.bandwidth / cost.degree
    topology = candidate.expression.topology(bandwidth=link)
    try:
        solved = solve_by_orbits(Demand.uniform(topology), 1e-4, asked.seconds)
    except NoSchedule as error:
        raise NoSchedule(f"{topology.name}: {error}; allow more with --time-limit") from error
    interval = solved.interval
    return {
        "all_to_all_us": workload.microseconds(interval.upper * workload.size),
        "all_to_all_bound_us": workload.microseconds(interval.lower * workload.size),
        "all_to_all_exact": interval.exact,
        # (A.1)'s f: how much of its data each pair can send in a unit of time, with links of bandwidth 1.
        "mcf": float(1 / (interval.upper * link * cost.nodes)),
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


def _print(documents: Sequence[Mapping[str, Any]], arguments: FindCommand, asked: _Asked) -> None:
    nodes, degree = asked.nodes, asked.degree
    shown = [name for name in _COLUMNS if name in documents[0]]

    def cell(document: Mapping[str, Any], name: str) -> object:
        value = document.get(name)
        if name == "tb_factor" and value is not None:
            return f"{'' if document['exact'] else '<= '}{float(Fraction(value)):.4f}"
        return ("least" if value else "") if name == "best" else value

    rows = [[cell(document, name) for name in shown] for document in (*documents, *_least(asked))]
    title = f"{nodes} nodes of degree {degree}; {arguments.size} at {arguments.bandwidth} a node"
    mix = "" if asked.mix is None else f"; all-to-all {asked.mix:g} of the collectives, the rest allreduce"
    names = [_COLUMNS[name] for name in shown]
    print_table(f"{title}, alpha {arguments.alpha}{mix}", names, rows)
    say(f"allreduce us: {ALLREDUCE_OF}; other schedules may be faster")
    if asked.all_to_all:
        say(f"all-to-all us: {ALL_TO_ALL_OF}; a schedule pays alpha too")
    say(f"{ANY_SCHEDULE}: no schedule on any network of {nodes} nodes and degree {degree} takes less")


def _least(asked: _Asked) -> Iterator[dict[str, Any]]:
    """Yield two rows: the least T_L and T_B of any network, and lower bounds on times of any schedule."""
    nodes, degree = asked.nodes, asked.degree
    steps, factor = moore_optimal_steps(nodes, degree), bandwidth_factor(nodes)
    allreduce = asked.workload.allreduce_us(steps, factor)
    all_to_all = asked.workload.all_to_all_us(least_hops(nodes, degree), nodes)
    row = {"topology": "least T_L and T_B", "tl_steps": steps, "tb_factor": str(factor), "exact": True}
    yield row | asked.times(allreduce, all_to_all)
    least = asked.any_schedule()
    times = asked.times(least["any_allreduce_us"], least.get("any_all_to_all_us"))
    yield {"topology": ANY_SCHEDULE, **times}
