"""Paths that carry a whole demand where they can: a basic solution of a small linear program.

A flow splits most demands over several paths, though few have to be: minimize θ over shares x of each pair's
paths,

    sum over p of load_p(O) x_p ≤ θ capacity(O)     for every link orbit O
    sum over p of a pair's paths of x_p = 1         for every pair,

where the shares as they are take what is proven. A basic solution has at most as many positive shares as
there are rows: no more pairs are split than there are orbits. Of many paths, a block is solved at a time.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
from scipy.sparse import block_array, csc_array, csr_array

from models.all_to_all.decomposition import PathFlow
from models.all_to_all.images import Images
from models.all_to_all.shares import rounded_shares
from models.solvers import CompiledModel, HighsOptions, solve
from topologies.exact import FloatArray, Int64Array, offsets_of

BLOCK = 4000
"""Paths of one program, about; with more, the others' loads are fixed while a block is solved."""

MOST_PATHS = 200_000
"""Paths of the largest flow that this is done for: seconds."""

NOTHING_LOST = 1e-9
"""Relative: what rounding may add to a time that is not known to be the optimum."""


def fewer_paths(images: Images, paths: PathFlow, *, exact: bool) -> PathFlow:
    """Return paths of the representatives that take no longer, and split fewer demands if that can be.

    Parameters
    ----------
    images
        How the paths reach all sources.
    paths
        Of the representatives.
    exact
        Whether their time is the optimum, which must not grow at all.
    """
    pair = _pairs(paths)
    if len(paths) > MOST_PATHS or len(paths) == pair[-1] + 1:
        return paths
    now = images.congestion(paths)
    for parts, denominator in rounded_shares(_basic_shares(images, paths, pair), pair):
        found = _with_shares(paths, pair, np.array(parts, dtype=np.int64), denominator)
        most = now if exact else now * (1 + NOTHING_LOST)
        if len(found) < len(paths) and images.congestion(found) <= most:
            return found
    return paths


def _pairs(paths: PathFlow) -> Int64Array:
    """Return the number, from 0, of each path's pair of ends; those of a pair stand together."""
    source, target = paths.source, paths.target
    new = (source[1:] != source[:-1]) | (target[1:] != target[:-1])
    return offsets_of(new.astype(np.int64))


def _with_shares(paths: PathFlow, pair: Int64Array, parts: Int64Array, denominator: int) -> PathFlow:
    """Return the paths with these shares of their pair's demand, less those without any."""
    demand, kept = paths.demand, np.flatnonzero(parts)
    lengths = np.diff(paths.offsets)
    amounts = demand.amounts[paths.source, paths.target] * parts
    return replace(
        paths,
        amounts=amounts[kept],
        denominator=demand.denominator * denominator,
        offsets=offsets_of(lengths[kept]),
        links=paths.links[np.repeat(parts > 0, lengths)],
    )


def _basic_shares(images: Images, paths: PathFlow, pair: Int64Array) -> FloatArray:
    """Return shares, float64 (paths,), that are basic solutions block by block, the others as they are."""
    loads = csc_array(_loads(images, paths))
    shares = paths.amounts / np.bincount(pair, weights=paths.amounts)[pair]
    starts = np.flatnonzero(np.diff(pair, prepend=-1))
    blocks = starts[
        np.unique(np.searchsorted(starts, np.arange(0, len(paths), BLOCK)).clip(max=len(starts) - 1))
    ]
    for begin, end in itertools.pairwise([*blocks.tolist(), len(paths)]):
        others = loads @ shares - loads[:, begin:end] @ shares[begin:end]
        model = _program(csr_array(loads[:, begin:end]), pair[begin:end] - pair[begin], others)
        result = solve(model, "highs", HighsOptions(method="simplex"))
        if result.values is not None:
            shares[begin:end] = result.values[:-1]
    return shares


def _program(loads: csr_array, pair: Int64Array, others: FloatArray) -> CompiledModel:
    """Return the linear program above for some of the paths, beside what others load; θ is last."""
    orbits, count = loads.shape
    one_each = csr_array((np.ones(count), (pair, np.arange(count))), shape=(int(pair[-1]) + 1, count))
    matrix = csr_array(block_array([[loads, csr_array(-np.ones((orbits, 1)))], [one_each, None]]))
    matrix.sort_indices()
    ones = np.ones(int(pair[-1]) + 1)
    return CompiledModel.of_matrix(
        "paths",
        matrix,
        np.append(np.zeros(count), 1.0),
        (np.append(np.full(orbits, -np.inf), ones), np.append(-others, ones)),
    )


def _loads(images: Images, paths: PathFlow) -> csr_array:
    """Return what each path, with all its pair's demand, loads on each orbit: 1 is what is proven."""
    problem, lengths = images.problem, np.diff(paths.offsets)
    moved = paths.demand.amounts[paths.source, paths.target] * problem.weights[images.row_of[paths.source]]
    time = float(images.congestion(paths) / problem.unit)
    orbit = images.orbit[paths.links]
    value = np.repeat(moved.astype(np.float64), lengths) / (images.capacity[orbit] * time)
    which = np.repeat(np.arange(len(paths)), lengths)
    return csr_array((value, (orbit, which)), shape=(len(images.capacity), len(paths)))
