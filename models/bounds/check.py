r"""What each certificate proves, recomputed from the network and the items alone.

No value here comes from the code that found it, and the file is written to be read as a proof. An item
*crosses* a set S of nodes if one of its starts is inside and one of its ends is outside: then at least
its share of M must leave S, be it copied or reduced on the way, by ranks or switches. (The end outside
needs what the start inside has; a sum is as long as its operands.) A certificate may name switches, ``able``,
that are assumed to multicast and aggregate: every schedule stays possible. With B⁺(S) the bandwidth out of S:

cut
    T ≥ M · (shares that cross S) / B⁺(S). No assumption on switches.
degree
    The cut around one rank: S = {v} (``out``) or everything but v (``in``).
distance
    T ≥ the least sum of α over a path from a start of an item to one of its ends.
combined
    Fix an end e outside S and take the items with a start inside at α-distance h or more from e. Their bytes
    on a link (u, w) out of S are sent not before the α's of a path to u have passed, and the α's of a path
    from u to e come after: all within T - h. So T ≥ h + M · (their shares) / B⁺(S) (``in``); with S
    everything but e this is the paced receipt of one rank. Likewise for a fixed start inside (``out``).
    With neither fixed, h may be the least α-distance from any rank inside to any outside, and all items that
    cross S count.
partition
    Allreduce, alone or beside others. Take disjoint parts of nodes that hold all ranks; k of them hold starts
    or ends of an item. Contract each part to a point. If all of a group start and end with it, then for each
    byte of the item the first member part whose knowledge is complete has been reached by at least
    k - 1 transfers between parts, and after that each of the k - 1 others still receives one: 2(k - 1)
    transfers (the least number of one-way calls in gossiping). Of any other item each part but that with its
    one start is reached by a transfer, or each but that with its one end is left by one: k - 1 transfers.
    Each leaves a part and enters a part, so T ≥ M · sum over items of share · transfers a byte / (sum over
    parts of the bandwidth out of, or into, them).
    This counts one sender and one receiver a transfer: a switch outside all parts must neither copy nor
    add. Switches inside parts may do both.
neighbours
    Fix a rank v and let items from one rank each bring it what it needs. What comes over link (x, v) by T is
    in messages that hold it for α and their bytes over b, so b (T - α) at most. If none of it came to x over
    another link, it is no more than x has itself. Else a message with such data began no sooner than the
    least α of a link into x has passed: until then the link idled, or it had another message and paid α
    twice. So it brought at most b (T - α - the lesser of both α's). If all links at their most bring less
    than v needs by every moment before T, then T is a bound (``in``). By T itself they may bring just what v
    needs, if some link brings less just before. For what a rank must send, to one end each, reverse links
    and time (``out``): what does not end at the other side of a link must go on from there.
transfers
    The transfers of `partition`, with messages that cost α, the least on a link that leaves or enters a part.
    A link that is used is held for α besides its bytes, so T ≥ α + M · transfers / capacity. Say that a
    transfer is *single* if it depends on nothing that came into its part from another, and nothing that
    leaves the part which it enters depends on it. A link with another transfer has that wait for what came
    (α at least, in which it idles or sends another message), or be through α before T (and then idles or
    sends another): of its time 2 α are lost. So over a link that may bring b (T - α) bytes, or b (T - 2 α)
    with others than single ones among them, bytes / (T - α) of the single and bytes / (T - 2 α) of the others
    come to b at most, and all to the capacity.
    Of a byte with 2(k - 1) + E transfers at most 9 E + 4 are single, so that E > 0 costs more than it saves
    where T ≥ 10 α. Order transfers by when they enter their link. Let w be the first member part to be
    complete, at the transfer t0. Of each other part from which data has come to w by then take the latest
    transfer out of it on the way of any: these are a *tree* into w, one for each other member at least. A
    part but w is not left by the tree before all its tree transfers came, so a single one is in the tree only
    where it enters w. Each member but w has a further transfer, not before t0, at which it is complete; E
    counts all that is beyond these and k - 1 of the tree, so all *feeds*: those outside the tree before t0.
    (1) Parts but w with two further transfers or more, or no members, have 2 E single ones at most.
    (2) *Special* are members with one, if it is single: v, from u(v). All else v has heard of by ways whose
    last step is the tree's. Without feeds another special is below v in the tree, or is u(v): there are two
    at most. With F feeds: of three or more specials none of which is below another, each has the end
    of a feed below it, so there are F at most, or two. Of specials each below the next all but two must have
    told the lowest before it sent up the tree, which was before they did: by feeds of their own. So they are
    at most 2 max(F, 2) + F ≤ 5 F + 2.
    (3) Single ones into w: E outside the tree. Those of the tree come from parts u of which the next member
    to be complete, r, must hear otherwise, as w passes nothing of them on: by another transfer out of u,
    outside the tree, at which none but r is complete. So there are E + 2 at most, both together: one for
    u = r, one for r's own.
    In all 2 E + 5 E + 2 + E + 2 ≤ 9 E + 4.
mcf
    Only where each item goes from one rank to one rank. Give every link e a length l(e), none negative. Each
    byte of an item runs over links whose lengths add up to at least the distance from its start to its end,
    and in T seconds link e carries at most T b(e) bytes, so
    T ≥ M · sum over items of share · distance / sum over links of l b. (The dual of linear program (A.1).)
lp
    Allreduce of all ranks over trees: rank v roots trees that move x(v) of M, Σ x = M; data is reduced up
    in-trees and broadcast down out-trees. What leaves a set S of ranks down the out-trees is at least
    x(S), and so is what enters it up the in-trees. Give sets weights w, each set ``out`` for the one or
    ``in`` for the other, and links lengths l. If the sets that hold a rank always weigh m or more
    together, and no pair of ranks is crossed by more weight of either kind than the distance between them
    by l, then m M ≤ Σ w x ≤ Σ over links of l · load ≤ T Σ l b. (The dual of linear program (B.5).) It
    bounds other schedules too, scope ``any schedule``, only where the partition bound, which comes with
    it, is as large.
growth
    A message holds each link e of its route for at least α(e), one message at a time, and its head is at the
    end of the link α(e) after it entered. Fix a rank s. A rank, or a switch that copies or adds, *hears* of s
    when the first head of a message with data that depends on s's reaches it, s itself at 0; other switches
    only forward: what came with one message goes on over one link. Each hearing but the first was brought by
    a message; the last node on its way that had heard before is the *parent*, so that these are a tree.
    Count in X(u, t) the ends of s's items (and s) that hear of s through u, u included, within t after u
    did. None is farther from u than t. They are u itself and those that hear through its children. A child w
    that u has a link to counts once, at most X(w, t - α), with the least α of those links; and it is no
    parent of u, so that u may be left out of its sum: X(w, t - α | u). Each other child has a message of its
    own, which enters some link e = (u, w) to a w that only forwards: the j-th, j = 0, 1, ..., not before
    j α(e) after u heard. It stays in one *fabric*, of switches that only forward and are joined by links.
    Take all that hear from u through the same fabric c, their children of that kind, and so on: they are
    different nodes that links lead to from c, and with u at most R(c, u, t) within t: no more than there are,
    nor than 1 + Σ over e into c and j of R(c, w, t - (j + 1) α(e)), where R(c, w, t) of a w in c is the
    largest R(c, w', t - α(e')) over the links e' = (w, w') out of it. Through each of these nodes v, but
    not over c again, hear at most X(v, t | c), X without the sum for c, of which Y(c, t) is the largest.
    Neither falls with t, so that through c no more hear than if the k-th did as soon as R reaches k + 1:
    Σ over 0 < s ≤ t of (R(c, u, s) - R(c, u, s - 1)) Y(c, t - s). Nor more than message by message,
    Σ over e into c and j of X(w, t - (j + 1) α(e)), where X(w, t) of a w in c is the largest of
    X(w', t - α(e')). No X is too small if X(u, t) = min(ends within α-distance t of u, [u is one] +
    Σ over neighbours + Σ over c of the less of these two).
    If X(s, t) is less than the number of ends for all t < T, then T is a bound (``out``). For all starts
    that the data of one end depends on, reverse links and time (``in``). α may be rounded down to whole
    ticks, which only makes X larger, and X then changes at whole ticks only. A node with a link of no
    ticks out of it gets all the ends within the distance, which is rounded down too.
crossings
    Let S be a set of nodes, A the ranks outside and C those inside, and let each of A have something for each
    of C. Take a byte that a start j in A has for an end w in C, or that is of the sum of both. A chain of
    messages brings w what depends on j's. Follow it to where it first enters S, over link e: the message
    there *serves* the pair with that byte. Its sender is a node outside S that holds data (a rank, or a
    switch that copies or adds), and it is for a node that does. It held e from p to q, so it brought
    b(e) (q - p - α(e)) bytes at most. It left its sender u so early that the α's of a path from u to e had
    passed at p: no more of A are in it than X(u, p - these) of ``growth``, links and time reversed; I(e, p)
    is the largest of these over all u. It is complete at its end v not before the α's of a path from e to v
    have passed after q: no more of C hear of it than X(v, T - q - these); O(e, T - q) is the largest of
    these.
    Let each pair have m bytes at most. If each pair has bytes of its own, a message serves no more than I O
    pairs, with m each, and each byte serves one. If what one starts with is for all, at most I m bytes are of
    use, each to O pairs; if what one ends with is of all, O m, each to I; if all is of all and for all, m,
    each to I O. Messages on e are disjoint in time. So if the most that all links into S so can serve until T
    is less than the bytes of all pairs of A and C, T is a bound.
    Bytes that have to do with others than u came over u's links before, no more than f: each link brought
    at most b bytes a second since its α and that of the shortest way to it from another node that holds data
    had passed, until the message left u. Likewise v passes on no more than g. So for a start other than u the
    message has at most f bytes, and for an end other than v at most g, and if both are others the less of
    these: n bytes serve at most n + F (I - 1) + G (O - 1) + min(F, G) (I - 1) (O - 1) pairs' bytes, F and G
    being f and g, but no more than n, and I or O being 1 where each byte has one start or one end. Where what
    one starts with is its own, n itself is at most f and what u starts with for ends in C; where what one
    ends with is its own, at most g and what v ends with from A.
    Time is in ticks, those of ``growth`` cut in parts, no longer than any α(e), so that no message begins and
    ends in one tick. One from tick j to a later tick k is shorter than k + 1 - j, found what there was in
    tick j, and leaves T - k, as far as X goes; and the next on e begins in tick k or later.
messages
    A message over link e holds it for α(e) and its bytes over b(e), one at a time, and holds no more than its
    sender had when it left. Each byte that a rank v ends with came in a chain of messages; if v is in a set S
    of nodes, count it where the chain first enters S. Say that what starts at an α-distance of K or more from
    S is *far*, and let X(e, K, t) be the most far bytes whose chains can have entered S over e by t, and
    Z(e, K, t) those among them that *come through* the node w where e begins: their senders are other nodes
    outside S that hold data (ranks, and switches that copy or add). Of what a sender u had of it at
    s - α(u, w), with which it can enter e at s, there is at most F(u, K, s): for any K', what starts far from
    S but nearer than K' to u, and H(u, K', s - α(u, w)). Say that the last message began on e at s. What came
    before is at most X(e, K, s), and it brought at most b(e) (t - α(e) - s). If it came through, it brought
    no more than F of its sender. If w sent it, all that w sent over e is in F(w, K, s), and all else came
    through, Z(e, K, s) at most. Z is so bounded by itself. H(u, K, t), what u can have from K or farther, is
    at most its own (where K = 0) and the sum of X over the links into u, and no more than there is; nor more
    than what it can have from K' > K and all that starts in between. For F of w the links from S into w are
    left out: a chain over one of them had been in S before. Of senders at one distance the largest H of all
    ranks, or of all such switches, is taken, and the largest number of what is nearer. To an end v in S, data
    that has come over e still takes the α's of a path from e to v. If, X and H so counted, what S needs from
    outside and K or farther is not at v for some S, v and K at a time T, then T is a bound (``in``). For what
    goes from one rank to others, sums, or from all to one's each, reverse links and time (``out``): a rank
    sends on what it was sent before. Where everything starts and ends with everyone, any byte of the sum that
    v ends with depends on a far start: what is far is as long as M, and so is what several ranks have
    together. Where data of each of some ranks is for each other, in whatever form, each must have *heard* of
    each: count one for every rank that a message tells of, and let bytes take no time.
    Time is in ticks. At tick k, X, Z and H are those of any time up to k. X and Z rise by no more than b(e) a
    second, so that a message that begins after tick j and before j + 1 adds to no more than if it began at j,
    and finds what there is at j + 1. α is rounded down. Links with an α of less than two ticks bring b(e) t.
    With j the time that is left falls by at least what X or Z can rise, so that the most is where it meets
    what there is to bring.
relays
    Only where each item goes from one rank to one rank. The links that bring a byte from s to t are a
    chain. A message with it enters link (u, v) of the chain not before the α's of a path from s to u have
    passed, and lets the link go so early that the α's of the chain from v to t can still pass, also where
    it cuts through. Round these two down to distances K_i and K_j, the second link by link from t on: on
    this link the byte is of class (i, j). A message that holds link e from p to q has at most b(e) (q - p
    - α(e)) bytes, all of classes with K_i ≤ p and K_j ≤ T - q. Give each class on each link a price a
    byte, none negative. Then what is moved costs M · sum over items of share · (least sum of prices over
    a chain from s to t), or more; and link e earns at most the largest sum, over disjoint messages, of
    b(e) (q - p - α(e)) · (largest price of such classes). That is linear in all p and q between the
    moments K_i and T - K_j, and a message shorter than α is better left out: the largest sum has all p
    and q at such moments. Where no α is less than K_1 > 0, class (0, 0) on (u, v) is the item from u to v
    alone. Where T > 2 K_1 a message that begins before K_1 and ends after T - K_1 has nothing else, so
    that it earns no more than that item's price; the others must end by K_1 or begin at T - K_1 or later.
    If what is moved costs more than all links can earn in T, which is not less than in less time, T is a
    bound. (Without α the dual of (A.1) again.)
deliveries
    What one rank has and all of some need, copied on the way: *items*; or what all of some have and one
    needs, added up: then reverse links and time (``out``). Of an allreduce, what one rank, the item's start,
    adds to a share: any sum in which it is, is a copy. A node *holds* what messages brought to it, if it is
    a rank or a switch that copies or adds; others only forward. Time is in bins, between some moments from 0
    to T. For each item prices are given, none negative: ρ(v) at its end v, τ(v, i) of what *passes* node v
    in bin i, θ(e, i) of what leaves over a link e in bin i for the end of e, and γ(e, i) of what leaves
    over it and goes on; none rises with i. Take a byte of it. Each end v but its start s, and each node
    that holds it on the way there, is brought it by a message: take the first that has come to v as a
    whole, at a(v) (backwards: of those which tell the end anything, the last to begin). It began at a node
    u at a moment p ≥ a(u), a(s) = 0; let it reach each node of its route at a moment q: at the end of the
    time for which it holds the link, or α after the one before, if that is later. Of these *deliveries*
    one at most leaves u over e for the end of e. Those that go on are different messages for different
    nodes but s, and the j-th, j = 0, 1, ..., begins not before a(u) + j α(e). So let h(v, i) = ρ(v) + the
    sum over links e out of v of (θ(e, i) + the sum over j of γ(e, i + j α(e))), with θ only where the end
    of e holds. On a link from u to v, in which it begins in bin k and reaches v in bin i, let a delivery
    earn h(v, i) if it is for v, τ(v, i) if not; less θ(e, k) or γ(e, k) if it left u; less τ(u, i'), with
    i' α before i, if it came through u. What passes a node loses nothing, as τ does not rise; what leaves v
    is paid for in h(v, a(v)), as θ and γ do not rise. Over all deliveries of the byte that is the sum of ρ
    over its ends less h(s, 0), or more. A message leaves u not before the α's of a path from s to u have
    passed, and bytes of several items in it earn what the dearest does; what falls is left out. (Of links
    unlike in bandwidth a message may be later at v than its time on the link ends: the most of any later
    bin is taken where it came through.) On a link messages are disjoint in time and have b (q - p - α)
    bytes at most. That is linear in all p and q as long as their bins stay the same, so that the largest
    sum has all p and q at moments between bins: what begins there leaves in the bin after, what ends there
    has arrived in the bin before, or, if it came through and that is worth more, in the bin after. If these
    sums, over all links, are less than the share of each item times what its bytes cost, then T is too
    little, and so is less time, in which what is done can be done in T: T is a bound.
itineraries
    All collectives; where links are as fast perhaps with links and time reversed (``out``): then, too, a
    message enters each link of its route α or more after the one before. Each *datum* starts at some ranks,
    which add to it if they are several, and must come to some; a *pair* is one of the former and one of the
    latter. Time is in K ticks. For each pair a price is given of each node in each tick, φ(v, k), that does
    not rise with k; V of each link at each moment, that does not fall; and π. For each byte and pair (s, r) a
    chain of messages brings r what s has, each begun when the one before was there. A message begun at u in
    tick p that is at v in tick q *gains* φ(v, q) - φ(u, p); as what waits only loses, the gains of a chain
    come to φ(r, K - 1) - φ(s, 0) or more. What is below 0 may be left out, and what is begun before data from
    s can be at u, or comes to v when r is too far. A byte in a message is of one datum, on the way of each of
    its pairs at most once. Of a sum that all need who add to it each byte is sent 2 (k - 1) times
    (`partition`; where switches only forward), and a message earns π for it. So all messages earn as much as
    moving all data costs, or more. The *worth* of a datum's byte in a message is π and its pairs' gains. Each
    pair's chain is in it once for each byte, and copies of a byte in it are one transfer, so that it earns no
    more than with all the bytes of the data that are worth most, the dearest first, until it is full.
    A message holds each link of its route from some moment e for α and its bytes over b, and enters the next
    link α later or after that. It pays V at the end of this less V at e for each, its *rent*; messages on a
    link are disjoint, so that all rents come to V(T) - V(0) of all links at most. If no message's worth is
    more than its rent, and all V(T) - V(0) are less than the cost, T is too little, and so is less time.
    It is enough to look at whole ticks. Let α be rounded down to them: links are held shorter, and data come
    no later. What begins at a moment does so in the tick after it, what ends in the tick before. Let L be the
    ticks that the message's bytes take on the slowest link of its route. If all links are as fast, let the
    ticks be given in which L and all entries e and all e + L lie, and p and q. What bytes are worth is
    constant there, and rent is linear in e and L. What f(L) the message earns, with no less than the bytes of
    its speed, is concave in L, which lies between whole k - 1 and k. So let it count as F(k), f(k - 1) and a
    tick's bytes of what it is filled with there: F(k - 1) ≥ f(k - 1) and F(k) - f(k - 1) ≥
    (f(L) - f(k - 1)) / (L - k + 1), so that f lies below the line from F(k - 1) to F(k). Each inequality
    bounds one of e and L, a sum e + L, or a difference of two e's: at corners all are whole, and at one the
    excess over rent is largest. If p is at the end of its tick there, or q at the start, the tick after or
    before is worth no less.
    A link that is faster, by 1 / x, x < 1, is held for α + x L. If L is at a corner, it is more than L - 2
    and less than L + 2 all over the same ticks. So before the slowest link its rent is taken for
    α + ⌊x (L - 2)⌋, linear in e. After it, let t be the moment of the message's tail there, less L: t rises
    by α or more from link to link, is in the place of e, and q = t + α + L at the last one. The link is
    entered from t to t + (1 - x) L: its rent is at least the least for so long, of all moments from the tick
    before t on to a tick after t + (1 - x) (L + 2).
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from tutti.models.bounds.crossing import MOST_RANKS, Crossing
from tutti.models.bounds.delivery import Clock, Delivery, earned
from tutti.models.bounds.itinerary import Datum, Itineraries, taken
from tutti.models.bounds.reachability import Reachability
from tutti.models.bounds.receipt import Demand, Receipt
from tutti.models.bounds.relaying import Relaying
from tutti.models.bounds.windows import Windows
from tutti.schedules.collective import EVERYONE, Collective
from tutti.topologies.errors import InputError
from tutti.topologies.exact import INT64_MAX, IntArray
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import transpose
from tutti.topologies.units import exact_number

Certificate = Mapping[str, Any]
"""Keys by kind; see the functions below."""

_MOST_TICKS = 10**4
"""The most ticks of a certificate. More would take minutes to count."""
_MOST_TICKS_AT_ONCE = 512
"""The most ticks of a certificate whose check tries messages from every tick to every later one."""
_MOST_DISTANCES = 64
"""The most distances of a `relays` certificate. More would take minutes to check."""
_SINGLE, _WAITING = 4, 10
"""The most single transfers of a byte that count, and from what T, in α, on: see the proof of `transfers`."""
REMOVED = {"chains": "0.2"}
"""Kinds of bounds of earlier versions, and the first version without each."""
_STARTS_AT_ONCE = 64
"""Rows of distances held at a time."""


def proven(kind: str, certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    """Return what the certificate proves: s per byte of M, or s where the kind's bound has α's.

    Raises
    ------
    InputError
        If there is no such kind, or the certificate is no certificate for this problem.
    """
    if kind not in PROOFS and kind in REMOVED:
        raise InputError(f"{kind} bound: no longer checked, since version {REMOVED[kind]}")
    if kind not in PROOFS:
        raise InputError(f"unknown kind of bound '{kind}'; allowed: {', '.join(PROOFS)}")
    return PROOFS[kind](certificate, strengthened(topology, certificate.get("able", ())), collective)


def strengthened(topology: Topology, able: Iterable[int]) -> Topology:
    """Return the network with these switches able to multicast and aggregate.

    Every schedule on the network is also a schedule on this one, so a bound on this one holds for both.

    Raises
    ------
    InputError
        If one is no switch.
    """
    more = frozenset(able)
    if not more:
        return topology
    return replace(topology, multicast=topology.multicast | more, aggregate=topology.aggregate | more)


def shortest_path(topology: Topology, origin: int, goal: int) -> tuple[Fraction, list[int]]:
    """Return the least sum of α from node to node, and the nodes of a path that has it."""
    distance, before = _dijkstra(topology, origin)
    path = [goal]
    while path[-1] != origin:
        path.append(before[path[-1]])
    return Fraction(distance[goal], topology.alpha.denominator), path[::-1]


@dataclass(frozen=True)
class _Item:
    starts: frozenset[int]
    ends: frozenset[int]
    share: Fraction

    def crosses(self, inside: frozenset[int]) -> bool:
        return not self.starts.isdisjoint(inside) and not self.ends <= inside


def _items(collective: Collective) -> Iterator[_Item]:
    items = collective.items
    members = [frozenset(group) for group in collective.members]
    ends = zip(items.group.tolist(), items.start.tolist(), items.end.tolist(), items.share, strict=True)
    for group, start, end, share in ends:
        everyone = members[group]
        yield _Item(
            everyone if start == EVERYONE else frozenset([start]),
            everyone if end == EVERYONE else frozenset([end]),
            share,
        )


def _inside(certificate: Certificate, topology: Topology) -> frozenset[int]:
    """Return S: the ranks and switches given, or what the cut around one rank means."""
    if "ranks" in certificate:
        return frozenset([*certificate["ranks"], *certificate["switches"]])
    alone = frozenset([certificate["node"]])
    return alone if certificate["direction"] == "out" else frozenset(range(topology.num_nodes)) - alone


def _exit_bandwidth(topology: Topology, inside: frozenset[int]) -> Fraction:
    links = zip(topology.source.tolist(), topology.target.tolist(), topology.bandwidth, strict=True)
    return sum((b for source, target, b in links if source in inside and target not in inside), Fraction(0))


def _cut(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    inside = _inside(certificate, topology)
    share = sum((item.share for item in _items(collective) if item.crosses(inside)), Fraction(0))
    return share / _exit_bandwidth(topology, inside) if share else Fraction(0)


def _distance(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    origin, goal = certificate["from"], certificate["to"]
    if not any(origin in item.starts and goal in item.ends for item in _items(collective) if item.share):
        raise InputError(f"distance bound: no item of {collective} goes from {origin} to {goal}")
    return shortest_path(topology, origin, goal)[0]


def _combined(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    inside, h = _inside(certificate, topology), exact_number(str(certificate["h"]))
    counts = _counted(certificate, topology, inside, h * topology.alpha.denominator)
    share = sum((item.share for item in _items(collective) if counts(item)), Fraction(0))
    if not share:
        raise InputError(f"combined bound: no item of {collective} crosses at a distance of {h} s or more")
    return h + exact_number(str(certificate["size_bytes"])) * share / _exit_bandwidth(topology, inside)


def _counted(
    certificate: Certificate, topology: Topology, inside: frozenset[int], least: Fraction
) -> Callable[[_Item], bool]:
    """Return which items take at least that long (in units of α) on their way through the cut."""
    outside = frozenset(range(topology.num_ranks)) - inside
    if "node" not in certificate:
        near = [d[end] for d in _distances(topology, inside) for end in outside if d[end] < least]
        return lambda item: not near and item.crosses(inside)
    node, inward = certificate["node"], certificate["direction"] == "in"
    if (node in inside) == inward:
        raise InputError(f"combined bound: node {node} is on the wrong side of its cut")
    distance = _dijkstra(topology, node, backwards=inward)[0]
    far = frozenset(v for v in (inside if inward else outside) if distance[v] >= least)
    if inward:
        return lambda item: node in item.ends and not item.starts.isdisjoint(far)
    return lambda item: node in item.starts and not item.ends.isdisjoint(far)


def _distances(topology: Topology, inside: frozenset[int]) -> Iterator[list[int]]:
    """Yield the distances from each rank inside."""
    return (_dijkstra(topology, v)[0] for v in inside if v < topology.num_ranks)


def _partition(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    parts = [frozenset(part) for part in certificate["parts"]]
    _check_parts(parts, topology)
    shares: defaultdict[tuple[frozenset[int], bool], Fraction] = defaultdict(Fraction)
    for item in _items(collective):
        shares[item.starts | item.ends, item.starts == item.ends and len(item.starts) > 1] += item.share
    if not any(twice for _, twice in shares):
        raise InputError(f"partition bound: it holds for allreduce, not for {collective}")
    transfers = Fraction(0)
    for (ranks, twice), share in shares.items():
        transfers += share * (1 + twice) * (sum(not part.isdisjoint(ranks) for part in parts) - 1)
    part_of = {node: index for index, part in enumerate(parts) for node in part}
    capacity = Fraction(0)
    for source, target, bandwidth in zip(
        topology.source.tolist(), topology.target.tolist(), topology.bandwidth, strict=True
    ):
        end = source if certificate["direction"] == "out" else target
        if end in part_of and part_of.get(source) != part_of.get(target):
            capacity += bandwidth
    return transfers / capacity


def _neighbours(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    node, outward = certificate["node"], certificate["direction"] == "out"
    size, time = (exact_number(str(certificate[name])) for name in ("size_bytes", "time"))
    starts: defaultdict[int, Fraction] = defaultdict(Fraction)
    for item in _items(collective):
        sides = (item.ends, item.starts) if outward else (item.starts, item.ends)
        if len(sides[0]) == 1 and node in sides[1] - sides[0]:
            starts[next(iter(sides[0]))] += size * item.share
    ways = transpose(topology) if outward else topology
    links = list(zip(ways.source.tolist(), ways.target.tolist(), ways.bandwidth, ways.alpha, strict=True))
    brought, rises = Fraction(0), False
    for tail, head, bandwidth, alpha in links:
        if head == node:
            first, own = bandwidth * (time - alpha), starts[tail]
            before = min((least for _, other, _, least in links if other == tail), default=alpha)
            most = max(min(own, first), first - bandwidth * min(alpha, before), Fraction(0))
            brought += most
            rises |= most > (own if first > own else 0)  # just before `time` the link may bring less
    needed = sum(starts.values(), Fraction(0))
    if brought > needed or (brought == needed and not rises):
        raise InputError(f"neighbours bound: rank {node} may have all before {time} s, or needs nothing")
    return time


def _transfers(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    size, time = (exact_number(str(certificate[name])) for name in ("size_bytes", "time"))
    parts = [frozenset(part) for part in certificate["parts"]]
    _check_parts(parts, topology)
    part_of = {node: index for index, part in enumerate(parts) for node in part}
    single = every = Fraction(0)
    for item in _items(collective):
        if item.starts == item.ends and len(item.starts) > 1:
            count = 2 * (sum(not part.isdisjoint(item.starts) for part in parts) - 1)
            every += size * item.share * count
            single += size * item.share * min(_SINGLE, count)
    capacity, alphas = Fraction(0), set[Fraction]()
    ends = zip(topology.source.tolist(), topology.target.tolist(), strict=True)
    for (tail, head), bandwidth, alpha in zip(ends, topology.bandwidth, topology.alpha, strict=True):
        if part_of.get(tail) != part_of.get(head):
            alphas.add(alpha)
            if (tail if certificate["direction"] == "out" else head) in part_of:
                capacity += bandwidth
    alpha = min(alphas)
    plain = every / capacity + alpha
    if not every or not alpha or size <= 0:
        raise InputError(
            f"transfers bound: it holds for allreduce and where messages cost, not for {collective}"
        )
    if time > plain:
        if plain < _WAITING * alpha:
            raise InputError(f"transfers bound: all may be over before {_WAITING} α")
        if (every - single) / (time - 2 * alpha) + single / (time - alpha) < capacity:
            raise InputError("transfers bound: what is moved does not take so long")
    return time


def _check_parts(parts: Iterable[frozenset[int]], topology: Topology) -> None:
    nodes = [node for part in parts for node in part]
    left = set(range(topology.num_nodes)) - set(nodes)
    able = (topology.multicast | topology.aggregate) & left
    if len(nodes) != len(set(nodes)) or any(node < topology.num_ranks for node in left) or able:
        raise InputError("partition bound: parts must be disjoint and hold all ranks and all able switches")


def _mcf(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    lengths: list[int] = certificate["lengths"]
    whole = all(isinstance(length, int) and length >= 0 for length in lengths)
    if len(lengths) != topology.num_links or not whole or not any(lengths):
        raise InputError("mcf bound: lengths must be whole numbers, one a link, not negative, nor all 0")
    _check_pairs("mcf", collective)
    items, moved = collective.items, 0
    for starts in np.array_split(np.unique(items.start), -(-topology.num_ranks // _STARTS_AT_ONCE)):
        rows = np.flatnonzero(np.isin(items.start, starts))
        relaxed = _relaxed(topology, lengths, starts)
        distance = relaxed[np.searchsorted(starts, items.start[rows]), items.end[rows]]
        for share in np.unique(items.share.numerators[rows]).tolist():
            alike = distance[items.share.numerators[rows] == share]
            small = len(alike) * sum(lengths) < INT64_MAX
            moved += share * (int(alike.sum()) if small else sum(alike.tolist()))
    offered = sum(b * length for b, length in zip(topology.bandwidth, lengths, strict=True))
    return Fraction(moved, items.share.denominator) / offered


def _check_pairs(kind: str, collective: Collective) -> None:
    items = collective.items
    if (items.start == EVERYONE).any() or (items.end == EVERYONE).any():
        raise InputError(f"{kind} bound: it is for items from one rank to one rank, not for {collective}")


def _relaxed(topology: Topology, lengths: Sequence[int], starts: IntArray) -> npt.NDArray[Any]:
    """Return numbers d (starts, nodes), 0 at its start, with d(v) ≤ d(u) + l for every link (u, v).

    So d(v) is at most the length of any path to v, added up along it: that is all the bound needs.
    """
    fits = sum(lengths) < INT64_MAX // 4
    ways = np.array(lengths, dtype=np.int64 if fits else object)
    order = np.argsort(topology.target, kind="stable")
    heads, first = np.unique(topology.target[order], return_index=True)
    d = np.full((len(starts), topology.num_nodes), sum(lengths) + 1, dtype=ways.dtype)
    d[np.arange(len(starts)), starts] = 0
    while True:
        through = np.minimum.reduceat(d[:, topology.source[order]] + ways[order], first, axis=1)
        if (d[:, heads] <= through).all():
            return d
        d[:, heads] = np.minimum(d[:, heads], through)


def _lp(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    everyone = frozenset(range(topology.num_ranks))
    if any(item.starts != everyone or item.ends != everyone for item in _items(collective)):
        raise InputError(f"lp bound: it is for an allreduce of all ranks, not for {collective}")
    lengths: list[int] = certificate["lengths"]
    sides = [(cut["direction"], cut["weight"], frozenset(cut["ranks"])) for cut in certificate["cuts"]]
    numbers = [*lengths, *(weight for _, weight, _ in sides)]
    if len(lengths) != topology.num_links or any(not isinstance(n, int) or n < 0 for n in numbers):
        raise InputError("lp bound: lengths, one a link, and weights must be whole numbers, none negative")
    if any(not side < everyone for _, _, side in sides):
        raise InputError("lp bound: each cut must hold some of the ranks, but not all")
    for rank in everyone:
        distance = _dijkstra(topology, rank, lengths=lengths)[0]
        for other in everyone - {rank}:
            if max(_between(sides, rank, other)) > distance[other]:
                raise InputError(f"lp bound: more weight lies between {rank} and {other} than they are apart")
    least = min(sum(weight for _, weight, side in sides if rank in side) for rank in everyone)
    value = least / sum(b * length for b, length in zip(topology.bandwidth, lengths, strict=True))
    anyone = certificate["scope"] == "any schedule"
    if anyone and _partition(certificate["partition"], topology, collective) < value:
        raise InputError("lp bound: the partition does not prove it for any schedule")
    return value


def _growth(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    node, outward, ticks = certificate["node"], certificate["direction"] == "out", int(certificate["ticks"])
    tick = exact_number(str(certificate["tick"]))
    if tick <= 0 or ticks > _MOST_TICKS:
        raise InputError(f"growth bound: {ticks} ticks of {tick} s; at most {_MOST_TICKS} positive ones")
    if type(node) is not int or not 0 <= node < topology.num_ranks:
        raise InputError(f"growth bound: node {node} is not a rank")
    counted = {node}
    for item in _items(collective):
        near, far = (item.starts, item.ends) if outward else (item.ends, item.starts)
        if item.share and node in near:
            counted |= far
    distances = _all_distances(topology, backwards=not outward)
    reachable = Reachability.of(topology, distances, counted, tick, outward)
    # X never falls: it is too large at the end if it is so anywhere before
    if any(reachable.until(before)[node] >= len(counted) for before in range(1, ticks + 1)):
        raise InputError(f"growth bound: all {len(counted)} may be reached before {ticks} ticks of {tick} s")
    return ticks * tick


def _crossings(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    inside, size = _inside(certificate, topology), exact_number(str(certificate["size_bytes"]))
    ticks, tick, parts = certificate["ticks"], exact_number(str(certificate["tick"])), certificate["parts"]
    if type(ticks) is not int or type(parts) is not int or not 0 < ticks <= _MOST_TICKS or parts < 1:
        raise InputError(f"crossings bound: {ticks} ticks in {parts} parts; 1 to {_MOST_TICKS} whole ones")
    if tick <= 0 or size <= 0 or topology.num_ranks > MOST_RANKS:
        raise InputError(f"crossings bound: ticks of {tick} s, {size} bytes, at most {MOST_RANKS} ranks")
    all_items = (item for item in _items(collective) if item.share)
    items = [item for item in all_items if item.starts != item.ends or len(item.ends) > 1]
    ends = zip(topology.source.tolist(), topology.target.tolist(), topology.alpha, strict=True)
    entering = [alpha for tail, head, alpha in ends if tail not in inside and head in inside]
    if not entering or min(entering) * parts < tick:
        raise InputError("crossings bound: α of a link into the set is less than a part of a tick")
    if len({(len(item.starts) > 1, len(item.ends) > 1) for item in items}) != 1:
        raise InputError("crossings bound: all items must have one start or many, and one end or many")
    outer, inner = set[int](), set[int]()
    shares: defaultdict[tuple[int, int], Fraction] = defaultdict(Fraction)
    for item in items:
        outer |= item.starts - inside
        inner |= item.ends & inside
        for pair in product(item.starts - inside, item.ends & inside):
            shares[pair] += item.share
    if not shares:
        raise InputError("crossings bound: no item goes into the set")
    known = _all_distances(topology)
    heard = Reachability.of(topology, list(zip(*known, strict=True)), outer, tick, outward=False)
    told = Reachability.of(topology, known, inner, tick, outward=True)
    of_start = all(len(item.starts) == 1 for item in items)
    for_end = all(len(item.ends) == 1 for item in items)
    crossing = Crossing(
        topology,
        known,
        inside,
        lambda now: heard.until(now + 1),
        lambda now: told.until(now + 1),
        max(shares.values()),
        of_start,
        for_end,
        own=_alone(shares, 0, summed=for_end) if of_start else {},
        due=_alone(shares, 1, summed=of_start) if for_end else {},
    )
    if crossing.serve(sum(shares.values(), Fraction(0)), size, tick, parts, ticks):
        raise InputError(f"crossings bound: all may be served after {ticks} ticks of {tick} / {parts} s")
    return ticks * tick / parts


def _alone(shares: Mapping[tuple[int, int], Fraction], side: int, *, summed: bool) -> dict[int, Fraction]:
    """Return what each rank starts with (side 0) or ends with: for each other its own, if summed, or one."""
    found: defaultdict[int, list[Fraction]] = defaultdict(list)
    for pair, share in shares.items():
        found[pair[side]].append(share)
    return {rank: sum(each, Fraction(0)) if summed else max(each) for rank, each in found.items()}


def _messages(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    outward, tick = certificate["direction"] == "out", exact_number(str(certificate["tick"]))
    ticks, size = int(certificate["ticks"]), exact_number(str(certificate["size_bytes"]))
    known = [int(exact_number(str(d)) * topology.alpha.denominator) for d in certificate["distances"]]
    others = [frozenset([*cut["ranks"], *cut["switches"]]) for cut in certificate["cuts"]]
    if tick <= 0 or size <= 0 or not 0 < ticks <= _MOST_TICKS:
        raise InputError(f"messages bound: {ticks} ticks of {tick} s; 1 to {_MOST_TICKS} positive ones")
    if known != sorted(set(known)) or known[:1] != [0]:
        raise InputError("messages bound: distances must rise, 0 first")
    ways = transpose(topology) if outward else topology
    items = list(_items(collective))
    demand = _hearing(items) if certificate["heard"] else _demand(items, outward)
    # Where bytes take no time, as many as the slowest link brings in a tick are all there are.
    counted = min(topology.bandwidth) * tick if certificate["heard"] else size
    receipt = Receipt(ways, _all_distances(ways), demand, others, known, tick, counted)
    if receipt.all_come(ticks):
        raise InputError(f"messages bound: all may have come after {ticks} ticks of {tick} s")
    return ticks * tick


def _demand(items: Sequence[_Item], outward: bool) -> Demand:
    """Return who starts with what, and who needs all: of items alike in their ends, seen backwards or not."""
    ends = {
        item.starts if outward else item.ends for item in items if item.share and item.starts != item.ends
    }
    starts: defaultdict[int, Fraction] = defaultdict(Fraction)
    summed = [item for item in items if len(item.ends if outward else item.starts) > 1]
    for item in summed or (item for item in items if item.starts != item.ends):
        for rank in item.ends if outward else item.starts:
            starts[rank] += item.share
    ends |= {item.starts for item in summed}
    alike = {item.ends for item in summed} | {item.starts for item in summed}
    if len(ends) != 1 or len(alike) > 1:
        raise InputError("messages bound: not all that is needed is needed by the same ranks")
    return Demand({rank: share for rank, share in starts.items() if share}, ends.pop(), not summed)


def _hearing(items: Sequence[_Item]) -> Demand:
    """Return that each rank starts with as much as any other and needs all; data of each must go to each."""
    moved = [item for item in items if item.share]
    members = frozenset().union(*(item.starts | item.ends for item in moved))
    heard = {(start, end) for item in moved for start in item.starts for end in item.ends if start != end}
    if len(heard) < len(members) * (len(members) - 1):
        raise InputError("messages bound: not all ranks must hear of all")
    return Demand(dict.fromkeys(members, Fraction(1, len(members))), members, adds=True)


def _relays(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    size, time = exact_number(str(certificate["size_bytes"])), exact_number(str(certificate["time"]))
    known = [int(exact_number(str(d)) * topology.alpha.denominator) for d in certificate["distances"]]
    tables, rows = certificate["prices"], certificate["rows"]
    if known != sorted(set(known)) or known[:1] != [0] or len(known) > _MOST_DISTANCES:
        raise InputError(f"relays bound: distances must rise, 0 first, and be at most {_MOST_DISTANCES}")
    square = all([len(row) for row in table] == [len(known)] * len(known) for table in tables)
    if not square or any(type(n) is not int or n < 0 for table in tables for row in table for n in row):
        raise InputError("relays bound: prices must be whole numbers, not negative, for each two distances")
    if len(rows) != topology.num_links or size <= 0 or time <= 0:
        raise InputError("relays bound: it takes a table of prices a link, and a positive size and time")
    _check_pairs("relays", collective)
    own = None
    if len(known) > 1 and topology.alpha.numerators.min() >= known[1]:
        shares: defaultdict[tuple[int, int], Fraction] = defaultdict(Fraction)
        for item in _items(collective):
            shares[min(item.starts), min(item.ends)] += item.share * size
        ends = zip(topology.source.tolist(), topology.target.tolist(), strict=True)
        own = [shares[pair] for pair in ends]
    relaying = Relaying(topology, known, [tables[row] for row in rows], own)
    items: defaultdict[int, list[_Item]] = defaultdict(list)
    for item in _items(collective):
        items[min(item.starts)].append(item)
    cost = Fraction(0)
    for start, moved in items.items():
        costs = relaying.costs(start, _dijkstra(topology, start)[0])
        cost += sum(item.share * costs[min(item.ends)] for item in moved)
    earned = relaying.earned(time)
    if size * cost <= earned:
        raise InputError(
            f"relays bound: links may earn {earned} in {time} s, as much as the {size * cost} to pay"
        )
    return time


def _deliveries(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    size, time, tick = (exact_number(str(certificate[name])) for name in ("size_bytes", "time", "tick"))
    outward = certificate["direction"] == "out"
    ways = transpose(topology) if outward else topology
    sides = ((item.ends, item.starts) if outward else (item.starts, item.ends) for item in _items(collective))
    shares = (item.share for item in _items(collective))
    moved = [
        (have, need, share)
        for (have, need), share in zip(sides, shares, strict=True)
        if share and len(need) > 1
    ]
    starts = certificate.get("starts", [min(have) for have, _, _ in moved])
    windows = Windows([*(mark * tick for mark in certificate["moments"]), time])
    if sorted(set(windows.moments)) != windows.moments or windows.moments[0] or size <= 0 or not moved:
        raise InputError("deliveries bound: it takes bytes for several ranks, and moments that rise from 0")
    ends, passing, leaving = (
        np.array(certificate[name], dtype=np.int64) for name in ("ends", "passing", "leaving")
    )
    if passing.shape != (len(ends), windows.bins) or leaving.shape[::2] != (2, windows.bins):
        raise InputError(f"deliveries bound: rows of prices have one for each of {windows.bins} bins")
    tables = [ends[:, None], passing, leaving]
    most = INT64_MAX // (4 * topology.num_links * topology.num_nodes)
    if any((np.diff(table) > 0).any() or table.min() < 0 or table.max() > most for table in tables):
        raise InputError(f"deliveries bound: prices must be from 0 to {most}, and not rise")
    items, clock = [], Clock(ways, windows)
    rows = zip(certificate["nodes"], certificate["links"], strict=True)
    for (have, need, _), start, (nodes, links) in zip(moved, starts, rows, strict=True):
        if start not in have:
            raise InputError(f"deliveries bound: rank {start} does not have what is to start there")
        if len(nodes) != ways.num_nodes or len(links) != ways.num_links or min(*nodes, *links) < 0:
            raise InputError("deliveries bound: each item has a row of prices for each node and link")
        paid = ends[nodes] * np.isin(np.arange(ways.num_nodes), list(need - {start}))
        come = _dijkstra(ways, start)[0]
        items.append(Delivery(clock, start, come, paid, passing[nodes], *leaving[:, links]))
    cost = size * sum(share * item.cost for item, (_, _, share) in zip(items, moved, strict=True))
    gains = earned(clock, items)
    if cost <= gains:
        raise InputError(f"deliveries bound: links may earn {gains} in {time} s, as much as {cost}")
    return time


def _itineraries(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    size, time = (exact_number(str(certificate[name])) for name in ("size_bytes", "time"))
    outward, moved = certificate["direction"] == "out", defaultdict[Datum, Fraction](Fraction)
    for item in _items(collective):
        if item.share and len(item.starts | item.ends) > 1:
            moved[(item.ends, item.starts) if outward else (item.starts, item.ends)] += item.share
    if outward and not topology.bandwidth.uniform:
        raise InputError("itineraries bound: it looks backwards only where all links are as fast")
    topology = transpose(topology) if outward else topology
    prices, rents = (np.array(certificate[name], dtype=np.int64) for name in ("prices", "rents"))
    ticks, transfer = int(certificate["ticks"]), int(certificate["transfer"])
    to = np.array(certificate["symmetries"], dtype=np.int64).reshape(-1, topology.num_nodes)
    _check_symmetries(to, topology, moved)
    if min(size, time) <= 0 or not moved or not 0 < ticks <= _MOST_TICKS_AT_ONCE:
        raise InputError(
            f"itineraries bound: it takes time, bytes, data to move, and 1 to {_MOST_TICKS_AT_ONCE} ticks"
        )
    pairs = [(datum, start, end) for datum, start, end in certificate["pairs"]]
    _check_heard(pairs, to, list(moved))
    sizes = [size * share for share in moved.values()]
    found = Itineraries(topology, list(moved), sizes, pairs, time / ticks, to, prices, transfer, rents)
    shapes = (int(found.row.max()) + 1, ticks), (int(found.kind.max()) + 1, ticks + 1)
    if (prices.shape, rents.shape) != shapes:
        raise InputError(f"itineraries bound: shapes of prices and of rents; they must be {shapes}")
    if min(transfer, prices.min(), rents.min(), np.diff(rents).min(), np.diff(-prices).min(initial=0)) < 0:
        raise InputError("itineraries bound: prices must not rise, rents not fall, and none be negative")
    if not found.fits:
        raise InputError("itineraries bound: prices are too large to be counted")
    cost = size * found.cost(list(moved.values()))
    if cost <= found.earned:
        raise InputError(f"itineraries bound: links may earn {found.earned} in {time} s, as much as {cost}")
    come = [_dijkstra(topology, v, lengths=found.alpha.tolist())[0] for v in range(topology.num_nodes)]
    if not found.none_is_worth_more(np.array(come)):
        raise InputError("itineraries bound: some message is worth more than its rent")
    return time


def _check_symmetries(to: IntArray, topology: Topology, moved: Mapping[Datum, Fraction]) -> None:
    """Raise `InputError` if some row takes nodes not to nodes, links not to links, or data not to data."""
    columns = topology.source.tolist(), topology.target.tolist(), topology.alpha, topology.bandwidth
    links, able = Counter(zip(*columns, strict=True)), (topology.multicast, topology.aggregate)
    ranks = set(range(topology.num_ranks))
    for row in to.tolist():
        image = Counter({(row[a], row[b], *rest): often for (a, b, *rest), often in links.items()})
        goes = {(taken(starts, row), taken(ends, row)): share for (starts, ends), share in moved.items()}
        kept = sorted(row) == list(range(topology.num_nodes)) and taken(ranks, row) == ranks
        if not kept or image != links or goes != moved or any(taken(one, row) != one for one in able):
            raise InputError("itineraries bound: some row of symmetries is none of the network and the data")


def _check_heard(pairs: Sequence[tuple[int, int, int]], to: IntArray, data: Sequence[Datum]) -> None:
    """Raise `InputError` if some are none of the data, not in order, or not taken to others of them."""
    number = {datum: which for which, datum in enumerate(data)}
    for datum, start, end in pairs:
        if not (
            0 <= datum < len(data) and start in data[datum][0] and end in data[datum][1] and start != end
        ):
            raise InputError(f"itineraries bound: {[datum, start, end]} is no pair of a datum")
    for row in to.tolist():
        image = [number[taken(starts, row), taken(ends, row)] for starts, ends in data]
        if {(image[datum], row[start], row[end]) for datum, start, end in pairs} != set(pairs):
            raise InputError("itineraries bound: symmetries must take pairs to pairs")
    if not pairs or sorted(set(pairs)) != list(pairs):
        raise InputError("itineraries bound: pairs must be in order, and once each")


def _all_distances(topology: Topology, *, backwards: bool = False) -> list[list[int]]:
    return [_dijkstra(topology, v, backwards=backwards)[0] for v in range(topology.num_nodes)]


def _between(sides: Iterable[tuple[str, int, frozenset[int]]], tail: int, head: int) -> tuple[int, int]:
    """Return the weight of the cuts ``out`` that (tail, head) leaves, and of those ``in`` that it enters."""
    out = sum(w for way, w, side in sides if way == "out" and tail in side and head not in side)
    into = sum(w for way, w, side in sides if way == "in" and head in side and tail not in side)
    return out, into


def _dijkstra(
    topology: Topology, origin: int, *, backwards: bool = False, lengths: Sequence[int] | None = None
) -> tuple[list[int], list[int]]:
    """Return distances from (to) `origin` and the node before each; -1: none.

    They are over the denominator of α, unless other lengths are given.
    """
    offsets, links = topology.in_links if backwards else topology.out_links
    other = topology.source if backwards else topology.target
    alpha = topology.alpha.numerators if lengths is None else lengths
    distance, before = [-1] * topology.num_nodes, [-1] * topology.num_nodes
    heap = [(0, origin, -1)]
    while heap:
        so_far, node, via = heapq.heappop(heap)
        if distance[node] >= 0:
            continue
        distance[node], before[node] = so_far, via
        for link in links[offsets[node] : offsets[node + 1]]:
            heapq.heappush(heap, (so_far + int(alpha[link]), int(other[link]), node))
    return distance, before


Proof = Callable[[Certificate, Topology, Collective], Fraction]
"""Recomputes a bound from its certificate alone."""

PROOFS: dict[str, Proof] = {
    "cut": _cut,
    "degree": _cut,
    "partition": _partition,
    "transfers": _transfers,
    "neighbours": _neighbours,
    "mcf": _mcf,
    "lp": _lp,
    "distance": _distance,
    "combined": _combined,
    "growth": _growth,
    "crossings": _crossings,
    "messages": _messages,
    "relays": _relays,
    "deliveries": _deliveries,
    "itineraries": _itineraries,
}
"""By kind; `models.bounds.report.add_kind` adds those from outside."""
