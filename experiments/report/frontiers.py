"""T_L against T_B of all networks of a run that share N and degree: their Pareto frontier and its bounds."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from tutti.expansions.finder import bandwidth_factor
from tutti.experiments.report.charts import Figure
from tutti.experiments.report.panels import Panel
from tutti.experiments.report.results import Results, Row
from tutti.experiments.report.rows import Point, frontier
from tutti.schedules.collective import Kind
from tutti.schedules.cost import moore_optimal_steps

SHOWN = (Kind.ALLGATHER.value, Kind.REDUCE_SCATTER.value)
"""Collectives for which Moore's bound and (N - 1)/N hold as they are."""


class ParetoPoint(NamedTuple):
    """A network with a method's T_L and T_B."""

    topology: str
    series: int
    row: Row


def frontier_panels(results: Results) -> list[Panel]:
    """Return a chart for every N, degree and collective in which at least two networks have a T_B."""
    degrees = {name: network and network.degree for name, network in results.networks.items()}
    found: dict[tuple[int, int, str], dict[tuple[str, int], ParetoPoint]] = {}
    for (topology, collective, _), cells in results.cases.items():
        degree = degrees[topology]
        for key, row in cells.items() if degree is not None and collective in SHOWN else ():
            if row.ok and row.tl_steps is not None and row.tb_factor is not None and row.nodes is not None:
                group_key = (int(row.nodes), degree or 0, collective)
                found.setdefault(group_key, {}).setdefault((topology, key), ParetoPoint(topology, key, row))
    return [
        _panel(results, key, list(places.values()))
        for key, places in sorted(found.items(), key=lambda entry: entry[0][:2])
        if len({place.topology for place in places.values()}) > 1
    ]


def _panel(results: Results, key: tuple[int, int, str], places: list[ParetoPoint]) -> Panel:
    nodes, degree, collective = key
    title = f"{collective}, {nodes:,} nodes of degree {degree}"
    figure = Figure("frontier", f"T_B against T_L, {title}", data=_rows(results, key, places))
    return Panel(title, results.collectives.index(collective), figure)


def _rows(results: Results, key: tuple[int, int, str], places: list[ParetoPoint]) -> pd.DataFrame:
    """Return a row a network and method; the first of several at one point speaks for all."""
    points = [(place.row.tl_steps or 0.0, place.row.tb_factor or 0.0) for place in places]
    first = [points.index(point) for point in frontier(points)]
    return pd.DataFrame(
        {
            "network": place.topology.partition("?")[0],
            "method": results.series[place.series].label,
            "series": place.series,
            "tl_steps": tl,
            "tb_factor": tb,
            "tb": place.row.tb_text,
            "name": _name(places, points, number),
            "frontier": number in first,
            "moore": moore_optimal_steps(*key[:2]),
            "least_tb": float(bandwidth_factor(key[0])),
        }
        for number, (place, (tl, tb)) in enumerate(zip(places, points, strict=True))
    )


def _name(places: list[ParetoPoint], points: list[Point], number: int) -> str:
    """Return the network at a point, and how many others are there."""
    here = [place.topology for place, point in zip(places, points, strict=True) if point == points[number]]
    names = list(dict.fromkeys(topology.partition("?")[0] for topology in here))
    return names[0] + (f" + {len(names) - 1} more" if len(names) > 1 else "")
