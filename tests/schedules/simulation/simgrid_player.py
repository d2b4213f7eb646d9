"""Simulates a schedule file in SimGrid and prints the seconds that it takes there.

It shares only the file with tutti, and runs in the Python that SimGrid is installed for (Debian:
``apt-get install python3-simgrid``, Python 3.11)::

    python3.11 simgrid_player.py schedule.json --bytes 1000000 [--slices S] [--share]

Every link is a SimGrid link, and every route a pair of hosts, because SimGrid has one route for each pair.
TCP's corrections are off: a message of b bytes over links of latency l and bandwidth B takes the sum of l,
plus b over its share of the slowest B (max-min fair). A message starts when its data is there and the first
link of its route is idle (with ``--share``, when its data is there; messages share the link). One SimGrid
second is a microsecond, because its precision is absolute.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

MICROSECONDS = 10**6
UNITS = {
    **{
        f"{p}B/s": Fraction(10**k, 10**6)
        for p, k in zip(("", "K", "M", "G", "T"), range(0, 15, 3), strict=True)
    },
    **{f"{p}iB/s": Fraction(2**k, 10**6) for p, k in zip("KMGT", range(10, 50, 10), strict=True)},
    "s": Fraction(10**6),
    "ms": Fraction(10**3),
    "us": Fraction(1),
    "ns": Fraction(1, 10**3),
}
"""The size of each unit, in bytes per microsecond or in microseconds."""
CORRECTIONS_OFF = (
    "network/model:CM02",
    "network/TCP-gamma:0",
    "network/crosstraffic:0",
    "network/bandwidth-factor:1",
    "network/latency-factor:1",
    "network/weight-S:0",
)


def quantity(text: str) -> float:
    """Return a bandwidth in bytes per microsecond, or a time in microseconds."""
    unit = text.lstrip("0123456789./")
    return float(Fraction(text.removesuffix(unit)) * UNITS[unit])


class Messages:
    """The messages of a schedule file: the data, route and predecessors of each.

    Rows with one route and order are one message. In a flow each row is a message, cut into slices.
    """

    def __init__(self, document: dict[str, Any], size: int, slices: int) -> None:
        table, self.routes = document["transfers"], document["routes"]
        flow = document["clock"] == "flow"
        parts, denominator = document["chunks"]["size"], document["denominator"]
        rows = len(table["chunk"])
        counts, orders = table.get("count", [1] * rows), table.get("order", [0] * rows)
        number: dict[Any, int] = {}
        self.bytes: list[float] = []
        self.route: list[int] = []
        self.order: list[int] = []
        self.slice: list[int] = []
        self.after: list[set[int]] = []
        writers: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for row in range(rows):
            first, route, order = table["chunk"][row], table["route"][row], orders[row]
            key = row if flow else (route, order)
            if key not in number:
                number[key] = len(self.bytes)
                for part in range(slices):
                    self.bytes.append(0.0)
                    self.route.append(route)
                    self.order.append(0 if flow else order)
                    self.slice.append(part)
                    self.after.append(set())
            message = number[key]
            for chunk in range(first, first + counts[row]):
                before = writers[table["src"][row], chunk]
                for part in range(slices):
                    self.bytes[message + part] += parts[chunk] * size / denominator / slices
                    self.after[message + part] |= {
                        other + part for other in before if flow or self.order[other] < order
                    }
                writers[table["dst"][row], chunk].append(message)


class Queue:
    """The messages that leave over one link, and those that may start."""

    def __init__(self) -> None:
        self.ready: list[tuple[int, int, int, int]] = []
        self.unsent: list[int] = []
        self.busy, self.arrivals = False, 0

    def add(self, order: int, part: int, message: int) -> None:
        """Note a message whose data is there."""
        self.arrivals += 1
        self.ready.append((part, self.arrivals, order, message))

    def take(self, *, share: bool) -> list[int]:
        """Return the messages that start now, by order, then by slice, then by the time they became ready."""
        taken: list[int] = []
        while self.ready and (share or not self.busy):
            least = min(self.unsent)
            able = [one for one in self.ready if share or one[2] == least]
            if not able:
                break
            one = min(able)
            self.ready.remove(one)
            self.unsent.remove(one[2])
            self.busy = True
            taken.append(one[3])
        return taken


class Conductor:
    """The actor that starts messages when they may start, and notes the time when all have arrived."""

    def __init__(self, messages: Messages, ends: list[tuple[Any, Any]], *, share: bool) -> None:
        self.messages, self.ends, self.share = messages, ends, share
        self.first = [messages.routes[route][0] for route in messages.route]
        self.queues = {link: Queue() for link in self.first}
        self.waiting = [len(after) for after in messages.after]
        self.followers: defaultdict[int, list[int]] = defaultdict(list)
        self.active: list[tuple[int, Any]] = []
        self.finished = 0.0
        for message, after in enumerate(messages.after):
            self.queues[self.first[message]].unsent.append(messages.order[message])
            for other in after:
                self.followers[other].append(message)

    def __call__(self) -> None:
        """Simulate all messages."""
        from simgrid import Comm, Engine

        able = [message for message, many in enumerate(self.waiting) if many == 0]
        self.start(able, set(self.first))
        while self.active:
            done, _ = self.active.pop(Comm.wait_any([comm for _, comm in self.active]))
            self.queues[self.first[done]].busy = False
            able = []
            for message in self.followers[done]:
                self.waiting[message] -= 1
                if self.waiting[message] == 0:
                    able.append(message)
            self.start(able, {self.first[message] for message in (done, *able)})
        if any(queue.unsent for queue in self.queues.values()):
            raise SystemExit("messages wait for each other")
        self.finished = Engine.clock

    def start(self, able: list[int], links: set[int]) -> None:
        """Queue messages whose data is there, and start those that may leave over these links."""
        from simgrid import Comm

        for message in able:
            order, part = self.messages.order[message], self.messages.slice[message]
            self.queues[self.first[message]].add(order, part, message)
        for link in sorted(links):
            for message in self.queues[link].take(share=self.share):
                comm = Comm.sendto_init(*self.ends[self.messages.route[message]])
                comm.set_payload_size(round(self.messages.bytes[message])).start()
                self.active.append((message, comm))


def play(document: dict[str, Any], size: int, slices: int, *, share: bool) -> float:
    """Return the seconds that a schedule takes."""
    from simgrid import Actor, Engine, LinkInRoute, NetZone

    options = [f"--cfg={option}" for option in CORRECTIONS_OFF]
    engine = Engine([sys.argv[0], *options, "--log=root.thres:error"])
    messages = Messages(document, size, slices)
    zone = NetZone.create_full_zone("network")
    links = []
    for number, edge in enumerate(document["topology"]["edges"]):
        link = zone.create_link(f"link{number}", quantity(edge["bandwidth"]))
        links.append(link.set_latency(quantity(edge["alpha"])).seal())
    ends = []
    for number, route in enumerate(messages.routes):
        one, other = (zone.create_host(f"{end}{number}", 1.0) for end in ("from", "to"))
        way = [LinkInRoute(links[link]) for link in route]
        zone.add_route(one.netpoint, other.netpoint, None, None, way, False)
        ends.append((one, other))
    zone.seal()
    conductor = Conductor(messages, ends, share=share)
    Actor.create("conductor", ends[0][0], conductor)
    engine.run()
    return conductor.finished / MICROSECONDS


def main() -> int:
    """Simulate the file that the command line names."""
    parser = argparse.ArgumentParser(prog="simgrid_player.py", allow_abbrev=False)
    parser.add_argument("file", help="a schedule as JSON (tutti synth -o)")
    parser.add_argument("--bytes", type=int, required=True, help="M")
    parser.add_argument("--slices", type=int, default=1, help="of each row of a flow")
    parser.add_argument("--share", action="store_true", help="messages share their first link")
    given = parser.parse_args()
    document = json.loads(Path(given.file).read_text(encoding="utf-8"))
    sys.stdout.write(f"{play(document, given.bytes, given.slices, share=given.share)!r}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
