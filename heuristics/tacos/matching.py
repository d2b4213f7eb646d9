"""Rules by which free links take chunks that all ranks want, by `TacosOptions.chunk_rule`.

* Link first (``uniform``, ``rarest``, ``scarcest``). Each free link takes one of the chunks that it can
bring.
  Where links differ, a link that would idle may take over a chunk of a slower one (`replace`).
* Postcondition first (``paper``): Algorithm 1 as printed.
* All links of a receiver together (``maximum``): as many links as possible are used, exactly.

For the last rule, chunks over links into different nodes do not conflict, so each receiver is a separate
matching problem. Its free in-links are on one side, and the chunks that it wants on the other. An edge joins
them where the link's source has the chunk. Each chunk is brought once. Of the matchings with the most links
the kernel takes one with

* The rarest chunks. Sort them by the number of ranks that have each or are being sent it; then no other
matching
  has a smaller number first. The sets of chunks that can be matched together are the independent sets of a
  (transversal) matroid. So it suffices to take chunks rarest first wherever an alternating path admits one,
  and this also gives the most links.
* Among those, the cheapest links. Each path ends at the cheapest free link that it can reach. This is the
shortest
  augmenting path of the assignment whose cost is that of its links.

Of a link's candidates only the d rarest matter if d links are free: in a matching that uses another one, one
of these is left over, since the other links use at most d - 1.

Algorithm 1 of the paper takes pairs in random order and never takes a match back, so it may leave a link idle
that a matching uses. Which rule makes the shorter schedules is measured in ``docs/tacos.md``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tutti.heuristics.tacos import event_state, round_matching
from tutti.heuristics.tacos.bitsets import (
    NOTHING,
    WORD_BITS,
    Planes,
    add_saturating,
    bit,
    intersection,
    keep_smallest,
    random_below,
    random_element,
    shuffle,
    size,
)
from tutti.heuristics.tacos.event_loop import NEVER, MatchedTransfers
from tutti.heuristics.tacos.event_state import (
    Synthesis,
    matches,
    occupy,
    order_by_cost,
    promise,
    release,
    send,
    starve,
)
from tutti.heuristics.tacos.network import TacosNetwork
from tutti.heuristics.tacos.options import MAXIMUM, PAPER, SAMPLED
from tutti.topologies.exact import NONE, BoolArray, Int64Array
from tutti.topologies.graphs.symmetry import mixed as hashed
from tutti.topologies.kernels import assign, kernel, leaf

UNIFORM, RAREST, SCARCEST = range(3)
ORDERS = {"uniform": UNIFORM, "rarest": RAREST, "scarcest": SCARCEST}
"""The rules by which a free link chooses a chunk, by name: see `TacosOptions.chunk_rule`."""


RANDOM_BITS = 32
"""Bits of the random number below a chunk's rarity in its priority. A larger value makes ties less likely."""


class LinkFirst(NamedTuple):
    """Each free link takes a chunk, by one of `ORDERS`; `wait` says whether it may wait for faster links."""

    order: int
    wait: bool


class Replacing(NamedTuple):
    """Each free link takes a chunk, by one of `ORDERS`; an idle one takes over a slower link's chunk."""

    order: int


class PostconditionFirst(NamedTuple):
    """Algorithm 1 as printed: each unmet postcondition takes a free link.

    Parameters
    ----------
    pairs
        int64: (destination, chunk) pairs, each as chunk * nodes + destination.
    left
        int64, shape (1,): the number that are not met; they come first.
    replace
        Whether an idle link takes over a slower one's chunk (2023 version).
    """

    pairs: Int64Array
    left: Int64Array
    replace: bool


class MostLinks(NamedTuple):
    """A matching of each receiver with the most links, and whether links may wait for faster ones."""

    wait: bool


