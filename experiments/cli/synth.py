"""``tutti synth``: one schedule, verified, timed and set against a proven bound."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from tutti.experiments.cli.output import console, print_fields, print_json
from tutti.experiments.cli.parser import DEFAULT_METHOD, DEFAULT_SIZE
from tutti.experiments.cli.problem import parse_amount, parse_collective
from tutti.experiments.printable import say
from tutti.experiments.registry import current_options, find_method, options_of
from tutti.experiments.result import Result
from tutti.experiments.runner.progress import waiting
from tutti.experiments.runner.tasks import synthesize_best
from tutti.schedules.files.schedule_file import check_target, is_round_file
from tutti.schedules.method import Method, Problem, first_seeds, only_seed
from tutti.topologies.errors import InputError, Interrupted
from tutti.topologies.options import options_text, parse_assignments, with_lists
from tutti.topologies.text import parse_topology
from tutti.topologies.units import parse_size


def execute(arguments: argparse.Namespace) -> int:
    """Make the schedule, print what it is, and write it if asked to."""
    if arguments.repair is not None:
        from tutti.experiments.cli import synth_repair  # and its kernels

        return synth_repair.execute(arguments)
    method = find_method(arguments.method or DEFAULT_METHOD)
    given = _given(method, arguments)
    options = options_of(method, given)
    seeds = _seeds(method, arguments)
    topology = parse_topology(arguments.topology)
    what = parse_collective(arguments, topology)
    size = parse_amount(arguments, what) or parse_size(DEFAULT_SIZE)
    problem = Problem(topology, what)
    if method.size_dependent(problem, options):
        problem = dataclasses.replace(problem, size=size)
    if arguments.output is not None:
        check_target(arguments.output)  # before hours of synthesis rather than after
        if is_round_file(arguments.output):
            from tutti.experiments.cli import synth_rounds  # and its kernels

            return synth_rounds.execute(arguments, method, Problem(topology, what, size), options, seeds)
    stopped: Interrupted | None = None
    try:
        with _waiting(f"{method.name} on {topology.name}", arguments):
            made = synthesize_best(method, problem, options, seeds, size)
    except Interrupted as stop:
        made, stopped = stop.found, stop
    said = (*_default_note(method, arguments, given), *_seeds_note(method, arguments))
    exact_for = method.exactness(options, problem)
    result = Result.of(made, size, method.name, options_text(given), said, exact_for)
    try:
        if arguments.output is not None:
            result.save(arguments.output)
    finally:  # a full disk does not take the numbers along
        _say(arguments, result)
    if stopped is not None:
        raise stopped
    return 0


def _say(arguments: argparse.Namespace, result: Result) -> None:
    with _waiting("bounds and simulation", arguments):
        document, fields = result.document, result.fields
    for note in result.notes:
        say(f"tutti: note: {note}", sys.stderr)
    if arguments.json:
        print_json(document)
    else:
        print_fields(fields)


def _waiting(text: str, arguments: argparse.Namespace) -> AbstractContextManager[None]:
    return waiting(console(sys.stderr), text, quiet=arguments.quiet)


def _given(method: Method, arguments: argparse.Namespace) -> dict[str, Any]:
    quick = {} if arguments.method else method.quick
    asked = current_options(method.name, parse_assignments(arguments.option))
    given = {**quick, **with_lists(method, asked)}
    if arguments.chunks is not None:
        if "chunks" in given:
            raise InputError("--chunks and --option chunks=... say the same; give one of them")
        given["chunks"] = arguments.chunks
    return given


def _default_note(method: Method, arguments: argparse.Namespace, given: Mapping[str, Any]) -> tuple[str, ...]:
    if arguments.method:
        return ()
    limit = given["time_limit"]
    tries = f"no --method was given, so {method.name} tries the sensible ones for {limit}"
    own = limit != method.quick["time_limit"]
    return (tries if own else f"{tries}; --option time_limit=1min gives it more time",)


def _seeds(method: Method, arguments: argparse.Namespace) -> range:
    if arguments.seed is not None:
        return only_seed(method, arguments.seed, "--seed")
    return first_seeds(method, arguments.seeds, "--seeds")


def _seeds_note(method: Method, arguments: argparse.Namespace) -> tuple[str, ...]:
    if method.seeded:
        return ()
    if arguments.seed is not None:
        return (f"{method.name} has no randomness, so --seed {arguments.seed} changes nothing.",)
    count = arguments.seeds
    return () if count == 1 else (f"{method.name} has no randomness, so --seeds {count} is one try.",)
