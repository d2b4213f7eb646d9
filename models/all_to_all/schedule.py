"""Paths as a schedule: each is one chunk of its item, sent from end to end over one route."""

from __future__ import annotations

import numpy as np

from models.all_to_all.decomposition import PathFlow
from schedules.collective import Collective
from schedules.schedule import MOST_CHUNKS, Chunks, Clock, Routes, Schedule
from topologies.errors import NoSchedule
from topologies.exact import Int32Array, Int64Array
from topologies.routes import shortest_routes


def path_schedule(paths: PathFlow, collective: Collective) -> Schedule:
    """Return the flow schedule that sends every path's amount along it; its congestion is that of the paths.

    Switches, and ranks that merely forward, occur inside routes. An item of size zero takes a shortest route.

    Parameters
    ----------
    paths
        What delivers the collective's demands.
    collective
        With items from one rank to one rank.

    Raises
    ------
    NoSchedule
        If there are more chunks than 32 bits count.
    """
    topology, items = paths.demand.topology, collective.items
    item_of_pair = np.full((topology.num_ranks,) * 2, -1, dtype=np.int64)
    item_of_pair[items.start, items.end] = np.arange(len(items))
    on_path = item_of_pair[paths.source, paths.target]
    rest = np.setdiff1d(np.arange(len(items)), on_path)
    if len(paths) + len(rest) > MOST_CHUNKS:
        raise NoSchedule(f"mcf: {len(paths) + len(rest)} chunks; allowed: at most {MOST_CHUNKS}")
    share = items.share.reduced
    whole = share.numerators[rest] * (paths.denominator // share.denominator)
    item, size = np.concatenate([on_path, rest]), np.concatenate([paths.amounts, whole])
    order = np.argsort(item, kind="stable")
    chunk_of = np.empty(len(order), dtype=np.int64)
    chunk_of[order] = np.arange(len(order))
    away = rest[items.start[rest] != items.end[rest]]
    extra_offsets, extra_links = shortest_routes(topology, items.start[away], items.end[away])
    routes = Routes(
        np.concatenate([paths.offsets, paths.offsets[-1] + extra_offsets[1:]]),
        np.concatenate([paths.links, extra_links]),
    )
    moved = np.concatenate([np.arange(len(paths)), len(paths) + np.searchsorted(rest, away)])
    turn = _turns(routes, items.start[item[moved]], items.end[item[moved]])
    return Schedule(
        topology=topology,
        collective=collective,
        clock=Clock.FLOW,
        chunks=Chunks(item[order], size[order], paths.denominator),
        chunk=chunk_of[moved][turn],
        route=turn.astype(np.int32),
        routes=routes,
    )


def _turns(routes: Routes, start: Int32Array, end: Int32Array) -> Int64Array:
    """Return an order of rows that keeps links busy: long routes first, then pairs that exchange (s XOR t).

    A long route stays in the way of more others, and pairs of one exclusive or share no end.
    """
    return np.lexsort((start, start ^ end, -np.diff(routes.offsets)))