def synthesize(
    network: TacosNetwork,
    owner: Int64Array,
    pick: str,
    wait: bool,
    replace: bool,
    seed: np.uint64,
    threads: int = 1,
) -> MatchedTransfers:
    """Return the transfers that bring every chunk from its owner to all nodes, by start.

    Parameters
    ----------
    network
        Strongly connected.
    owner
        int64, shape (chunks,): where each chunk starts.
    pick, wait, replace
        The rule; see `TacosOptions`.
    seed
        The seed of all random choices.
    threads
        Threads that share the nodes with ``"sampled"``; without effect on the result.
    """
    if pick == SAMPLED:
        return round_matching.synthesize(network, owner, round_matching.Sampled(seed), threads)
    if pick == MAXIMUM:
        return event_state.synthesize(network, owner, MostLinks(wait), seed)
    rule: PostconditionFirst | Replacing | LinkFirst
    if pick == PAPER:
        rule = unmet_postconditions(network, owner, replace)
    else:
        rule = Replacing(ORDERS[pick]) if replace else LinkFirst(ORDERS[pick], wait)
    return event_state.synthesize(network, owner, rule, seed, replace)


# Link first


@matches(LinkFirst)
@leaf
def match_links(rule: LinkFirst, made: Synthesis, listed: int, now: int) -> None:
    """Give each listed link a chunk that its source has and its destination wants, if there is one."""
    network, candidates = made.network, made.candidates
    order_by_cost(made, listed)
    for i in range(listed):
        link = made.cheapest_first[i]
        total = intersection(made.have[network.source[link]], made.want[network.target[link]], candidates)
        if total and rule.wait and network.cost[link]:
            total = leave_to_faster(made, link, total, now)
        if total:
            send(made, link, choose(made, link, rule.order, total), now)
        else:
            starve(made, link)


@leaf
def own_candidates(made: Synthesis, link: int) -> np.int64:
    """Put into `trial`, and count, the candidates that no source of a faster in-link has or is sent."""
    network, own = made.network, made.trial
    target = network.target[link]
    for w in range(len(own)):
        own[w] = made.candidates[w]
    for i in range(network.in_first[target], network.in_first[target + 1]):
        other = network.in_links[i]
        if network.cost[other] < network.cost[link]:
            lacks = made.want[network.source[other]]
            for w in range(len(own)):
                own[w] &= lacks[w]
    return size(own)


@leaf
def leave_to_faster(made: Synthesis, link: int, total: np.int64, now: int) -> np.int64:
    """Drop the candidates that faster links will bring before this one could; return how many are left.

    That is done only if those links have room, until this one would deliver, for all chunks that the
    destination still wants. Then each chunk that one of their sources has, or is being sent, is left to them.
    No chunk is left for all time: of the links with a wanted chunk, the cheapest has no faster one to leave
    it to.
    """
    arrival = now + made.network.duration[made.network.cost[link]]
    if room_of_faster(made, link, now, arrival) < size(made.want[made.network.target[link]]):
        return total
    own_candidates(made, link)
    return intersection(made.trial, made.trial, made.candidates)


@leaf
def room_of_faster(made: Synthesis, link: int, now: int, until: int) -> np.int64:
    """Return how many chunks the cheaper links into a link's destination can bring until then."""
    network, room = made.network, np.int64(0)
    target = network.target[link]
    for i in range(network.in_first[target], network.in_first[target + 1]):
        other = network.in_links[i]
        if network.cost[other] < network.cost[link]:
            free_at = now if made.arrival[other] == NEVER else made.arrival[other]
            room += max(0, until - free_at) // network.duration[network.cost[other]]
    return room


@leaf
def choose(made: Synthesis, link: int, order: int, total: np.int64) -> np.int64:
    """Return one of the `total` candidates for a link, ties at random.

    Algorithm 1 draws uniformly; the chunk bound is met on tori only if scarcity comes first.
    """
    candidates, trial = made.candidates, made.trial
    if total > 1 and order == RAREST:
        total = keep_smallest(candidates, made.spread, trial)
    if total > 1 and order != UNIFORM:
        count_links_in(made, link)
        total = keep_smallest(candidates, made.links_in, trial)
    if total > 1 and order == SCARCEST:
        total = keep_smallest(candidates, made.spread, trial)
    return random_element(candidates, total, made.random)


@leaf
def count_links_in(made: Synthesis, link: int) -> None:
    """Count, for each chunk, the other in-links of the destination whose source has it, as none, one or more.

    The upper two planes count the links that are still free, and the lower two all of them. It is best if a
    link takes a chunk that only it can bring now, or at all. Chunks that others can bring as well can still
    fill those.
    """
    network, planes = made.network, made.links_in
    target = network.target[link]
    planes[:] = 0
    for i in range(network.in_first[target], network.in_first[target + 1]):
        other = network.in_links[i]
        if other == link:
            continue
        have = made.have[network.source[other]]
        add_saturating(planes[0], planes[1], have)
        if made.arrival[other] == NEVER:
            add_saturating(planes[2], planes[3], have)


