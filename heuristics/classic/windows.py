"""Messages over several steps: the steps that each link joins to one window, and the paths of the data.

A link that sends in each of n steps pays n α, and every step is as long as its longest message. A message
over several steps pays one α, and has their whole time for its bytes. A datum that reaches a link in the
middle of a message has to wait, or take another path. So each link divides the steps into *windows*, a
message each. Each datum goes from window to window, may wait, and may take a detour where that is allowed.
All steps last equally long. A window that has c seconds for bytes and is busy for L of them costs L³/c², so
that longer ones are filled first, and none much more than others.

Windows are joined and divided at random. The data in them choose the cheapest paths again, one after the
other. A change that is cheaper in all is kept, and a dearer one sometimes (Kirkpatrick, Gelatt, Vecchi,
Optimization by simulated annealing, Science 1983).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tutti.topologies.exact import NONE, BoolArray, FloatArray, Int32Array, Int64Array
from tutti.topologies.kernels import kernel, leaf
from tutti.topologies.topology import Incidence


class StepWindowTuning(NamedTuple):
    """Parameters of the search for windows."""

    rounds: int
    """Number of times that all paths are chosen before windows change, and after."""
    heat: float
    """A change that costs this fraction of a link class's mean cost is accepted at first with probability 1
    / e. A larger value accepts more."""
    most: int
    """Largest work of the search, in units of one choice of a path for every datum. A larger value takes
    longer."""
    least_room: float
    """Fraction of a step that a window always has for bytes, also where α is longer than the window."""


TUNING = StepWindowTuning(rounds=3, heat=0.1, most=1000, least_room=0.01)


_START, _WAIT = -1, -2


class WindowNetwork(NamedTuple):
    """The links out of each rank, the ends of links, their class, and the time of a unit on each."""

    out: Incidence
    source: Int32Array
    target: Int32Array
    kind: Int32Array
    slowness: FloatArray


class WindowData(NamedTuple):
    """The data to move.

    Parameters
    ----------
    ends
        int64, shape (2, data): the start and end of each.
    size
        float64, shape (data,).
    hops
        int32, shape (nodes, nodes): hops from each node to each.
    left
        Its transpose: hops[:, t] in a row.
    round_about
        Whether a datum may leave its shortest paths.
    """

    ends: Int64Array
    size: FloatArray
    hops: Int32Array
    left: Int32Array
    round_about: bool


class DataPaths(NamedTuple):
    """The hops of each datum, shape (data, n): links, and steps from 0; and their number."""

    link: Int32Array
    step: Int32Array
    hops: Int32Array


class _Windows(NamedTuple):
    """The windows, by class of links and step; arrays of shape (classes, n).

    Parameters
    ----------
    opens
        Whether a window begins.
    end
        The step before which one that begins there ends.
    load
        The seconds for which it is busy with bytes.
    room
        Shape (classes, n + 1): the seconds for bytes, by its number of steps.
    first, after, before
        The hop (its place in `DataPaths`) that is first in the window; the hops after and before each hop in
        the same window.
    """

    opens: BoolArray
    end: Int64Array
    load: FloatArray
    room: FloatArray
    first: Int64Array
    after: Int64Array
    before: Int64Array


class _Labels(NamedTuple):
    """Shape (n + 1, nodes): the least cost of being there by a step, the link that leads there, its step."""

    cost: FloatArray
    link: Int64Array
    step: Int64Array
    nodes: Int64Array


class _WindowSearch(NamedTuple):
    """The problem, its windows and paths, and arrays: paths before a change, labels, and data that move."""

    network: WindowNetwork
    data: WindowData
    windows: _Windows
    found: DataPaths
    spare: DataPaths
    labels: _Labels
    moved: Int64Array


def data_paths(
    network: WindowNetwork, data: WindowData, alpha: FloatArray, steps: int, length: float, effort: int
) -> DataPaths | None:
    """Return the paths of the data in `steps` steps, or None if the effort is too small for one search.

    Parameters
    ----------
    network, data
        Slowness in seconds for an amount of 1.
    alpha
        α of each class of links, seconds.
    steps
        At least the hops of the farthest datum.
    length
        Length of a step, seconds.
    effort
        Largest number of nodes in a step that all searches together may visit.
    """
    kinds, count = len(alpha), len(data.size)
    room = np.maximum(np.arange(steps + 1) * length - alpha[:, None], TUNING.least_room * length)
    shape = kinds, steps
    windows = _Windows(
        np.ones(shape, np.bool_),
        np.tile(np.arange(1, steps + 1), (kinds, 1)),
        np.zeros(shape),
        room,
        np.full(shape, NONE),
        np.full(count * steps, NONE),
        np.full(count * steps, NONE),
    )
    found, spare = (
        DataPaths._make([*np.zeros((2, count, steps), np.int32), np.zeros(count, np.int32)]) for _ in range(2)
    )
    at = steps + 1, len(data.hops)
    labels = _Labels(np.empty(at), np.empty(at, np.int64), np.empty(at, np.int64), np.empty(at[1], np.int64))
    search = _WindowSearch(network, data, windows, found, spare, labels, np.empty(count, np.int64))
    return found if _search(search, np.random.default_rng(1), effort) else None


@kernel
def _dearer(load: float, more: float, room: float) -> float:
    """Return the additional cost of a load if it grows by `more`."""
    return more * (3 * load * (load + more) + more * more) / (room * room)


@kernel
def _clear(data: WindowData, labels: _Labels, datum: int) -> int:
    """List the nodes on the paths of a datum, label all but its start as unreached; return their number."""
    source, goal = data.ends[0, datum], data.ends[1, datum]
    far, steps, count = data.left[goal], len(labels.cost) - 1, 0
    for node in range(len(far)):
        hops = data.hops[source, node] + far[node]
        if hops == far[source] or (data.round_about and hops <= steps):
            labels.nodes[count] = node
            count += 1
    for step in range(steps + 1):
        for at in range(count):
            labels.cost[step, labels.nodes[at]] = np.inf
    labels.cost[0, source], labels.link[0, source] = 0.0, _START
    return count


@leaf
def _find(search: _WindowSearch, datum: int) -> int:
    """Label the nodes on the paths of a datum, and return how many were visited."""
    network, data, windows = search.network, search.data, search.windows
    far, size = data.left[data.ends[1, datum]], data.size[datum]
    count = _clear(data, search.labels, datum)
    cost, by, since, nodes = search.labels
    steps, looked = len(cost) - 1, 0
    for step in range(steps):
        for at in range(count):
            node = nodes[at]
            here = cost[step, node]
            if here == np.inf:
                continue
            looked += 1
            # Of equal ones it waits, so that no path comes to a node twice.
            if far[node] < steps - step and here <= cost[step + 1, node]:
                cost[step + 1, node], by[step + 1, node] = here, _WAIT
            for place in range(network.out.offsets[node], network.out.offsets[node + 1]):
                link = network.out.links[place]
                kind, other = network.kind[link], network.target[link]
                if not windows.opens[kind, step]:
                    continue
                end = windows.end[kind, step]
                if far[other] > steps - end or (far[other] != far[node] - 1 and not data.round_about):
                    continue
                more, room = size * network.slowness[kind], windows.room[kind, end - step]
                there = here + _dearer(windows.load[kind, step], more, room)
                if there < cost[end, other]:
                    cost[end, other], by[end, other], since[end, other] = there, link, step
    return looked


@leaf
def _add(search: _WindowSearch, datum: int) -> float:
    """Put the hops of a datum into their windows; return what they cost there."""
    network, windows, found = search.network, search.windows, search.found
    cost, steps, size = 0.0, found.link.shape[1], search.data.size[datum]
    for place in range(found.hops[datum]):
        kind, step = network.kind[found.link[datum, place]], found.step[datum, place]
        more, room = size * network.slowness[kind], windows.room[kind, windows.end[kind, step] - step]
        cost += _dearer(windows.load[kind, step], more, room)
        windows.load[kind, step] += more
        hop, next_one = datum * steps + place, windows.first[kind, step]
        windows.after[hop], windows.before[hop], windows.first[kind, step] = next_one, NONE, hop
        if next_one != NONE:
            windows.before[next_one] = hop
    return cost


@leaf
def _take(search: _WindowSearch, datum: int) -> float:
    """Take the hops of a datum out of their windows; return what that saves."""
    network, windows, found = search.network, search.windows, search.found
    saved, steps, size = 0.0, found.link.shape[1], search.data.size[datum]
    for place in range(found.hops[datum]):
        kind, step = network.kind[found.link[datum, place]], found.step[datum, place]
        more, room = size * network.slowness[kind], windows.room[kind, windows.end[kind, step] - step]
        windows.load[kind, step] -= more
        saved += _dearer(windows.load[kind, step], more, room)
        hop = datum * steps + place
        earlier, later = windows.before[hop], windows.after[hop]
        if earlier == NONE:
            windows.first[kind, step] = later
        else:
            windows.after[earlier] = later
        if later != NONE:
            windows.before[later] = earlier
    return saved


@leaf
def _follow(search: _WindowSearch, datum: int) -> None:
    """Write the hops of a datum that its labels give."""
    labels, found = search.labels, search.found
    step, node, count = len(labels.cost) - 1, search.data.ends[1, datum], 0
    while labels.link[step, node] != _START:
        link = labels.link[step, node]
        if link == _WAIT:
            step -= 1
            continue
        step = labels.step[step, node]
        found.link[datum, count], found.step[datum, count] = link, step
        count += 1
        node = search.network.source[link]
    found.hops[datum] = count
    for place in range(count // 2):
        other = count - 1 - place
        for row in (found.link[datum], found.step[datum]):
            row[place], row[other] = row[other], row[place]


@leaf
def _choose(search: _WindowSearch, datum: int) -> tuple[int, float]:
    """Choose the cheapest path for a datum that has none; return the work, and the cost."""
    looked = _find(search, datum)
    _follow(search, datum)
    return looked, _add(search, datum)


@kernel
def _copy(paths: DataPaths, to: DataPaths, datum: int) -> None:
    """Copy the hops of a datum."""
    to.hops[datum] = paths.hops[datum]
    for place in range(paths.hops[datum]):
        to.link[datum, place], to.step[datum, place] = paths.link[datum, place], paths.step[datum, place]


@kernel
def _toggle(windows: _Windows, kind: int, step: int) -> None:
    """Divide a window before a step, or join it with the one before."""
    opens, end = windows.opens[kind], len(windows.opens[kind])
    opens[step] = not opens[step]
    for begin in range(end - 1, -1, -1):
        windows.end[kind, begin] = end
        if opens[begin]:
            end = begin


@kernel
def _search(search: _WindowSearch, rng: np.random.Generator, effort: int) -> bool:
    """Find a path for each datum; return False if the effort ended before all had one."""
    (kinds, steps), data = search.windows.opens.shape, search.data
    work, cost = 0, 0.0
    for turn in range(TUNING.rounds):
        for datum in range(len(data.size)):
            if turn > 0:
                cost -= _take(search, datum)
            looked, more = _choose(search, datum)
            work += looked
            cost += more
            if work > effort:
                return False
    begin, end = work, min(effort, TUNING.most * work // TUNING.rounds)
    while steps > 1 and work < end:
        kind, step = int(rng.random() * kinds), 1 + int(rng.random() * (steps - 1))
        # Simulated annealing: Metropolis's rule with its random number drawn first; it cools as the effort is
        # spent.
        limit = -TUNING.heat * cost / kinds * (end - work) / (end - begin) * np.log(1 - rng.random())
        looked, more = _change(search, kind, step, limit)
        work += looked + 1
        cost += more
    for _ in range(TUNING.rounds):
        for datum in range(len(data.size)):
            _take(search, datum)
            _choose(search, datum)
    return True


@leaf
def _change(search: _WindowSearch, kind: int, step: int, limit: float) -> tuple[int, float]:
    """Divide or join windows at a step; return the work, and the additional cost, 0 where it was undone."""
    windows, moved = search.windows, search.moved
    steps, more, count, work = windows.opens.shape[1], 0.0, 0, 0
    begin = step - 1
    while not windows.opens[kind, begin]:
        begin -= 1
    for window in (begin, step):  # a window that does not open has no hops
        while windows.first[kind, window] != NONE:
            datum = windows.first[kind, window] // steps
            moved[count] = datum
            count += 1
            _copy(search.found, search.spare, datum)
            more -= _take(search, datum)
    _toggle(windows, kind, step)
    placed = 0
    while placed < count and more <= limit:
        datum = moved[placed]
        work += _find(search, datum)
        if (
            search.labels.cost[steps, search.data.ends[1, datum]] == np.inf
        ):  # windows are too long for its hops
            more = np.inf
            break
        _follow(search, datum)
        more += _add(search, datum)
        placed += 1
    if more <= limit:
        return work, more
    for at in range(placed):
        _take(search, moved[at])
    _toggle(windows, kind, step)
    for at in range(count):
        _copy(search.spare, search.found, moved[at])
        _add(search, moved[at])
    return work, 0.0
