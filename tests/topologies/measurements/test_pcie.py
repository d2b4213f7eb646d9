"""PCIe trees that are found again from copies, simulated by sharing each link equally among its flows."""

import numpy as np
import pytest

from tests.sweep import for_each
from tutti.topologies import InputError
from tutti.topologies.measurements.pcie import PcieLayout, PcieProbes, infer_pcie


def speeds(flows, width):
    """Return the bandwidth of each flow: its narrowest link, divided among the flows there."""
    count = {link: sum(link in flow for flow in flows) for flow in flows for link in flow}
    return [min(width[link[0]] / count[link] for link in flow) for flow in flows]


def probed(switches, near_cpu, near, noise, rng):
    """Return the probes of a machine: each GPU's link to its switch is wider than the switch's to a CPU."""
    above = {gpu: number for number, switch in enumerate(switches) for gpu in switch}
    width = {"gpu": 16e9, "switch": 13e9, "nic": 12.5e9}
    up = [[("gpu", gpu), ("switch", above[gpu])] for gpu in range(len(above))]
    loop = [("nic", 0), *([("switch", near)] if near is not None else [])]

    def noisy(values):
        return np.array(values) * rng.uniform(1 - noise, 1 + noise, np.shape(values))

    together = [[speeds([one, other], width)[0] for other in up] for one in up]
    return PcieProbes(
        noisy([speeds([one], width)[0] for one in up]),
        noisy(together),
        noisy([2e-6 if cpu == near_cpu else 3e-6 for cpu in range(2)]),
        noisy([speeds([one, loop], width)[0] for one in up]),
    )


@for_each("seed", range(30))
def test_a_tree_is_found_again_whatever_the_numbers_of_its_gpus(seed):
    """As TACCL's NDv2 (Fig. 5b): two switches a CPU, two GPUs a switch, the adapter on one of them."""
    rng = np.random.default_rng(seed)
    sizes = [2, 2, 2, 2] if seed % 2 else rng.integers(1, 5, 4).tolist()
    gpus = rng.permutation(sum(sizes)).tolist()
    switches = [tuple(sorted(gpus[sum(sizes[:k]) : sum(sizes[: k + 1])])) for k in range(4)]
    near = None if seed % 5 == 4 else int(rng.integers(4))
    near_cpu = int(rng.integers(2)) if near is None else near // 2
    found = infer_pcie(probed(switches, near_cpu, near, 0.1, rng))
    assert found == PcieLayout(sorted(switches), near_cpu, () if near is None else switches[near])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"together": np.ones((2, 2))}, r"^PCIe probes of 3 GPUs: together is no square"),
        ({"loopback": np.array([])}, r"^PCIe probes of 3 GPUs: .* or others are missing$"),
        ({"alone": np.array([1.0, 0, 1])}, r"^PCIe probes: every bandwidth and latency must be above 0$"),
        ({"beside": np.array([1.0, np.nan, 1])}, r"must be above 0$"),
        (
            {"together": np.array([[1, 0.5, 1], [0.5, 1, 0.5], [1, 0.5, 1]])},
            r"\(0, 1\) and \(0, 1, 2\) overlap",
        ),
        ({"beside": np.array([0.5, 1, 0.5])}, r"the adapter slows GPUs \(0, 2\), which are no switch of "),
    ],
)
def test_probes_that_contradict_one_another_get_one_line(change, message):
    probes = PcieProbes(np.ones(3), np.ones((3, 3)), np.ones(1), np.ones(3))
    assert infer_pcie(probes) == PcieLayout([(0,), (1,), (2,)], 0, ())
    with pytest.raises(InputError, match=message):
        infer_pcie(probes._replace(**change))
