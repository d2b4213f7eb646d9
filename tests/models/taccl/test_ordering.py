"""The heuristic ordering against a twin in plain Python."""

import heapq

import numpy as np
import pytest

from tests.models.taccl.cases import demand
from tutti.models.taccl.ordering import arrays_of, choose, earliest, timed
from tutti.models.taccl.routing import route
from tutti.models.taccl.solving import Deadline, StageLimits
from tutti.models.taccl.transfers import RoutedTransfers


def twin(transfers: RoutedTransfers, rank, backwards):
    """Return the starts as `choose` does, event by event in plain Python, by message records."""
    before, after = (transfers.after, transfers.before) if backwards else (transfers.before, transfers.after)
    missing, ready = [len(earlier) for earlier in before], [0] * len(transfers)
    free, places, start = {}, {}, [0] * len(transfers)
    place = arrays_of(transfers).place.tolist() or [-1] * len(transfers)
    waiting = {transfer for transfer, count in enumerate(missing) if not count}

    def soonest(transfer):
        message = transfers.message(transfers.link[transfer])
        last = message.uses[-1][1]
        leads = {p: message.arrival - e - h if backwards else e for p, e, h in message.uses}
        times = [ready[transfer], *(free.get(p, 0) - lead for p, lead in leads.items())]
        if place[transfer] >= 0:
            times.append(places.get(place[transfer], 0) - (0 if backwards else last))
        return max(times), leads

    while waiting:
        queue = [(soonest(transfer)[0], int(rank[transfer]), transfer) for transfer in waiting]
        now, _, transfer = heapq.nsmallest(1, queue)[0]
        waiting.remove(transfer)
        message, leads = transfers.message(transfers.link[transfer]), soonest(transfer)[1]
        for port, _, hold in message.uses:
            free[port] = now + leads[port] + hold
        places[place[transfer]] = now + message.arrival - (message.uses[-1][1] if backwards else 0)
        start[transfer] = -(now + message.arrival) if backwards else now
        for later in after[transfer]:
            ready[later] = max(ready[later], now + message.arrival)
            missing[later] -= 1
            if not missing[later]:
                waiting.add(later)
    return start


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("reduces", [False, True])
def test_the_kernel_chooses_as_its_twin(backwards, reduces):
    d = demand("ndv2:2", sketch="ndv2-sk-1")
    sent = route(d, StageLimits(deadline=Deadline.after(2))).sent
    transfers = RoutedTransfers.spreading(d, sent)
    if reduces:
        transfers = RoutedTransfers.reducing(d, sent, d.logical, together=False)
    rank = np.random.default_rng(1).permutation(len(transfers)).astype(np.int64)
    arrays = arrays_of(transfers, backwards=backwards)
    chosen = choose(arrays, rank, backwards)
    assert chosen.tolist() == twin(transfers, rank, backwards)
    order = np.lexsort((rank, chosen))
    start, end = earliest(arrays_of(transfers), order)
    again = timed(transfers, [(transfer,) for transfer in order.tolist()])
    assert end == again.end
    assert sorted(start.tolist()) == list(again.start)
