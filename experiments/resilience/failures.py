"""Which links fail: ``[failures]`` of a config, the samples that it asks for, and the rows' columns."""

from __future__ import annotations

from decimal import Decimal
from itertools import combinations
from math import comb

import numpy as np
from pydantic import Field

from tutti.experiments.runner.config import Placed, Table, at
from tutti.experiments.runner.results import typed
from tutti.experiments.runner.study import matches
from tutti.topologies.errors import InputError
from tutti.topologies.text import with_words
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import adapters, linked_pairs
from tutti.topologies.units import exact_number

ALL = "all"
MOST_SAMPLES = 10**5
"""Most samples of one number of failures on one network."""
MOST_FAILURES = 10**6
"""Most failures of all these samples together."""
DISCONNECTED = "disconnected"
"""The status of a sample whose failures disconnect ranks."""
MADE = REROUTED, REPAIRED, ANEW = "rerouted", "repaired", "anew"
"""The column `made`: a method's schedule is rerouted or repaired, or a new one is made."""
COLUMNS = typed("""
    topology text, nodes int, switches int, links int, collective text, size_bytes int, kind text,
    failures int, failed text, left text, method text, options text, made text, status text, message text,
    time_us float, whole_us float, loss float, bound_us float, bound_kind text, gap float, changed int,
    transfers int, synth_s float
""")
"""Name and type of every column. The first columns describe ``topology`` before the failures. ``failures``
links or adapters (``kind``) fail, which ``failed`` lists, and ``left`` is the remaining network.
``whole_us`` is the time of the method's schedule on the whole network, ``loss`` is ``time_us / whole_us -
1``, and ``gap`` is to the bound of the remaining network. ``changed`` transfers of the schedule for the
whole network have another route. ``synth_s`` is the time that making the schedule took."""


class FailuresTable(Table):
    """``[failures]``: so many links or network adapters (``nics``) at once, sampled; or several such tables.

    Without `degrade` they are gone; with it their bandwidth is times that. `topologies` are shell patterns.
    """

    links: int | list[int] | None = None
    nics: int | list[int] | None = None
    samples: int | str = 100
    seed: int = 0
    degrade: Decimal | int | str | None = None
    topologies: list[str] | None = Field(default=None, min_length=1)


class Failures:
    """A checked ``[failures]`` table.

    Parameters
    ----------
    placed
        The table and where it stands.

    Raises
    ------
    InputError
        If its keys do not fit each other, or a value is out of range.
    """

    def __init__(self, placed: Placed[FailuresTable]) -> None:
        self.where, table = placed.where, placed.table
        self.what = "links" if table.nics is None else "nics"
        given = table.links if table.nics is None else table.nics
        if given is None or None not in (table.links, table.nics):
            raise InputError(f"{self.where}: give how many fail at once: links = [1, 2], or nics")
        self.counts = given if isinstance(given, list) else [given]
        if not self.counts or min(self.counts) < 1 or len(set(self.counts)) < len(self.counts):
            raise InputError(f"{self.where}: {self.what} = {given}; different whole numbers, at least 1")
        self.samples, self.seed, self.topologies = table.samples, table.seed, table.topologies
        number = isinstance(self.samples, int) and 1 <= self.samples <= MOST_SAMPLES
        if not number and self.samples != ALL:
            raise InputError(
                f"{self.where}: samples = {self.samples!r}; it is 1 to {MOST_SAMPLES} or {ALL!r}"
            )
        if self.seed < 0:
            raise InputError(f"{self.where}: seed = {self.seed}; it must not be negative")
        asked = table.degrade
        self.factor = None if asked is None else at(f"{self.where}: degrade", exact_number, str(asked))
        if self.factor is not None and not 0 < self.factor < 1:
            raise InputError(f"{self.where}: degrade = {table.degrade}; it must be above 0 and below 1")

    @property
    def kind(self) -> str:
        """What fails, as rows and charts say."""
        return self.what if self.factor is None else f"{self.what} at {self.factor} of their bandwidth"

    def is_for(self, text: str) -> bool:
        """Whether a pattern of its ``topologies`` matches a network."""
        return matches(text, self.topologies)

    def broken(self, topology: Topology, count: int) -> list[tuple[str, str]]:
        """Return what fails in each sample, and the text of what is left.

        Raises
        ------
        InputError
            If not so many can fail, or all combinations are too many.
        """
        pairs = at(self.where, linked_pairs if self.what == "links" else adapters, topology)
        if count > len(pairs):
            raise InputError(
                f"{self.where}: {self.what} = {count}; {topology.name} has {len(pairs)} that can fail"
            )
        every = comb(len(pairs), count)
        if self.samples == ALL and every > MOST_SAMPLES:
            raise InputError(
                f"{self.where}: {count} of {len(pairs)} {self.what} fail on {topology.name} in more than "
                f"{MOST_SAMPLES} ways; give a number of samples"
            )
        wanted = every if isinstance(self.samples, str) else min(self.samples, every)
        if wanted * count > MOST_FAILURES:
            raise InputError(
                f"{self.where}: {self.what} = {count} in {wanted} samples on {topology.name}; "
                f"at most {MOST_FAILURES} in all samples"
            )
        found = []
        for chosen in drawn(len(pairs), count, wanted, self.seed):
            names = ["-".join(topology.labels[node] for node in pairs[one]) for one in chosen]
            key = "drop_links" if self.factor is None else "degrade"
            words = names if self.factor is None else [f"{name}:{self.factor}" for name in names]
            found.append((",".join(names), with_words(topology.name, key, words)))
        return found


def drawn(number: int, count: int, samples: int, seed: int) -> list[tuple[int, ...]]:
    """Return different combinations of `count` of 0..number-1, at random; all if there are no more.

    Fewer samples are the first of more.

    Examples
    --------
    >>> sorted(drawn(3, 2, 5, seed=0))
    [(0, 1), (0, 2), (1, 2)]
    """
    every, rng = comb(number, count), np.random.default_rng([seed, count])
    if every <= MOST_SAMPLES:
        listed = list(combinations(range(number), count))
        return [listed[one] for one in rng.permutation(every)[:samples]]
    found: dict[tuple[int, ...], None] = {}
    while len(found) < samples:
        found[tuple(sorted(rng.choice(number, count, replace=False).tolist()))] = None
    return list(found)
