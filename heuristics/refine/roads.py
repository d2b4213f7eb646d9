"""The routes that messages take, in classes of routes that symmetries of the network map to each other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from tutti.heuristics.refine.plan import Roads
from tutti.heuristics.rounds.routes import single_messages
from tutti.schedules.schedule import Routes
from tutti.topologies.exact import Int32Array, Int64Array, offsets_of
from tutti.topologies.graphs.shortest_paths import Route, hops_from_each
from tutti.topologies.topology import Neighbours, Topology
from tutti.topologies.transforms import transpose


@dataclass(frozen=True, eq=False)
class RoutedNetwork:
    """A topology with its messages' routes, and a group of automorphisms.

    Parameters
    ----------
    topology
        The network, whose ranks are the only nodes that keep data.
    nodes, links
        int32, shape (elements, nodes) and (elements, links): the group, the identity first.
    routes
        The routes of single messages, and all their images.
    kind
        int32, shape (routes,): the orbit of each.
    backwards
        Whether time runs backwards: a message then ends at the same time on a faster link of its route as on
        the slowest one, instead of beginning at the same time.
    """

    topology: Topology
    nodes: Int32Array
    links: Int32Array
    routes: Routes
    kind: Int32Array
    backwards: bool = False

    @classmethod
    def of(cls, topology: Topology, group: tuple[Int32Array, Int32Array] | None = None) -> RoutedNetwork:
        """Return the network with a group, or with the identity alone.

        A group is not used if it maps one link of a route to another of it, or a route to another one over
        the same link: its routes would block each other.
        """
        nodes, links = group or (
            np.arange(topology.num_nodes, dtype=np.int32)[None],
            np.arange(topology.num_links, dtype=np.int32)[None],
        )
        known: dict[Route, int] = {}
        for route in single_messages(replace(topology, multicast=frozenset())):
            if route not in known:
                number = len(known)
                for image in links[:, list(route)].tolist():
                    known.setdefault(tuple(image), number)
        kind, alike = np.unique(list(known.values()), return_inverse=True, return_counts=True)[1:]
        orbit = links.min(axis=0)
        members = np.bincount(orbit, minlength=topology.num_links)
        for route, own in zip(known, alike[kind].tolist(), strict=True):
            crossed = orbit[list(route)]
            if len(np.unique(crossed)) < len(route) or (members[crossed] != own).any():
                return cls.of(topology)
        return cls(topology, nodes, links, Routes.of(list(known)), kind.astype(np.int32))

    def reversed(self) -> RoutedNetwork:
        """Return the transposed network, its routes and time turned round, with the same group."""
        turned = Routes.of([links[::-1] for links in self.routes.lists])
        return replace(self, topology=transpose(self.topology), routes=turned, backwards=not self.backwards)

    @property
    def alone(self) -> RoutedNetwork:
        """The same routes, each in a class of its own: the group is the identity."""
        kind = np.arange(len(self.kind), dtype=np.int32)
        return replace(self, nodes=self.nodes[:1], links=self.links[:1], kind=kind)

    @property
    def images(self) -> Int64Array:
        """int64, shape (elements, routes): the route that each element takes each route to."""
        length = np.diff(self.routes.offsets)
        taken = np.empty((len(self.links), len(self.routes)), np.int64)
        for hops in np.unique(length):
            routes = np.flatnonzero(length == hops)
            own = self.routes.links[self.routes.offsets[routes, None] + np.arange(hops)]
            taken[:, routes] = routes[_rows_of(own, self.links[:, own])]
        return taken

    def roads(self, unit: Fraction) -> Roads:
        """Return the classes of routes, with times for units of `unit` bytes.

        Data over a route that several elements keep goes with as many images.
        """
        topology, ranks = self.topology, self.topology.num_ranks
        source = topology.source[self.routes.links[self.routes.offsets[:-1]]]
        target = topology.target[self.routes.links[self.routes.offsets[1:] - 1]]
        examples = np.unique(self.kind, return_index=True)[1]
        hops = [self.routes.links[self.routes.offsets[i] : self.routes.offsets[i + 1]] for i in examples]
        flat = np.concatenate(hops)
        length = [len(links) for links in hops]
        images = len(self.links) / np.bincount(self.kind)
        alpha, byte = topology.alpha.floats, float(unit) / topology.bandwidth.floats
        link = np.unique(self.links.min(axis=0), return_inverse=True)[1]
        slowest = images * np.array([byte[links].max() for links in hops])
        each = np.repeat(images, length) * byte[flat]
        spare = np.repeat(slowest, length) - each
        return Roads(
            source=source,
            target=target,
            kind=self.kind,
            first=offsets_of(length),
            link=link[flat].astype(np.int32),
            enter=np.concatenate([np.cumsum(alpha[links]) - alpha[links] for links in hops]),
            lag=spare if self.backwards else np.zeros(len(flat)),
            alpha=alpha[flat],
            byte=each,
            latency=np.array([alpha[links].sum() for links in hops]),
            slowest=slowest,
            into=offsets_of(np.bincount(target, minlength=ranks)),
            entering=np.argsort(target, kind="stable").astype(np.int32),
            out=offsets_of(np.bincount(source, minlength=ranks)),
            leaving=np.argsort(source, kind="stable").astype(np.int32),
            hops=hops_from_each(Neighbours.of(source, target, ranks), np.arange(ranks)).astype(np.int64),
        )


def _rows_of(table: Int32Array, rows: Int32Array) -> Int64Array:
    """Return for each row its number in a table, where rows are along the last axis."""
    known, code = np.zeros(len(table), np.int64), np.zeros(rows.shape[:-1], np.int64)
    base = int(table.max()) + 1
    for column in range(table.shape[1]):  # rows are ranked by their first columns, and then by one more
        key = known * base + table[:, column]
        ranks = np.unique(key)
        known, code = np.searchsorted(ranks, key), np.searchsorted(ranks, code * base + rows[..., column])
    return np.argsort(known)[code]
