"""α and β from times that follow the model, and a schedule's time on the resulting network."""

from fractions import Fraction

import pytest

from tests.schedules.builders import (
    complete_network,
    in_clock,
    link,
    multicast_allgather,
    ring_allgather,
    ring_network,
    star_network,
)
from tests.schedules.execution.crew import as_threads
from tutti.schedules.collective import collective
from tutti.schedules.execution.profiling import MESSAGES, on_network, pairs, predicted, profile, tasks_of
from tutti.schedules.execution.session import RepeatTimes, Settings
from tutti.schedules.schedule import Clock
from tutti.topologies.errors import InputError
from tutti.topologies.topology import Topology


def test_times_that_follow_the_model_give_its_alpha_and_beta():
    """n messages of s bytes take n (2 alpha + beta s) if each is answered, 2 alpha + n beta s together."""
    sizes = (4096, 2**18)
    tasks = tasks_of(3, sizes)
    assert len(tasks) == 3 * 2 * 2 * len(sizes)
    alpha = {pair: (1 + number) * 1e-6 for number, pair in enumerate(pairs(3))}
    beta = {pair: 1e-9 / (1 + number) for number, pair in enumerate(pairs(3))}
    times = [[RepeatTimes([1e9], []) for _ in tasks] for _ in range(3)]  # ranks that only listen
    for number, task in enumerate(tasks):
        pair = pairs(3)[number // 4]
        answers = MESSAGES if number % 4 < 2 else 1
        seconds = 2 * answers * alpha[pair] + MESSAGES * task.size * beta[pair]
        times[pair[0]][number] = RepeatTimes([seconds, 1e9, 2 * seconds], [])  # the smallest counts
    network = profile("three", tasks, times)
    found = {(one.source, one.target): one for one in (network.link(n) for n in range(network.num_links))}
    for pair in pairs(3):
        assert float(found[pair].alpha) == pytest.approx(alpha[pair], rel=1e-3)
        assert float(found[pair].bandwidth) == pytest.approx(1 / beta[pair], rel=1e-6)


def test_where_more_bytes_take_no_longer_the_largest_size_says_the_bandwidth():
    tasks = tasks_of(2, (4096, 2**18))
    one = [1.0, 0.5, 1 / MESSAGES, 0.5 / MESSAGES]  # one after another, then together
    times = [[RepeatTimes([seconds], []) for seconds in 2 * one] for _ in range(2)]
    assert len(tasks) == len(times[0])
    network = profile("two", tasks, times)
    # By hand: 8 messages of 256 KiB together in 1/16 s.
    assert float(network.bandwidth[0]) == pytest.approx(8 * 2**18 * 16, rel=1e-9)


def test_the_programs_of_a_profile_end_and_are_right():
    assert as_threads(tasks_of(2, [4096]), Settings(0, 1, 5.0))


@pytest.mark.parametrize("clock", list(Clock))
def test_a_schedule_is_predicted_with_each_message_on_the_measured_link(clock):
    """A ring of 3 with shards of M/3 takes two steps, and the slowest link has 3 s and 25 B/s."""
    what = collective("allgather", 3)
    schedule = in_clock(ring_allgather(ring_network(3), what), clock)
    links = [link(0, 1, 25, Fraction(3)), link(1, 2), link(2, 0), link(1, 0), link(2, 1), link(0, 2)]
    network = Topology.from_links("measured", 3, links[::-1])
    # 0 to 1 first carries shard 0, then shard 2, which arrived long before: 2 (3 + 100 / 25).
    assert predicted(schedule, network, 300) == pytest.approx(14)
    assert on_network(schedule, network).topology is network


def test_a_network_that_does_not_fit_is_refused():
    what = collective("allgather", 3)
    schedule = in_clock(ring_allgather(ring_network(3), what), Clock.STEP)
    with pytest.raises(InputError, match="complete4 has 4 ranks, and the schedule 3"):
        on_network(schedule, complete_network(4))
    back = Topology.from_links("back", 3, [link(1, 0), link(2, 1), link(0, 2)])
    with pytest.raises(InputError, match="back has no link from rank 0 to 1"):
        on_network(schedule, back)
    switched = in_clock(multicast_allgather(star_network(3, multicast=[3]), what), Clock.STEP)
    with pytest.raises(InputError, match="a message ends at a switch"):
        on_network(switched, complete_network(3))
