"""A network with the loads of its links as DOT, for Graphviz: the wider a link, the busier."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from schedules.files.schedule_file import write_text
from schedules.method import NoOptions
from schedules.programs.graphml import loaded_graph
from schedules.schedule import Schedule
from topologies.errors import visible
from topologies.units import short

OPTIONS = NoOptions

_WIDEST = 4


def write(schedule: Schedule, path: Path, options: NoOptions) -> dict[str, Any]:
    """Write the network of a schedule.

    Raises
    ------
    InputError
        If the file can't be written, or a load does not fit 64 bits.
    """
    text = "".join(f"{line}\n" for line in _lines(schedule))
    write_text(path, text)
    return {"nodes": schedule.topology.num_nodes, "links": schedule.topology.num_links}


def _lines(schedule: Schedule) -> Iterator[str]:
    topology, graph = schedule.topology, loaded_graph(schedule)
    yield f"digraph {_quoted(topology.name)} {{"
    yield f"  label={_quoted(f'{schedule.collective} on {topology.name}: loads in parts of M')}"
    for node, label in enumerate(topology.labels):
        shape = "ellipse" if node < topology.num_ranks else "box"
        yield f"  {node} [label={_quoted(label)}, shape={shape}]"
    for source, target, data in graph.edges(data=True):
        kind = f"{data['bandwidth']}, {data['alpha']}"
        width = short(_WIDEST * data["busy"])
        about = f"label={_quoted(short(data['load']))}, penwidth={width}, tooltip={_quoted(kind)}"
        yield f"  {source} -> {target} [{about}{'' if data['load'] else ', style=dotted'}]"
    yield "}"


def _quoted(text: str) -> str:
    r"""Return a text as DOT has it: quotes and backslashes behind a backslash."""
    escaped = visible(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
