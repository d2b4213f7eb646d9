"""Networks from arrays of links that are grouped into classes: a dimension, an offset, a kind of cable."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from tutti.topologies.errors import InputError
from tutti.topologies.exact import IntArray, Rationals
from tutti.topologies.topology import DEFAULT_ALPHA, DEFAULT_BANDWIDTH, Topology

Values = Fraction | int | Sequence[Fraction | int] | None
"""A bandwidth (bytes/s) or an α (s): one for all classes of links, one each, or the default."""

Arcs = tuple[IntArray, IntArray]
"""The sources and the targets of the links of one class."""

MAX_NODES = 2**20
MAX_LINKS = 2**24
HUGE = 64
"""Exponents of node counts are cut to this one before the size is checked. Its powers exceed every limit."""


def check_size(name: str, nodes: int, links: int) -> None:
    """Refuse a network that would not fit into memory, before it is built.

    Raises
    ------
    InputError
        If there are more than `MAX_NODES` nodes or `MAX_LINKS` links.
    """
    for count, limit, what in ((nodes, MAX_NODES, "nodes"), (links, MAX_LINKS, "links")):
        if count > limit:
            raise InputError(f"topology {name} has too many {what}; at most {limit} are built")


def at_least(name: str, least: int, **values: int) -> None:
    """Refuse a value below the least; the message names it as the argument is named.

    Raises
    ------
    InputError
        If a value is below `least`.
    """
    for what, value in values.items():
        if value < least:
            what = what.replace("_", " ")
            raise InputError(f"topology {name}: {what} {value} is too small; at least {least}")


def product_links(factors: Sequence[tuple[int, Arcs]]) -> list[Arcs]:
    """Return the links of a Cartesian product, a class for each factor: a link changes one coordinate.

    Nodes are numbered row-major: the last coordinate varies fastest. The links along a factor are listed by
    the other coordinates, then as in the factor.

    Parameters
    ----------
    factors
        The number of nodes of each factor, and its arcs.
    """
    stride = nodes = math.prod(length for length, _ in factors)
    classes: list[Arcs] = []
    for length, (tail, head) in factors:
        block, stride = stride, stride // length
        corners = np.add.outer(np.arange(0, nodes, block), np.arange(stride)).reshape(-1, 1)
        classes.append(((corners + tail * stride).reshape(-1), (corners + head * stride).reshape(-1)))
    return classes


def assemble(
    name: str,
    num_ranks: int,
    classes: Sequence[Arcs],
    bandwidth: Values = None,
    alpha: Values = None,
    *,
    default_bandwidth: Sequence[Fraction] | None = None,
    default_alpha: Sequence[Fraction] | None = None,
    switches: Sequence[str] = (),
    hosts: Sequence[int] | None = None,
    nominal_degree: int | None = None,
) -> Topology:
    """Return the network with these links, numbered by source, then by class, then as they are listed.

    Parameters
    ----------
    name, num_ranks
        As in `Topology`; the ranks' labels are their numbers.
    classes
        The links of each class; a pair that is listed twice is two parallel links.
    bandwidth, alpha
        Bytes/s and seconds, exact: one number for all classes, one each, or None for the defaults.
    default_bandwidth, default_alpha
        One per class; None: 50 GB/s, or 0.5 us, for all classes.
    switches
        The labels of the switches.
    hosts, nominal_degree
        As in `Topology`.

    Raises
    ------
    InputError
        If the number of bandwidths (or α) is neither 1 nor that of the classes, or if one of them is a float.
    """
    speeds = default_bandwidth or [DEFAULT_BANDWIDTH] * len(classes)
    bandwidths = per_class(f"topology {name}: bandwidth", bandwidth, speeds)
    delays = default_alpha or [DEFAULT_ALPHA] * len(classes)
    alphas = per_class(f"topology {name}: alpha", alpha, delays)
    source = np.concatenate([arcs[0] for arcs in classes])
    target = np.concatenate([arcs[1] for arcs in classes])
    kind = np.repeat(np.arange(len(classes)), [len(arcs[0]) for arcs in classes])
    order = np.argsort(source, kind="stable")
    return Topology(
        name=name,
        num_ranks=num_ranks,
        labels=(*map(str, range(num_ranks)), *switches),
        source=source[order].astype(np.int32),
        target=target[order].astype(np.int32),
        bandwidth=Rationals.of(bandwidths).take(kind[order]).reduced,
        alpha=Rationals.of(alphas).take(kind[order]).reduced,
        hosts=None if hosts is None else np.array(hosts, dtype=np.int32),
        nominal_degree=nominal_degree,
    )


def per_class(what: str, values: Values, defaults: Sequence[Fraction]) -> list[Fraction]:
    """Return one exact number for each class of links; `what` names them in errors."""
    if values is None:
        return list(defaults)
    given = list(values) if isinstance(values, Iterable) else [values]
    if len(given) not in (1, len(defaults)):
        allowed = "1" if len(defaults) == 1 else f"1 or {len(defaults)}"
        raise InputError(f"{what} has {len(given)} values; give {allowed}")
    if any(isinstance(value, float) for value in given):
        raise InputError(f"{what} is a float; give a Fraction or an integer, which are exact")
    exact = [Fraction(value) for value in given]
    return exact * len(defaults) if len(exact) == 1 else exact
