"""Unidirectional to bidirectional (dissertation, A.1.6): half of every shard each way."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from expansions.shard_table import ShardTable, check_rows
from topologies.errors import InputError, NoSchedule
from topologies.exact import INT64_MAX
from topologies.transforms import union_with_transpose


def expand_both_ways(table: ShardTable, back: ShardTable) -> ShardTable:
    """Return the allgather on G and its transpose together: half of every shard by A, half by the other.

    They use disjoint links, so with `back` = g(A) (`expansions.reversal.reflected`) T_L and T_B, in M/B, are
    those of A: half the data, at half the bandwidth a link.

    Parameters
    ----------
    table
        A, on G.
    back
        Any allgather on the transpose of G: the same `topology`, used against the direction of `table`.

    Raises
    ------
    InputError
        If the two are not on one network and its transpose.
    NoSchedule
        If the table would be too large, or sizes do not fit 64 bits.
    """
    if back.topology != table.topology or back.turned == table.turned:
        raise InputError(f"expansion both ways: {back.topology.name} is not the transpose's")
    grown = union_with_transpose(table.topology)
    check_rows(grown.name, len(table) + len(back))
    whole = math.lcm(int(table.sizes.sum()), int(back.sizes.sum()))
    if 2 * whole > INT64_MAX:
        raise NoSchedule(f"expansion on {grown.name}: the shards would be cut too finely")
    halves = [half.sizes * (whole // int(half.sizes.sum())) for half in (table, back)]
    moved = replace(back, first=back.first + len(table.sizes), link=back.link + table.topology.num_links)
    columns = {
        name: np.concatenate([getattr(table, name), getattr(moved, name)])
        for name in ("owner", "first", "count", "link", "step")
    }
    return ShardTable(grown, table.turned, np.concatenate(halves), **columns)