# Chunk replacement


@matches(Replacing)
@leaf
def match_and_replace(rule: Replacing, made: Synthesis, listed: int, now: int) -> None:
    """Give each listed link a chunk that it can bring, else one that a slower link carries.

    Links whose slots are dropped are matched at the same event: their sources may have got other chunks.
    """
    network = made.network
    while listed:
        order_by_cost(made, listed)
        count, listed = listed, 0
        for i in range(count):
            link = made.cheapest_first[i]
            have, wanted = made.have[network.source[link]], made.want[network.target[link]]
            total = intersection(have, wanted, made.candidates)
            if total:
                send(made, link, choose(made, link, rule.order, prefer_own(made, link, total)), now)
                continue
            freed = replace(made, link, rule.order, now)
            if freed == link:
                starve(made, link)
            elif freed != NOTHING:
                made.listed[listed] = freed
                listed += 1


@leaf
def prefer_own(made: Synthesis, link: int, total: np.int64) -> np.int64:
    """Drop the candidates that a faster link can bring, if others are left; return how many are."""
    if made.network.cost[link] == 0:
        return total
    own = own_candidates(made, link)
    return intersection(made.trial, made.trial, made.candidates) if own else total


@leaf
def replace(made: Synthesis, link: int, order: int, now: int) -> np.int64:
    """Let an idle link take over a chunk that is on its way to its destination (2023, IV-F, Fig. 12b).

    The slot that carried the chunk gets another one, or is dropped. A transfer never carries a chunk that its
    source did not have when it began.

    Returns
    -------
    int
        The link that is left free: `link` itself if it takes nothing over, another one whose slot is dropped,
        or -1 for none.
    """
    other, node = replaceable(made, link, now), made.network.target[link]
    if other == NOTHING:
        return np.int64(link)
    occupy(made, link, made.carries[other], now)
    total = intersection(made.held[other], made.want[node], made.candidates)
    if total == 0:
        release(made, other)
        return other
    made.carries[other] = choose(made, other, order, prefer_own(made, other, total))
    promise(made, node, made.carries[other])
    return NOTHING


