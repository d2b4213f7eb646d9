"""Networks from a line of text: ``family:args[?key=value&key=value]``, notation, or the path of a file.

Keys, in any order, each at most once:

==============  ========================================================================================
``bandwidth``   ``50GB/s``: one for all dimensions (or kinds of link), or one each, comma separated
``alpha``       ``0.5us``: likewise
``reduce``      ``200GB/s``: rate at which a rank reduces received data; by default reducing takes no time
``drop_nodes``  ``7,9``: nodes that failed, by label (a rank's label is its number) or, on grids, coordinates
                such as ``(0,3)``
``drop_links``  ``0-1,2-3``: links that failed, both directions and parallel ones; ``0>1`` one direction
``degrade``     ``0-1:0.5``: links, named as in ``drop_links``, and the exact factor of their bandwidth
``fail_nodes``  ``2``: number of nodes, ranks or switches, that failed at random
``fail_nics``   ``1``: number of network adapters (a node's links out of its host) that failed at random
``fail_links``  ``3``: number of linked pairs of nodes whose links, in both directions, failed at random
``seed``        ``7``: seed of the random failures; 0 by default
``ranks``       ``8+8``: number of ranks that remain in each box, the first ones; the others are removed
``links``       ``2``: number of parallel links that replace each link
``switches``    ``forward``: switches only forward; none multicasts or adds, as programs of ranks need it;
                ``sharp``: every switch multicasts and adds
``rails``       ``2``: number of InfiniBand switches, in families with rails
``twist``       ``4``: how far a wrap round the first dimension of a 2D twisted torus moves along the second
==============  ========================================================================================

The papers' notation, such as ``L^3(C(16,{3,4}))`` (`topologies.families.expressions`), may replace
``family:args``; the network keeps its expression unless a key changes its nodes or links. A family without
arguments is written without a colon: ``dgx1``. A tool's file may also replace it: ``nccl:FILE``,
``nvidia-smi:FILE``, ``rocm-smi:FILE`` or ``amd-smi:FILE`` (`topologies.importing`). It has its own keys:
``hosts=4`` makes four such hosts, joined by ``fabric=switch`` or ``fabric=rails``, and also by NVLink with
``nvlink=all``. ``pcie=all`` keeps all PCIe links, ``pcie=needed`` those that schedules need. Labels in a text
are those of the whole network, before anything is removed; the network is checked after all removals.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tutti.topologies.errors import InputError, suggestion, within
from tutti.topologies.exact import Rationals
from tutti.topologies.families import (
    algebraic,
    circulants,
    clusters,
    direct,
    grids,
    machines,
)
from tutti.topologies.families.expressions import check_growth, looks_like_notation, parse_notation
from tutti.topologies.graphs.grid_structure import check_hosts, grid_of
from tutti.topologies.importing.formats import FORMATS, SUFFIXES, TopologyFormat, read_network
from tutti.topologies.importing.machine import CHOICES, joining_of
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import (
    adapters,
    aggregating,
    degraded,
    forwarding,
    links_between,
    parallel_links,
    random_links,
    random_nodes,
    ranks_beyond,
    without,
)
from tutti.topologies.units import exact_number, parse_bandwidth, parse_time


@dataclass(frozen=True)
class Family:
    """A family of networks, as the text grammar and ``tutti list topologies`` know it.

    Parameters
    ----------
    name
        The word before the colon.
    form
        The arguments, such as ``AxBx...`` or ``d,n``; its separator is theirs. Empty where there are none.
    example
        An example of a whole text.
    summary
        What it is, in one line.
    build
        Takes the arguments as integers, and ``bandwidth`` and ``alpha`` as lists of Fractions or None.
    arguments
        The least and the greatest number of arguments; None: any number.
    keys
        Names of the family's own keys, whose values are whole numbers; `build` takes them by name.
    notation
        Takes the arguments as integers and returns the same network, link by link, in the papers' notation;
        None where there is no such text. A network of equal links keeps it as its expression.
    """

    name: str
    form: str
    example: str
    summary: str
    build: Callable[..., Topology]
    arguments: tuple[int, int | None] = (1, 1)
    keys: tuple[str, ...] = ()
    notation: Callable[..., str | None] | None = None

    @property
    def separator(self) -> str:
        """The separator of the arguments: ``x`` or ``,``."""
        return "x" if re.match("[A-Z]x[A-Z]", self.form) else ","


def _product_of_rings(*lengths: int) -> str | None:
    """Return a torus as a Cartesian product; None with a ring of two, which would have two links each way."""
    if min(lengths) < 3:
        return None
    if len(set(lengths)) == 1:
        return f"BiRing(2,{lengths[0]})^{len(lengths)}" if len(lengths) > 1 else f"BiRing(2,{lengths[0]})"
    return " x ".join(f"BiRing(2,{length})" for length in lengths)


# A new family is a function that returns a Topology, and one line here.
# fmt: off
FAMILIES: dict[str, Family] = {family.name: family for family in (
    Family("ring", "n", "ring:8", "bidirectional ring", grids.ring),
    Family("uniring", "n", "uniring:8", "unidirectional ring", grids.uniring),
    Family(
        "torus", "AxBx...", "torus:4x4", "torus of any dimensions", grids.torus, (1, None),
        notation=_product_of_rings,
    ),
    Family("mesh", "AxBx...", "mesh:5x5", "mesh of any dimensions", grids.mesh, (1, None)),
    Family("hypercube", "d", "hypercube:10", "hypercube of 2^d ranks", grids.hypercube),
    Family("complete", "n", "complete:8", "complete network K_n", grids.complete),
    Family("complete_bipartite", "d", "complete_bipartite:4", "K_{d,d}", grids.complete_bipartite),
    Family("hamming", "n,q", "hamming:2,3", "Hamming graph H(n, q) = K_q^n", grids.hamming, (2, 2)),
    Family("gen_kautz", "d,n", "gen_kautz:4,64", "generalized Kautz of degree d", grids.gen_kautz, (2, 2)),
    Family("circulant", "n,a,b,...", "circulant:16,3,4", "i to i±a, i±b, ...", grids.circulant, (2, None)),
    Family(
        "least_circulant", "d,n", "least_circulant:4,1024",
        "circulant of degree d whose offsets make its diameter small", circulants.least_circulant, (2, 2),
    ),
    Family(
        "directed_circulant", "d", "directed_circulant:4", "x to x + 1, ..., x + d modulo d + 2",
        direct.directed_circulant,
    ),
    Family(
        "biring", "d,n", "biring:4,8", "ring with d/2 parallel links each way",
        direct.bidirectional_ring, (2, 2),
    ),
    Family(
        "directed_ring", "d,n", "directed_ring:2,8", "unidirectional ring with d parallel links",
        direct.unidirectional_ring, (2, 2),
    ),
    Family("kautz", "d,n", "kautz:2,3", "Kautz network K(d, n) = L^n(K_{d+1})", direct.kautz, (2, 2)),
    Family("debruijn", "d,n", "debruijn:2,4", "de Bruijn network of d^n ranks", direct.de_bruijn, (2, 2)),
    Family(
        "modified_debruijn", "d,n", "modified_debruijn:2,4",
        "de Bruijn network with its loops and 2-cycles rewired", direct.modified_de_bruijn, (2, 2),
    ),
    Family("diamond", "", "diamond", "the Diamond network, 8 ranks of degree 2", direct.diamond, (0, 0)),
    Family(
        "distance_regular", "d,n", "distance_regular:4,32",
        "distance-regular graph of degree d on n ranks", algebraic.distance_regular, (2, 2),
    ),
    Family("johnson", "m,k", "johnson:4,2", "Johnson graph J(m, k)", algebraic.johnson, (2, 2)),
    Family(
        "twisted_torus", "AxBx...", "twisted_torus:4x4x8", "torus whose wraps are twisted, as in TPU v4",
        direct.twisted_torus, (2, None), keys=("twist",),
    ),
    Family(
        "twisted_hypercube", "d", "twisted_hypercube:3", "hypercube of diameter d - 1",
        direct.twisted_hypercube,
    ),
    Family("slim_fly", "q", "slim_fly:5", "Slim Fly of 2q^2 ranks, diameter 2", direct.slim_fly),
    Family(
        "random_regular", "d,n[,seed]", "random_regular:4,64", "random regular network",
        direct.random_regular, (2, 3),
    ),
    Family(
        "xpander", "d,copies[,seed]", "xpander:4,16", "Xpander: random lift of K_{d+1}",
        direct.xpander, (2, 3),
    ),
    Family(
        "dragonfly", "AxG", "dragonfly:4x5", "G groups of A ranks, global links", clusters.dragonfly, (2, 2),
    ),
    Family(
        "switch2d", "AxB", "switch2d:8x4", "B boxes of A ranks, switches both ways", clusters.switch2d, (2, 2)
    ),
    Family(
        "rfs", "RxFxS", "rfs:2x4x8", "ring of R, fully connected F, switch of S",
        clusters.ring_fc_switch, (3, 3),
    ),
    Family("dgx1", "", "dgx1", "8 V100 GPUs, NVLinks", machines.dgx1, (0, 0)),
    Family("ndv2", "boxes", "ndv2:2", "a DGX-1 and an InfiniBand adapter a box", machines.ndv2),
    Family("dgx2", "boxes", "dgx2:2", "16 V100 GPUs a box, NVSwitch, 8 InfiniBand adapters", machines.dgx2),
    Family(
        "dgx_a100", "boxes", "dgx_a100:2", "8 A100 GPUs a box, NVSwitch, InfiniBand",
        machines.dgx_a100, keys=("rails",),
    ),
    Family(
        "dgx_h100", "boxes", "dgx_h100:2", "8 H100 GPUs a box, NVSwitch with SHARP, InfiniBand",
        machines.dgx_h100, keys=("rails",),
    ),
    Family(
        "dgx_h200", "boxes", "dgx_h200:2", "8 H200 GPUs a box, the network of dgx_h100",
        machines.dgx_h200, keys=("rails",),
    ),
    Family(
        "dgx_b200", "boxes", "dgx_b200:2", "8 B200 GPUs a box, NVSwitch with SHARP, InfiniBand",
        machines.dgx_b200, keys=("rails",),
    ),
    Family(
        "gb200_nvl72", "racks", "gb200_nvl72:2?ranks=8+8", "72 B200 GPUs a rack, NVLink switches, InfiniBand",
        machines.gb200_nvl72, keys=("rails",),
    ),
    Family(
        "mi300x", "boxes", "mi300x:2", "8 MI300X GPUs a box, all joined by Infinity Fabric, InfiniBand",
        machines.mi300x, keys=("rails",),
    ),
    Family(
        "tpu_v4", "AxBxC", "tpu_v4:4x4x4", "slice of a TPU v4 pod, a 3D torus", machines.tpu_v4, (3, 3),
        notation=_product_of_rings,
    ),
    Family(
        "tpu_v5p", "AxBxC", "tpu_v5p:4x4x4", "slice of a TPU v5p pod, a 3D torus", machines.tpu_v5p, (3, 3),
        notation=_product_of_rings,
    ),
    Family(
        "trn2", "", "trn2", "16 Trainium2 chips of a Trn2 instance, a 4x4 torus", machines.trn2, (0, 0),
        notation=lambda: _product_of_rings(4, 4),
    ),
    Family("mi250", "boxes", "mi250:2", "16 MI250 GPUs a box, Infinity Fabric, InfiniBand", machines.mi250),
    Family(
        "fat_tree", "leaves,ports[,spines[,factor]]", "fat_tree:4,8,2,3",
        "leaf and spine switches, oversubscribed by a factor", clusters.fat_tree, (2, 4),
    ),
    Family(
        "rail_only", "boxes,gpus", "rail_only:4,8",
        "boxes with a switch, GPU i of all boxes on rail i", clusters.rail_only, (2, 2),
    ),
    Family(
        "rail_spine", "boxes,gpus[,factor]", "rail_spine:4,8,2",
        "rails under an oversubscribed spine", clusters.rail_spine, (2, 3),
    ),
    Family(
        "torus_of_boxes", "gpus,a,b,...", "torus_of_boxes:4,3,3",
        "boxes with a switch, GPU i linked to GPU i of the next", clusters.torus_of_boxes, (2, None),
    ),
)}
# fmt: on

_RANDOM_KEYS = ("fail_nodes", "fail_nics", "fail_links")
_KEYS = (
    *("bandwidth", "alpha", "drop_nodes", "drop_links", "degrade", *_RANDOM_KEYS, "seed", "ranks", "links"),
    *("switches", "reduce"),
)
"""Keys of every family. A family may have further keys (`Family.keys`)."""
_COORDINATES = re.compile(r"\(\s*[0-9]{1,9}\s*(?:,\s*[0-9]{1,9}\s*)*\)")
_OUTSIDE_COORDINATES = re.compile(r",(?![^(]*\))")
_FAMILY_TEXT = re.compile(r"([a-z][a-z0-9_]*)(?::(.*))?", re.DOTALL)
_FABRIC = re.compile("network|rail[0-9]+")
"""Labels of the switches that join the hosts' adapters where hosts come from a tool's file."""
_WHOLE_NUMBER = re.compile(r"[0-9]{1,9}")


def parse_topology(text: str) -> Topology:
    """Return the network that a text describes; its name is the text.

    Parameters
    ----------
    text
        ``family:args[?key=value&...]`` (see `FAMILIES` and this module's table of keys), the papers' notation
        in place of ``family:args``, the file of a tool (``nccl:FILE``, see `FORMATS`), or the path of a file
        with a network (`SUFFIXES`), to which ``bandwidth`` and ``alpha`` apply only if it has none.

    Raises
    ------
    InputError
        If the text can't be understood (the message says what is expected), or names no valid network.

    Examples
    --------
    >>> parse_topology("mesh:7x10?bandwidth=16GiB/s,73GiB/s&alpha=1.5us").num_links
    246
    >>> parse_topology("torus:4x4?drop_nodes=7,9").num_ranks
    14
    """
    name = text.strip()
    if _is_there(name):
        return _from_file(name, {})
    head, mark, query = name.partition("?")
    keys = _parse_keys(name, query) if mark else {}
    network = _with_changes(_base(name, head, keys), name, keys)
    gamma = network.gamma
    if "reduce" in keys:
        gamma = 1 / within(f"{_shown(name)}: reduce", lambda: parse_bandwidth(keys["reduce"]))
    return replace(network, name=name, gamma=gamma)


def with_words(text: str, key: str, words: Sequence[str]) -> str:
    """Return the text of a network with words added to the comma-separated list of a key.

    Examples
    --------
    >>> with_words("ring:8?drop_links=0-1&seed=2", "drop_links", ["3-4"])
    'ring:8?drop_links=0-1,3-4&seed=2'
    """
    head, mark, query = (text, "", "") if _is_there(text) else text.partition("?")
    keys = dict(part.partition("=")[::2] for part in query.split("&")) if mark else {}
    keys[key] = ",".join(filter(None, [keys.get(key, ""), *words]))
    return f"{head}?" + "&".join(f"{name}={value}" for name, value in keys.items())


def _base(text: str, head: str, keys: Mapping[str, str]) -> Topology:
    """Return the network before keys remove or add anything."""
    match, start = _FAMILY_TEXT.fullmatch(head), head.partition(":")[0]
    if match and match[1] in FAMILIES:
        return _build(text, FAMILIES[match[1]], match[2], keys)
    if start in FORMATS:
        return _imported(text, FORMATS[start], head.partition(":")[2], keys)
    if head.endswith((*SUFFIXES, ".xml")) or _is_there(head):
        return _from_file(head, _file_defaults(text, keys))
    misspelt = start.lower().replace("-", "_") in FAMILIES
    if looks_like_notation(head):
        with suppress(InputError) if misspelt else nullcontext():
            _own_keys(text, "the papers' notation", (), keys)
            bandwidth, alpha = _rates(text, keys)
            try:
                expression = parse_notation(head)
                check_growth(expression)
                return expression.topology(bandwidth, alpha)
            except InputError as error:
                raise InputError(f"{_shown(text)}: {error}") from None
    if _is_there(head, Path.is_dir):
        raise InputError(f"{_shown(text)} is a folder; name a file in it, or a family, e.g. torus:4x4")
    if match or misspelt:
        raise InputError(
            f"{_shown(text)}: unknown family '{start}'{suggestion(start, [*FAMILIES, *FORMATS])}"
        )
    raise InputError(
        f"{_shown(text)} is not understood; write family:args, e.g. torus:4x4, the papers' notation, "
        "e.g. L(K_{4,4}), or the path of a .json file"
    )


def _imported(text: str, form: TopologyFormat, path: str, keys: Mapping[str, str]) -> Topology:
    """Return the network in the file of a tool."""
    if not path:
        raise InputError(f"{_shown(text)}: no file; write e.g. {form.example}")
    own = _own_keys(text, form.name, ("hosts",), {key: keys[key] for key in keys if key not in CHOICES})
    words = {key: keys[key] for key in CHOICES if key in keys}
    bandwidth, alpha = _rates(text, keys)
    if bandwidth and not form.bandwidths:
        raise InputError(f"{_shown(text)}: {form.name} has no bandwidth=; the file says it link by link")
    joining = joining_of(_shown(text), own.get("hosts", 1), words, alpha)
    return form.read(path, text, joining, bandwidth)


def _from_file(path: str, defaults: Mapping[str, Fraction]) -> Topology:
    """Return the network in a file; its hosts, if it has any, are checked."""
    topology = read_network(path, defaults)
    check_hosts(topology)
    return topology


def _shown(text: str) -> str:
    return f"topology {text[:120]!r}{'...' * (len(text) > 120)}"


def _is_there(name: str, such: Callable[[Path], bool] = Path.is_file) -> bool:
    """Return whether a file, or a folder, has this name, which is not that of a family."""
    try:
        return bool(name) and name.partition(":")[0] not in {**FAMILIES, **FORMATS} and such(Path(name))
    except (OSError, ValueError):  # no file can have such a name
        return False


def _owners() -> dict[str, list[str]]:
    """Return the keys that only some families or files have, with the names of these."""
    owners: dict[str, list[str]] = {}
    for family in FAMILIES.values():
        for key in family.keys:
            owners.setdefault(key, []).append(family.name)
    return dict(sorted(owners.items())) | {key: list(FORMATS) for key in ("hosts", *CHOICES)}


def _file_defaults(text: str, keys: Mapping[str, str]) -> dict[str, Fraction]:
    """Return the bandwidth and the α of all links that the keys give, for a file that has none."""
    for key in _owners():
        if key in keys:
            raise InputError(f"{_shown(text)}: {key}= is for families; a file says it link by link")
    found = {}
    for key, values in zip(("bandwidth", "alpha"), _rates(text, keys), strict=True):
        if values is not None:
            if len(values) > 1:
                raise InputError(f"{_shown(text)}: {key}= has {len(values)} values; a file needs one")
            found[key] = values[0]
    return found


def _build(text: str, family: Family, args: str | None, keys: Mapping[str, str]) -> Topology:
    words = (args or "").split(family.separator) if args else []
    least, most = family.arguments
    if words and most == 0:
        raise InputError(f"{_shown(text)}: {family.name} takes no arguments; {_expected(family)}")
    if not all(_WHOLE_NUMBER.fullmatch(word) for word in words):
        wrong = next(word for word in words if not _WHOLE_NUMBER.fullmatch(word))
        raise InputError(f"{_shown(text)}: '{wrong}' is not a whole number below 10^9; {_expected(family)}")
    if len(words) < least or (most is not None and len(words) > most):
        raise InputError(f"{_shown(text)}: {len(words)} arguments; {_expected(family)}")
    own = _own_keys(text, family.name, family.keys, keys)
    bandwidth, alpha = _rates(text, keys)
    built: Any = family.build(*map(int, words), **own, bandwidth=bandwidth, alpha=alpha)
    if not isinstance(built, Topology):
        raise InputError(f"{_shown(text)}: {family.name} returned {type(built).__name__}, not a Topology")
    if family.notation is None or built.node_bandwidth is None:
        return built
    notation = family.notation(*map(int, words))
    return built if notation is None else replace(built, expression=parse_notation(notation))


def _rates(text: str, keys: Mapping[str, str]) -> tuple[list[Fraction] | None, list[Fraction] | None]:
    """Return the bandwidths and the α that the keys give."""
    bandwidth = _quantities(text, keys, "bandwidth", parse_bandwidth)
    return bandwidth, _quantities(text, keys, "alpha", parse_time)


def _own_keys(text: str, name: str, own: tuple[str, ...], keys: Mapping[str, str]) -> dict[str, int]:
    """Return the values of this family's own keys; refuse keys that belong to others only."""
    for key, able in _owners().items():
        if key in keys and key not in own:
            raise InputError(f"{_shown(text)}: {name} has no {key}; families that do: {', '.join(able)}")
    return {key: _whole_numbers(text, key, [keys[key]])[0] for key in own if key in keys}


def _expected(family: Family) -> str:
    if not family.form:
        return f"expected {family.name} alone"
    return f"expected {family.name}:{family.form}, e.g. {family.example}"


def _quantities(
    text: str, keys: Mapping[str, str], key: str, parse: Callable[[object], Fraction]
) -> list[Fraction] | None:
    """Return the values of a key, if it is given; refuse numbers that no network can hold exactly."""
    if key not in keys:
        return None
    values: list[Fraction] = within(_shown(text), lambda: [parse(word) for word in keys[key].split(",")])
    try:
        Rationals.of(values)
    except InputError:
        shown = "is too large" if len(values) == 1 else "has values too large or too far apart"
        limit = "each must fit 64 bits over their common denominator, in bytes/s or seconds"
        raise InputError(f"{_shown(text)}: {key} {shown}; {limit}") from None
    return values


def _parse_keys(text: str, query: str) -> dict[str, str]:
    keys: dict[str, str] = {}
    for part in query.split("&"):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        known = (*_KEYS, *_owners())
        if not part.strip():
            raise InputError(f"{_shown(text)}: nothing stands after '?' or '&'{suggestion('', known)}")
        if key not in known:
            raise InputError(f"{_shown(text)}: unknown key '{key}'{suggestion(key, known)}")
        if not equals or not value:
            raise InputError(f"{_shown(text)}: key '{key}' has no value; write {key}=...")
        if key in keys:
            raise InputError(f"{_shown(text)}: key '{key}' occurs twice; separate values by commas")
        keys[key] = value
    return keys


def _with_changes(base: Topology, text: str, keys: Mapping[str, str]) -> Topology:
    """Return the network with all changes that the keys ask for; removals are made together."""
    nodes: list[int] = []
    links: list[int] = []
    if "drop_nodes" in keys:
        for label in _listed(keys["drop_nodes"]):
            _add_once(nodes, [_node(base, text, label)], f"{_shown(text)}: drop_nodes: '{label}'")
    if "ranks" in keys:
        nodes += ranks_beyond(base, _whole_numbers(text, "ranks", keys["ranks"].split("+")))
    if "drop_links" in keys:
        for pair in _listed(keys["drop_links"]):
            _add_once(
                links, _links_of(base, text, "drop_links", pair), f"{_shown(text)}: drop_links: '{pair}'"
            )
    if "seed" in keys and not any(key in keys for key in _RANDOM_KEYS):
        raise InputError(f"{_shown(text)}: seed= is for {' and '.join(f'{key}=' for key in _RANDOM_KEYS)}")
    seed = _whole_numbers(text, "seed", [keys.get("seed", "0")])[0]
    fails = {key: _whole_numbers(text, key, [keys[key]])[0] for key in _RANDOM_KEYS if key in keys}
    nodes += random_nodes(base, fails.get("fail_nodes", 0), seed, failed=nodes)
    if "fail_nics" in fails:
        links += random_links(base, fails["fail_nics"], seed, pairs=adapters(base), nodes=nodes, links=links)
    links += random_links(base, fails.get("fail_links", 0), seed, nodes=nodes, links=links)
    changed = _degraded(base, text, keys)
    if nodes or links:
        changed = without(changed, nodes=nodes, links=links, name=text)
    if "links" in keys:
        changed = parallel_links(changed, _whole_numbers(text, "links", [keys["links"]])[0])
    return _with_switches(changed, text, keys.get("switches"))


def _with_switches(base: Topology, text: str, kind: str | None) -> Topology:
    """Return the network with switches of that kind."""
    kinds = {None: lambda network: network, "forward": forwarding, "sharp": aggregating}
    if kind not in kinds:
        raise InputError(f"{_shown(text)}: switches={kind}; it can be: forward, sharp")
    return kinds[kind](base)


def _add_once(known: list[int], more: list[int], what: str) -> None:
    """Add the numbers that a word of a text names; refuse those that another word has named."""
    if not set(known).isdisjoint(more):
        raise InputError(f"{what} is named twice")
    known += more


def _listed(value: str) -> list[str]:
    """Split a list at its commas, except at those inside coordinates."""
    return _OUTSIDE_COORDINATES.split(value)


def _degraded(base: Topology, text: str, keys: Mapping[str, str]) -> Topology:
    """Return the network with slower links."""
    slower: list[int] = []
    for word in _listed(keys["degrade"]) if "degrade" in keys else []:
        pair, colon, factor = word.rpartition(":")
        if not colon:
            raise InputError(f"{_shown(text)}: degrade: '{word}' has no factor; write e.g. 0-1:0.5")
        exact = within(f"{_shown(text)}: degrade", partial(exact_number, factor.strip()))
        links = _links_of(base, text, "degrade", pair)
        _add_once(slower, links, f"{_shown(text)}: degrade: '{pair}'")
        base = degraded(base, links, exact)
    return base


def _whole_numbers(text: str, key: str, words: list[str]) -> list[int]:
    for word in words:
        if not _WHOLE_NUMBER.fullmatch(word.strip()):
            example = "ranks=8+8" if key == "ranks" else f"{key}=2"
            wrong = f"'{word}' is not a whole number below 10^9"
            raise InputError(f"{_shown(text)}: {key}: {wrong}; write e.g. {example}")
    return [int(word) for word in words]


def _node(base: Topology, text: str, label: str) -> int:
    """Return the node of a label, or of coordinates."""
    label = label.strip()
    if label in base.labels:
        return base.labels.index(label)
    if _COORDINATES.fullmatch(label):
        return _rank_at(base, text, label)
    last = base.labels[base.num_ranks - 1]
    switches = base.labels[base.num_ranks :]
    # The switches of the network come last, after those of the hosts.
    some = switches if len(switches) <= 4 else (*switches[:2], "...", switches[-1])
    nodes = ", ".join((f"{base.labels[0]}..{last}", *some))
    raise InputError(f"{_shown(text)}: no node '{label}'; nodes are {nodes}{_own_adapter(base)}")


def _own_adapter(base: Topology) -> str:
    """Return a hint that the adapter of a single GPU is named as a link; empty if there is none."""
    for source, target in zip(base.source.tolist(), base.target.tolist(), strict=True):
        if source < base.num_ranks and _FABRIC.fullmatch(base.labels[target]):
            link = f"{base.labels[source]}-{base.labels[target]}"
            return f"; an adapter that one GPU alone reaches is that GPU's link, e.g. drop_links={link}"
    return ""


def _rank_at(base: Topology, text: str, coordinates: str) -> int:
    """Return the rank at coordinates, in the grid that the text's lengths or the network's links form."""
    at = tuple(int(number) for number in re.findall("[0-9]+", coordinates))
    match = _FAMILY_TEXT.fullmatch(text.partition("?")[0])
    if match and match[1] in FAMILIES and FAMILIES[match[1]].separator == "x":
        ranks = np.arange(base.num_ranks).reshape([int(length) for length in match[2].split("x")])
    elif (grid := grid_of(base)) is not None:
        ranks = grid.ranks
    else:
        raise InputError(f"{_shown(text)}: {coordinates}: the network is no grid; name nodes by their labels")
    if len(at) != ranks.ndim or any(place >= length for place, length in zip(at, ranks.shape, strict=True)):
        last = ",".join(str(length - 1) for length in ranks.shape)
        first = ",".join("0" * ranks.ndim)
        raise InputError(f"{_shown(text)}: no rank at {coordinates}; ranks are at ({first}) to ({last})")
    return int(ranks[at])


def _links_of(base: Topology, text: str, key: str, pair: str) -> list[int]:
    """Return the links that ``a-b`` (both directions) or ``a>b`` means; labels may hold these signs."""
    for sign in re.finditer("[->]", pair):
        ends = [pair[: sign.start()].strip(), pair[sign.end() :].strip()]
        if all(end in base.labels or _COORDINATES.fullmatch(end) for end in ends):
            one, other = (_node(base, text, end) for end in ends)
            return links_between(base, one, other, both=sign[0] == "-")
    words = re.split("[->]", pair)
    if len(words) == 2:
        for word in words:
            _node(base, text, word)
    raise InputError(f"{_shown(text)}: {key}: '{pair}' is no link; write e.g. 0-1 (both directions) or 0>1")
