"""Problems as the command line states them."""

from __future__ import annotations

import argparse
from fractions import Fraction

from tutti.schedules.collective import Collective, collective
from tutti.schedules.dimensions import grouped, is_dimensions
from tutti.topologies.errors import InputError
from tutti.topologies.topology import Topology
from tutti.topologies.units import exact_number, parse_size


def parse_collective(arguments: argparse.Namespace, topology: Topology) -> Collective:
    """Return the collective of ``--collective``, ``--root``, ``--shards``, ``--groups`` and ``--matrix``.

    Raises
    ------
    InputError
        If they do not fit each other or the topology.
    """
    if arguments.groups is not None and is_dimensions(arguments.groups):
        given = [f"--{name}" for name in ("root", "shards", "matrix") if getattr(arguments, name) is not None]
        if given:
            raise InputError(f"{given[0]} with --groups by dimensions; it is for groups as lists of ranks")
        return grouped(arguments.groups, topology.num_ranks, arguments.collective)[0]
    shards = None if arguments.shards is None else _numbers(arguments.shards, "--shards")
    groups = None
    if arguments.groups is not None:
        groups = [_ranks(group) for group in arguments.groups.split("|")]
    return collective(
        arguments.collective,
        topology.num_ranks,
        root=arguments.root,
        shards=shards,
        groups=groups,
        matrix=arguments.matrix,
    )


def parse_amount(arguments: argparse.Namespace, what: Collective) -> Fraction | None:
    """Return M in bytes: of ``--size``, or without it as the groups or the matrix have it, if they do."""
    if arguments.size is not None:
        return parse_size(arguments.size)
    if arguments.groups is not None and is_dimensions(arguments.groups):
        return grouped(arguments.groups, what.num_ranks, arguments.collective)[1]
    return None if what.own_size is None else Fraction(what.own_size)


def _numbers(text: str, where: str) -> list[Fraction]:
    try:
        return [exact_number(word.strip()) for word in text.split(",")]
    except InputError as error:
        raise InputError(f"{where} '{text}': {error}") from error


def _ranks(text: str) -> list[int]:
    numbers = _numbers(text, "--groups")
    if any(number.denominator != 1 for number in numbers):
        raise InputError(f"--groups '{text}': ranks are whole numbers, such as 0,1|2,3")
    return [int(number) for number in numbers]