@leaf
def replaceable(made: Synthesis, link: int, now: int) -> np.int64:
    """Return the link whose chunk an idle one takes over; -1 for none.

    The idle link brings the chunk no later. If there is another chunk for the slot, nothing is lost. If not,
    the slot is dropped, but only if the chunk then comes earlier, and if the slot begins now or faster links
    have room, until it would end, for all that its destination lacks. Of several slots, those that get
    another chunk come first, then those that end last.
    """
    network, found, fills, latest = made.network, NOTHING, np.int64(0), np.int64(0)
    target, have = network.target[link], made.have[network.source[link]]
    wanted, mine = made.want[target], now + network.duration[network.cost[link]]
    for i in range(network.in_first[target], network.in_first[target + 1]):
        other = np.int64(network.in_links[i])
        arrival, chunk = made.arrival[other], made.carries[other]
        if not mine <= arrival < NEVER or not have[chunk // WORD_BITS] & bit(chunk):
            continue
        more = min(intersection(made.held[other], wanted, made.candidates), np.int64(1))
        if not more and arrival == mine:
            continue
        begins = arrival == now + network.duration[network.cost[other]]
        if not (more or begins or room_of_faster(made, other, now, arrival) > size(wanted)):
            continue
        if more > fills or (more == fills and arrival > latest):
            found, fills, latest = other, more, arrival
    return found


# Postcondition first: Algorithm 1 as printed


def unmet_postconditions(network: TacosNetwork, owner: Int64Array, replace: bool) -> PostconditionFirst:
    """Return all (destination, chunk) pairs that the precondition does not meet."""
    num_nodes = len(network.in_first) - 1
    pairs = np.arange(len(owner) * num_nodes)
    pairs = pairs[pairs % num_nodes != np.repeat(owner, num_nodes)]
    return PostconditionFirst(pairs, np.full(1, len(pairs)), replace)


@matches(PostconditionFirst)
@leaf
def match_postconditions(unmet: PostconditionFirst, made: Synthesis, listed: int, now: int) -> None:
    """Match each unmet pair, in random order, to a free link whose source has the chunk (Algorithm 1).

    Then links that are still free take over from slower ones (2023, IV-F), until none is freed by that.
    Invariant: the pairs that are not matched yet come first.
    """
    freed = True
    while freed:
        _pass_postconditions(unmet, made, now)
        freed = False
        for link in range(len(made.arrival) if unmet.replace else 0):
            if made.arrival[link] == NEVER:
                other = replace(made, link, UNIFORM, now)
                freed |= other != link and other != NOTHING


@leaf
def _pass_postconditions(unmet: PostconditionFirst, made: Synthesis, now: int) -> None:
    """Go through all unmet pairs once."""
    num_nodes = len(made.have)
    # Algorithm 1: random_shuffle(unsatisfied_postcond).
    shuffle(unmet.pairs, unmet.left[0], made.random)
    kept = 0
    for i in range(unmet.left[0]):
        chunk, node = unmet.pairs[i] // num_nodes, unmet.pairs[i] % num_nodes
        if not made.want[node, chunk // WORD_BITS] & bit(chunk):
            continue  # it has been put into a slot that was replaced
        link = cheapest_provider(made, node, chunk)
        if link >= 0:
            send(made, link, chunk, now)
        else:
            unmet.pairs[kept] = unmet.pairs[i]
            kept += 1
    unmet.left[0] = kept


@leaf
def cheapest_provider(made: Synthesis, node: int, chunk: int) -> int:
    """Return a free in-link of least cost whose source has the chunk, ties uniform; -1 for none."""
    network = made.network
    found, ties, least = -1, 0, len(network.duration)
    # Algorithm 1: backtrack from the destination to candidate_srcs, of which random_select takes one; section
    # IV-F: if they differ, the cheapest.
    for i in range(network.in_first[node], network.in_first[node + 1]):
        link = network.in_links[i]
        if made.arrival[link] != NEVER or network.cost[link] > least:
            continue
        if not made.have[network.source[link], chunk // WORD_BITS] & bit(chunk):
            continue
        if network.cost[link] < least:
            least, ties = network.cost[link], 0
        ties += 1
        if random_below(made.random, ties) == 0:
            found = link
    return found


# All links of a receiver together


class Bids(NamedTuple):
    """The chunks that some links can bring to one node.

    Parameters
    ----------
    first
        int64, shape (links + 1,): link j bids first[j] to first[j + 1] - 1.
    chunk
        int64, shape (bids,): the chunks of one link all differ.
    priority
        int64, shape (bids,): the priority of the chunk, which differs between chunks; lower comes first.
    """

    first: Int64Array
    chunk: Int64Array
    priority: Int64Array


@matches(MostLinks)
@kernel
def match_receivers(rule: MostLinks, made: Synthesis, listed: int, now: int) -> None:
    """Match the receivers of the listed links, one after the other.

    Invariant: after the event, no free link has a chunk that its destination still wants (except for chunks
    that `wait` leaves to faster links).
    """
    order_by_cost(made, listed)
    for i in range(listed):
        link = made.cheapest_first[i]
        if made.arrival[link] == NEVER and not made.starved[link]:
            links = _free_in_links(made, made.network.target[link])
            chosen = most_links(_bids(made, links, rule.wait, now))
            for j in range(len(links)):
                if chosen[j] == NONE:
                    starve(made, links[j])
                else:
                    send(made, links[j], chosen[j], now)


@kernel
def _free_in_links(made: Synthesis, node: int) -> Int64Array:
    """Return the free in-links of a node that are not starved, cheapest first, ties at random."""
    network = made.network
    begin, end = network.in_first[node], network.in_first[node + 1]
    links, count = np.empty(end - begin, np.int64), 0
    for i in range(begin, end):
        link = network.in_links[i]
        if made.arrival[link] == NEVER and not made.starved[link]:
            place = random_below(made.random, count + 1)
            links[count] = links[place]
            links[place] = link
            count += 1
    links = links[:count]
    return links[np.argsort(network.cost[links], kind="mergesort")]


@kernel
def _bids(made: Synthesis, links: Int64Array, wait: bool, now: int) -> Bids:
    """Return for each link the rarest chunks that it can bring, at most as many as there are links."""
    network, candidates = made.network, made.candidates
    salt = np.uint64(random_below(made.random, 2**31))
    first = np.zeros(len(links) + 1, np.int64)
    chunk = np.empty(len(links) ** 2, np.int64)
    priority = np.empty(len(links) ** 2, np.int64)
    rarest = np.empty_like(candidates)
    for j in range(len(links)):
        link, count = links[j], first[j]
        source, target = network.source[link], network.target[link]
        total = intersection(made.have[source], made.want[target], candidates)
        if total and wait and network.cost[link]:
            total = leave_to_faster(made, link, total, now)
        most = min(first[j] + total, first[j] + len(links))
        level = np.int64(0)  # the number of rarest candidates that are left
        while count < most:
            if level == 0:
                assign(rarest, candidates)
                level = keep_smallest(rarest, made.spread, made.trial)
            found = random_element(rarest, level, made.random)
            rarest[found // WORD_BITS] &= ~bit(found)
            candidates[found // WORD_BITS] &= ~bit(found)
            chunk[count], priority[count] = found, _priority(made.spread, found, salt)
            count, level = count + 1, level - 1
        first[j + 1] = count
    return Bids(first, chunk[: first[-1]], priority[: first[-1]])


@kernel
def _priority(planes: Planes, chunk: int, salt: np.uint64) -> np.int64:
    """Return the number of nodes that have a chunk or are being sent it, then a random number."""
    spread, w = np.int64(0), chunk // WORD_BITS
    for p in range(len(planes)):
        if planes[p, w] & bit(chunk):
            spread += 1 << p
    mixed = hashed((salt << np.uint64(RANDOM_BITS)) ^ np.uint64(chunk)) >> np.uint64(RANDOM_BITS)
    return (spread << RANDOM_BITS) + np.int64(mixed)


@kernel
def most_links(bids: Bids) -> Int64Array:
    """Return the chunk that each link brings in a matching of the most links; -1 for links that bring none.

    It has the lowest priorities of chunks among those matchings, compared in order, and among these the first
    links. Invariant: the chunks matched so far are the first that can be matched together, and their links
    the first that can bring them.
    """
    chunks, able = _able(bids)
    brings = np.full(able.shape[1], NONE)
    for place in range(len(chunks)):
        if brings.min() != NONE:
            break
        # Rarest first, never taken back: the greedy algorithm, which is exact on a matroid.
        _admit(able, place, brings)
    return np.array([NONE if place == NONE else chunks[place] for place in brings], np.int64)


@kernel
def _able(bids: Bids) -> tuple[Int64Array, BoolArray]:
    """Return the chunks by priority; and, shape (chunks, links), which links bid each."""
    order = np.argsort(bids.chunk, kind="mergesort")
    order = order[np.argsort(bids.priority[order], kind="mergesort")]
    chunks, place = np.empty_like(order), np.empty_like(order)
    count = 0
    for bid in order:
        if count == 0 or bids.chunk[bid] != chunks[count - 1]:
            chunks[count] = bids.chunk[bid]
            count += 1
        place[bid] = count - 1
    able = np.zeros((count, len(bids.first) - 1), np.bool_)
    for link in range(len(bids.first) - 1):
        for bid in range(bids.first[link], bids.first[link + 1]):
            able[place[bid], link] = True
    return chunks[:count], able


@kernel
def _admit(able: BoolArray, new: int, brings: Int64Array) -> None:
    """Match a chunk, if an alternating path from it ends at a free link: the first of those.

    `able` and `brings` have chunks by their places in the order of priorities.
    """
    links = len(brings)
    via, left_by = np.full(links, NONE), np.full(links, NONE)
    queue, length = np.empty(links + 1, np.int64), 1
    queue[0] = NONE  # stands for the chunk itself, links for the chunks that they bring
    for head in range(links + 1):
        if head == length:
            break
        link = queue[head]
        place = new if link == NONE else brings[link]
        for other in range(links):
            if able[place, other] and via[other] == NONE:
                via[other], left_by[other] = place, link
                if brings[other] != NONE:
                    queue[length], length = other, length + 1
    for last in range(links):
        # Links are sorted by cost: the first free one that a path reaches is the cheapest.
        if via[last] != NONE and brings[last] == NONE:
            link = np.int64(last)
            while link != NONE:
                brings[link] = via[link]
                link = left_by[link]
            return
