"""One order of all instructions: a case by hand, and one with very many messages."""

import time

import numpy as np

from tutti.schedules.programs.ordering import InstructionGraph, Waits, in_order


def one_fifo(messages):
    """Return waits and graph of independent messages over one FIFO."""
    nodes = np.arange(2 * messages)
    sends = np.where(nodes % 2 == 0, nodes + 1, -1)
    fifo = np.where(nodes % 2 == 1, 0, -1)
    waits = Waits(
        np.zeros(2 * messages + 1, np.int64), np.zeros(0, np.int64), np.zeros(2 * messages, np.int32)
    )
    return waits, InstructionGraph(nodes, sends, fifo)


def test_no_more_are_under_way_than_a_fifo_holds():
    # All can be sent soon after 0 s, the later ones first, and received from 9 s on.
    when = np.array([0.3, 9, 0.2, 9, 0.1, 9, 0.0, 9])
    for depth, expected in [
        (1, [6, 7, 4, 5, 2, 3, 0, 1]),
        (2, [6, 4, 7, 2, 5, 0, 3, 1]),
        (4, [6, 4, 2, 0, 7, 5, 3, 1]),
    ]:
        order = in_order(*one_fifo(4), when, depth)
        assert (order.nodes.tolist(), order.full.tolist()) == (expected, [False])


def test_messages_that_wait_for_room_are_not_looked_at_again_and_again():
    messages = 30_000
    in_order(*one_fifo(3), np.zeros(6), 2)  # compiles the kernel first
    when = np.tile([0.0, 1.0], messages)
    began = time.process_time()
    assert len(in_order(*one_fifo(messages), when, 2).nodes) == 2 * messages
    assert time.process_time() - began < 2
