"""The programs in linopy: labelled arrays of variables, sums over groups of links, HiGHS by its interface.

`programs` says what the four programs are. A variable is multiplied by 1 where an expression is needed, which
can be summed over groups.
"""

from __future__ import annotations

from typing import Any

import linopy
import numpy as np
import pandas as pd
import xarray as xr

from tutti.experiments.layers.programs import HIGHS, Built, Network
from tutti.topologies.exact import FloatArray


def _over(**sizes: int) -> list[Any]:
    """Return coordinates 0, 1, ... of dimensions with these names and sizes."""
    return [pd.RangeIndex(size, name=name) for name, size in sizes.items()]


def _ends(network: Network) -> tuple[Any, Any]:
    """Return source and target of each link as groups named u."""
    return tuple(
        xr.DataArray(ends, dims="e", coords={"e": range(network.links)}, name="u")
        for ends in (network.source, network.target)
    )


def _capacity(b: FloatArray) -> Any:
    """Return capacities as an array over links e."""
    return xr.DataArray(b, dims="e", coords={"e": range(len(b))})


def _built(m: Any, name: str = "capacity", rows: Any = None) -> Built:
    """Return the model. Constraints `name` have capacities on the right, or `rows` makes them from these."""

    def solve() -> float:
        m.solve("highs", io_api="direct", progress=False, **HIGHS)
        return float(m.objective.value)

    def change(b: FloatArray) -> None:
        if rows is None:
            m.constraints[name].update(rhs=_capacity(b))
        else:
            m.remove_constraints(name)
            m.add_constraints(rows(b), name=name)

    return Built(solve, change)


def flow(network: Network) -> Built:
    """Build (A.1): every node receives f from every source."""
    m, (source, target) = linopy.Model(), _ends(network)
    y = m.add_variables(lower=0, coords=_over(s=network.nodes, e=network.links), name="y")
    f = m.add_variables(lower=0, name="f")
    m.add_constraints(y.sum("s") <= _capacity(network.b), name="capacity")
    through = (1 * y).groupby(target).sum() - (1 * y).groupby(source).sum()
    other = xr.DataArray(~np.eye(network.nodes, dtype=bool), dims=("s", "u"))
    m.add_constraints(through - f >= 0, name="balance", mask=other)
    m.add_objective(1 * f, sense="max")
    return _built(m)


def allreduce(network: Network) -> Built:
    """Build (B.5): x[u] of the broadcast and of the reduction have their root at u.

    Here bc and re are the capacities of the two, and f[t] and g[t] the flows to and from node t. In them,
    fs[t, u] comes from the super-source to u, and gs[t, u] goes from u to the super-sink.
    """
    m, (source, target), N, E = linopy.Model(), _ends(network), network.nodes, network.links
    x = m.add_variables(lower=0, coords=_over(u=N), name="x")
    bc, re = (m.add_variables(lower=0, coords=_over(e=E), name=name) for name in ("bc", "re"))
    fs, gs = (m.add_variables(lower=0, coords=_over(t=N, u=N), name=name) for name in ("fs", "gs"))
    f, g = (m.add_variables(lower=0, coords=_over(t=N, e=E), name=name) for name in ("f", "g"))
    own = xr.DataArray(np.eye(N), dims=("t", "u"), coords={"t": range(N), "u": range(N)})
    through = [(1 * flow).groupby(target).sum() - (1 * flow).groupby(source).sum() for flow in (f, g)]
    m.add_constraints(through[0] + fs - own * x.sum() >= 0, name="broadcast")
    m.add_constraints(through[1] - gs >= 0, name="reduction", mask=own == 0)
    m.add_constraints(gs.sum("u") - x.sum() >= 0, name="reduced")
    for part, most in ((fs, x), (gs, x), (f, bc), (g, re)):
        m.add_constraints(part - most <= 0, name=f"{part.name}_most")
    m.add_constraints(bc + re <= _capacity(network.b), name="capacity")
    m.add_objective(x.sum(), sense="max")
    return _built(m)


def bfb(network: Network) -> Built:
    """Build (3.1): x[i] of v's shard comes over link e, for row i = (v, e) of `Network.eligible`."""
    m, (v, e) = linopy.Model(), network.eligible.T
    u = np.array(network.target)[e]
    t = network.hops[v, u] - 1
    x = m.add_variables(lower=0, coords=_over(i=len(e)), name="x")
    U = m.add_variables(coords=_over(t=int(network.hops.max())), name="U")
    # For each x: the number of its load (a link in a step), and of its arrival (a shard at a node).
    keys, load = np.unique(e * U.size + t, return_inverse=True)
    arrival = np.unique(v * network.nodes + u, return_inverse=True)[1]
    groups = [
        xr.DataArray(group, dims="i", coords={"i": range(len(e))}, name="k") for group in (load, arrival)
    ]
    limits = (1 * U).isel(t=xr.DataArray(keys % U.size, dims="k", coords={"k": range(len(keys))}))
    link = keys // U.size

    def rows(b: FloatArray) -> Any:
        rates = xr.DataArray(b[link], dims="k", coords={"k": range(len(keys))})
        return (1 * x).groupby(groups[0]).sum() - rates * limits <= 0

    m.add_constraints(rows(network.b), name="brought")
    m.add_constraints((1 * x).groupby(groups[1]).sum() == 1, name="arrives")
    m.add_objective(U.sum())
    return _built(m, "brought", rows)


def sends(network: Network) -> Built:
    """Build the binary program: x[c, e, t] sends chunk c over e in step t; h[c, u, t]: u has it before t."""
    m, (source, target), N, T = linopy.Model(), _ends(network), network.nodes, network.steps
    x = m.add_variables(binary=True, coords=_over(c=N, e=network.links, t=T), name="x")
    # At first each node has its own chunk alone, and after T steps all of them.
    lower, upper = np.zeros((N, N, T + 1)), np.ones((N, N, T + 1))
    lower[:, :, T] = 1.0
    lower[:, :, 0] = upper[:, :, 0] = np.eye(N)
    places = _over(c=N, u=N, t=T + 1)
    h = m.add_variables(*(xr.DataArray(side, places) for side in (lower, upper)), coords=places, name="h")
    before, after = h.isel(t=slice(0, T)), h.isel(t=slice(1, None)).assign_coords(t=range(T))
    m.add_constraints(after - before - (1 * x).groupby(target).sum() <= 0, name="held")
    m.add_constraints(x - before.isel(u=source.rename(None)) <= 0, name="sent")
    m.add_constraints(x.sum("c") <= _capacity(network.b), name="capacity")
    m.add_objective((x * xr.DataArray(np.arange(1, T + 1), dims="t", coords={"t": range(T)})).sum())
    return _built(m)
