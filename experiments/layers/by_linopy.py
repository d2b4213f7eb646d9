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


def _along(dim: str, values: Any, name: str | None = None) -> Any:
    """Return one value for each place of a dimension; of groups, under their name."""
    return xr.DataArray(values, dims=dim, coords={dim: range(len(values))}, name=name)


def _ends(network: Network) -> tuple[Any, Any]:
    """Return source and target of each link as groups named u."""
    return _along("e", network.source, "u"), _along("e", network.target, "u")


def _built(m: Any, rows: Any = None) -> Built:
    """Return the model; `rows` returns its rows "capacity" where capacities are coefficients."""

    def solve() -> float:
        m.solve("highs", io_api="direct", progress=False, **HIGHS)
        return float(m.objective.value)

    def change(b: FloatArray) -> None:
        if rows is None:
            m.constraints["capacity"].update(rhs=_along("e", b))
        else:
            m.remove_constraints("capacity")
            m.add_constraints(rows(b), name="capacity")

    return Built(solve, change)


def flow(network: Network) -> Built:
    """Build (A.1): every node receives f from every source."""
    m, (source, target) = linopy.Model(), _ends(network)
    y = m.add_variables(lower=0, coords=_over(s=network.nodes, e=network.links), name="y")
    f = m.add_variables(lower=0, name="f")
    m.add_constraints(y.sum("s") <= _along("e", network.b), name="capacity")
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
    m.add_constraints(bc + re <= _along("e", network.b), name="capacity")
    m.add_objective(x.sum(), sense="max")
    return _built(m)


def bfb(network: Network) -> Built:
    """Build (3.1): x[i] of a shard comes over a link, for row i of `Network.eligible`."""
    m, (keys, load) = linopy.Model(), network.loads
    x = m.add_variables(lower=0, coords=_over(i=len(load)), name="x")
    U = m.add_variables(coords=_over(t=int(network.hops.max())), name="U")
    groups = [_along("i", group, "k") for group in (load, network.arrival)]
    limits, link = (1 * U).isel(t=_along("k", keys % U.size)), keys // U.size

    def rows(b: FloatArray) -> Any:
        return (1 * x).groupby(groups[0]).sum() - _along("k", b[link]) * limits <= 0

    m.add_constraints(rows(network.b), name="capacity")
    m.add_constraints((1 * x).groupby(groups[1]).sum() == 1, name="arrives")
    m.add_objective(U.sum())
    return _built(m, rows)


def sends(network: Network) -> Built:
    """Build the binary program: x[c, e, t] sends chunk c over e in step t; h[c, u, t]: u has it before t."""
    m, (source, target), N, T = linopy.Model(), _ends(network), network.nodes, network.steps
    x = m.add_variables(binary=True, coords=_over(c=N, e=network.links, t=T), name="x")
    places = _over(c=N, u=N, t=T + 1)
    h = m.add_variables(*(xr.DataArray(side, places) for side in network.held), coords=places, name="h")
    before, after = h.isel(t=slice(0, T)), h.isel(t=slice(1, None)).assign_coords(t=range(T))
    m.add_constraints(after - before - (1 * x).groupby(target).sum() <= 0, name="held")
    m.add_constraints(x - before.isel(u=source.rename(None)) <= 0, name="sent")
    m.add_constraints(x.sum("c") <= _along("e", network.b), name="capacity")
    m.add_objective((x * _along("t", np.arange(1, T + 1))).sum())
    return _built(m)
