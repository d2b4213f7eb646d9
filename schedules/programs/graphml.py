"""A network with the loads of its links as GraphML, for Gephi, yEd and networkx."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from tutti.schedules.cost import link_loads
from tutti.schedules.method import NoOptions
from tutti.schedules.schedule import Schedule
from tutti.topologies.disk import write_bytes
from tutti.topologies.errors import visible
from tutti.topologies.files import to_networkx
from tutti.topologies.units import format_bandwidth, format_time

OPTIONS = NoOptions


def write(schedule: Schedule, path: Path, options: NoOptions) -> dict[str, Any]:
    """Write the network, in which each link has its ``load`` (as a part of M) and a number ``busy``.

    ``busy`` is proportional to load over bandwidth and is 1 at the busiest link. Bandwidths and α are texts
    with units.

    Raises
    ------
    InputError
        If the file can't be written, or a load does not fit 64 bits.
    """
    import networkx as nx

    topology = schedule.topology
    graph = to_networkx(topology)
    load = link_loads(schedule) / schedule.chunks.denominator
    seconds = load / topology.bandwidth.floats
    busy = seconds / max(seconds.max(initial=0.0), np.finfo(float).tiny)
    graph.graph = {"name": visible(topology.name), "notes": visible("; ".join(topology.notes))}
    for node, data in graph.nodes(data=True):
        data["label"] = visible(topology.labels[node])
    for _, _, link, data in graph.edges(keys=True, data=True):
        data["bandwidth"], data["alpha"] = format_bandwidth(data["bandwidth"]), format_time(data["alpha"])
        data["load"], data["busy"] = float(load[link]), float(busy[link])
    text = BytesIO()
    nx.write_graphml(graph, text)
    write_bytes(path, text.getvalue())
    return {"nodes": len(graph), "links": graph.number_of_edges()}
