"""The bottleneck cut by Newton's method and by the papers' binary search."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from experiments.bench.making import GIGA
from experiments.bench.measurement import Measurement, at_most, exactly, reference, timed
from models.bounds.bottleneck_cut import binary_search_cut, bottleneck_cut
from topologies.text import parse_topology

CUTS: dict[str, Fraction | str] = {
    "dgx_a100:1": Fraction(2400, 7),
    "dgx_a100:2": Fraction(1040, 3),
    "dgx_a100:4": Fraction(800, 3),
    "dgx_a100:16": Fraction(640, 3),
    "dgx_a100:128": Fraction(25600, 127),
    "mi250:2": "354.133",
    "mi250:64": "260.063",
}
"""Bound on algbw in GB/s; a text is rounded to its places."""
CUTS_PUBLISHED = {"dgx_a100:128": "A100 x 1024", "mi250:64": "MI250 x 1024"}
"""Topologies in the dissertation's Table B.2."""


def bench_cut() -> Iterator[Measurement]:
    """The bottleneck cut by Newton's method and by the papers' binary search."""
    bottleneck_cut(parse_topology("dgx_a100:2"))
    for text, printed in CUTS.items():
        topology = parse_topology(text)
        cut, newton = timed(bottleneck_cut, topology)
        other, search = timed(binary_search_cut, topology)
        yield _algbw(text, topology.num_ranks / cut.ratio / GIGA, printed)
        per_shard = "binary search, s/GB of a shard (M/N)"
        yield exactly("cut", text, per_shard, other.ratio * GIGA, cut.ratio * GIGA)
        if text == "dgx_a100:128":
            yield at_most("cut", text, "Newton, s", newton, 1.0)
        else:
            yield Measurement("cut", text, "Newton, s", newton)
        yield Measurement("cut", text, "binary search, s", search, published=_cut_published(text))


def _algbw(text: str, algbw: Fraction, printed: Fraction | str) -> Measurement:
    """Compare exactly, or where the source rounds after the same rounding."""
    quantity = "algbw, GB/s of M"
    if isinstance(printed, Fraction):
        return exactly("cut", text, quantity, algbw, printed)
    places = len(printed.partition(".")[2])
    near = round(algbw, places) == Fraction(printed)
    return Measurement("cut", text, quantity, float(algbw), printed, near, exact=True, decimals=places)


def _cut_published(text: str) -> str:
    if text not in CUTS_PUBLISHED:
        return ""
    row = reference("table_B2_forestcoll_1024_seconds.csv", topology=CUTS_PUBLISHED[text])
    return f"{row['optimality_search']}, {row['cores']} cores (Table B.2)"
