"""``tutti find``: the best networks of N nodes and degree d, and what their schedules cost."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from expansions.finder import Candidate, Finder, bandwidth_factor, moore_steps
from experiments.cli.output import print_json, print_table
from experiments.registry import METHODS
from schedules.collective import Kind, collective
from schedules.cost import step_cost
from schedules.method import Problem
from schedules.verify import verify
from topologies.distances import diameter
from topologies.errors import InputError
from topologies.units import parse_bandwidth, parse_size, parse_time

MICRO = 10**6


def execute(arguments: argparse.Namespace) -> int:
    """Print the Pareto frontier, one network a line, T_L growing and T_B falling.

    Raises
    ------
    InputError
        If there is no such network, or a number is out of range.
    """
    workload = _Workload(arguments)
    finder = Finder(bidirectional=arguments.bidirectional, most_hops=arguments.max_diameter)
    found = finder.find(arguments.nodes, arguments.degree)
    documents = [_document(candidate, workload, arguments.build) for candidate in found]
    if arguments.json:
        for document in documents:
            print_json(document)
    else:
        _print(documents, arguments, workload)
    return 0


class _Workload:
    """α, M and a node's bandwidth: what an allreduce takes on a schedule of known cost."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.alpha = parse_time(arguments.alpha)
        self.transfer = parse_size(arguments.size) / parse_bandwidth(arguments.bandwidth)

    def allreduce_us(self, tl: int, tb: Fraction) -> float:
        """Twice T_L α + T_B: a reduce-scatter and an allgather."""
        return float(2 * (tl * self.alpha + tb * self.transfer) * MICRO)


def _document(candidate: Candidate, workload: _Workload, build: bool) -> dict[str, Any]:
    cost = candidate.cost
    document: dict[str, Any] = {
        "topology": str(candidate.expression),
        "nodes": cost.nodes,
        "degree": cost.degree,
        "bidirectional": cost.bidirectional,
        "tl_steps": cost.tl,
        "tb_factor": str(cost.tb),
        "exact": cost.exact,
        "allreduce_us": workload.allreduce_us(cost.tl, cost.tb),
    }
    return document | _built(candidate) if build else document


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


def _print(
    documents: Sequence[Mapping[str, Any]], arguments: argparse.Namespace, workload: _Workload
) -> None:
    nodes, degree = arguments.nodes, arguments.degree
    steps, factor = moore_steps(nodes, degree), bandwidth_factor(nodes)
    columns = ["topology", "T_L", "T_B (M/B)", "allreduce us", *(["diameter"] if arguments.build else [])]
    rows = [
        [
            document["topology"],
            document["tl_steps"],
            f"{'' if document['exact'] else '<= '}{float(Fraction(document['tb_factor'])):.4f}",
            document["allreduce_us"],
            *([document["diameter"]] if arguments.build else []),
        ]
        for document in documents
    ]
    least = ["no network is below", steps, f"{float(factor):.4f}", workload.allreduce_us(steps, factor)]
    title = f"{nodes} nodes of degree {degree}; allreduce of {arguments.size} at {arguments.bandwidth} a node"
    print_table(f"{title}, alpha {arguments.alpha}", columns, [*rows, [*least, *[None] * arguments.build]])
