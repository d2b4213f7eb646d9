"""NCCL's and RCCL's topology XML: machines whose networks were worked out by hand from NCCL's tables."""

import re
import time
from fractions import Fraction
from pathlib import Path

import pytest

import tutti
from tutti.topologies import InputError, parse_topology, read_topology, write_topology
from tutti.topologies.graphs.grid_structure import Hosts, check_hosts, hosts_of

GB = 10**9
US = Fraction(1, 10**6)
SAMPLES = Path(__file__).parents[4] / "shared" / "samples" / "nccl_topology"
EPYC = 'arch="x86_64" vendor="AuthenticAMD" familyid="143" modelid="49"'
GEN4 = 'link_speed="16 GT/s" link_width="16"'
GEN5 = 'link_speed="32.0 GT/s PCIe" link_width="16"'


def gpu(rank, links="", sm=80, gen=GEN4, bus=None):
    busid = bus or f"0000:{rank:02x}:00.0"
    return (
        f'<pci busid="{busid}" class="0x030200" {gen}>'
        f'<gpu dev="{rank}" sm="{sm}" rank="{rank}" gdr="1">{links}</gpu></pci>'
    )


def nic(number, speed=200000, more="", gen=GEN4):
    net = f'<net name="mlx5_{number}" dev="{number}" speed="{speed}" port="1" {more}/>'
    return f'<pci busid="0000:{128 + number:x}:00.0" class="0x020700" {gen}><nic>{net}</nic></pci>'


def switch(*inside, gen=GEN4):
    return f'<pci busid="0000:ff:00.0" class="0x060400" {gen}>{"".join(inside)}</pci>'


def cpu(number, *inside, host="0x1", model=EPYC):
    return f'<cpu host_hash="{host}" numaid="{number}" {model}>{"".join(inside)}</cpu>'


def peers(rank, of, count=1):
    ends = (f"0000:{other:02x}:00.0" for other in range(of) if other != rank)
    return "".join(f'<nvlink target="{end}" count="{count}" tclass="0x030200"/>' for end in ends)


TO_SWITCHES = "".join(f'<nvlink target="0000:d{i}:00.0" count="2" tclass="0x068000"/>' for i in range(6))


def dgx_a100():
    """Each CPU has two PCIe switches with two GPUs and two adapters each, and a slow adapter of its own."""
    groups = [
        switch(gpu(2 * i, TO_SWITCHES), gpu(2 * i + 1, TO_SWITCHES), nic(2 * i), nic(2 * i + 1))
        for i in range(4)
    ]
    return system(cpu(0, *groups[:2], nic(8, 100000)), cpu(1, *groups[2:]))


def system(*cpus):
    return f'<system version="1">{"".join(cpus)}</system>'


@pytest.fixture
def network(tmp_path):
    """Return the network of a document, by the text ``nccl:FILE`` and keys."""

    def read(document, keys=""):
        path = tmp_path / "topo.xml"
        path.write_text(document)
        return parse_topology(f"nccl:{path}{keys}")

    return read


def links(topology):
    """Return the number of links for each pair of labels (without digits), GB/s and us."""
    found = {}
    for index in range(topology.num_links):
        link = topology.link(index)
        ends = "-".join(
            re.sub(r"[0-9]+$", "", "gpu" if end < topology.num_ranks else topology.labels[end].split(".")[-1])
            for end in (link.source, link.target)
        )
        key = ends, float(link.bandwidth / GB), float(link.alpha / US)
        found[key] = found.get(key, 0) + 1
    return found


def both(one, other, *rest):
    return {(f"{one}-{other}", *rest[:-1]): rest[-1], (f"{other}-{one}", *rest[:-1]): rest[-1]}


def test_one_host_of_a_dgx_a100_is_its_nvswitch(network):
    box = network(dgx_a100())
    assert links(box) == both("gpu", "nvswitch", 240, 0.35, 8)  # 12 links of 20 GB/s
    assert box.labels[8:] == ("nvswitch",)
    assert not box.multicast
    assert any("all NVSwitches are one" in note for note in box.notes)


def test_two_hosts_of_a_dgx_a100_meet_through_their_pcie_switches(network):
    boxes = network(dgx_a100(), "?hosts=2")
    assert links(boxes) == {
        **both("gpu", "nvswitch", 240, 0.35, 16),
        **both("gpu", "pcie", 24, 0.5, 16),
        **both("pcie", "mlx5_", 24, 0, 16),
        **both("mlx5_", "network", 25, 0.85, 16),
    }
    hosts = hosts_of(boxes, infer=False)
    assert isinstance(hosts, Hosts)
    assert hosts.ranks.tolist() == [list(range(8)), list(range(8, 16))]
    check_hosts(boxes)
    assert "h0.mlx5_0" in boxes.labels
    assert any("mlx5_8 12.5GB/s" in note for note in boxes.notes)  # only the CPU is connected to it


def test_pcie_all_keeps_the_cpus(network):
    found = links(network(dgx_a100(), "?hosts=2&pcie=all"))
    assert found[("cpu-cpu", 16.0, 0.0)] == 4
    assert found[("cpu-pcie", 24.0, 0.0)] == 8
    assert found[("mlx5_-network", 12.5, 0.85)] == 2
    assert ("cpu-cpu", 16.0, 0.0) in links(network(dgx_a100(), "?pcie=all"))


def test_hosts_whose_gpus_have_adapters_of_their_own_are_rail_optimized(network):
    link = '<nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/>'
    # As in virtual machines: bridges at 2.5 GT/s, devices without a width, adapters in another order.
    bridge = 'link_speed="2.5 GT/s PCIe" link_width="1"'
    flat = 'link_speed="32.0 GT/s PCIe" link_width="0"'
    groups = [switch(nic(3 - i, gen=flat), gpu(i, link, 90, flat), gen=bridge) for i in range(4)]
    boxes = network(system(cpu(0, *groups)), "?hosts=2&fabric=rails")
    assert links(boxes) == {
        **both("gpu", "nvswitch", 370.8, 0.35, 8),
        **both("gpu", "rail", 25, 1.35, 8),
    }
    assert any("mlx5_3 25GB/s" in note for note in boxes.notes)
    rail = boxes.labels.index("rail0")
    ends = [boxes.source[index] for index in range(boxes.num_links) if boxes.target[index] == rail]
    assert ends == [0, 4]
    given = network(system(cpu(0, *groups)), "?hosts=2&alpha=1us,2us,4us")
    assert links(given)[("gpu-network", 25.0, 6.0)] == 8


def test_rails_join_the_like_adapters(network):
    boxes = network(dgx_a100(), "?hosts=3&fabric=rails")
    assert boxes.labels[-8:] == tuple(f"rail{i}" for i in range(8))
    rail = boxes.labels.index("rail3")
    near = {boxes.labels[boxes.source[link]] for link in range(boxes.num_links) if boxes.target[link] == rail}
    assert near == {"h0.mlx5_3", "h1.mlx5_3", "h2.mlx5_3"}


def test_an_adapter_of_one_gpu_fails_as_its_link(network):
    link = '<nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/>'
    host = system(cpu(0, *(switch(gpu(i, link, 90, GEN5), nic(i, gen=GEN5)) for i in range(4))))
    whole, rails = network(host, "?hosts=2"), network(host, "?hosts=2&fabric=rails")
    for keys, sound in (("drop_links=3-network", whole), ("fabric=rails&drop_links=3-rail3", rails)):
        failed = network(host, f"?hosts=2&{keys}")
        assert failed.num_links == sound.num_links - 2
        assert failed.egress[3] == sound.egress[3] - 25 * GB
    for keys, way in (("", "drop_links=0-network"), ("&fabric=rails", "drop_links=0-rail0")):
        with pytest.raises(InputError, match=rf"no node 'h0\.mlx5_3'; .* is that GPU's link, e\.g\. {way}$"):
            network(host, f"?hosts=2{keys}&drop_nodes=h0.mlx5_3")


def test_gpus_without_nvlink_meet_over_pcie(network):
    skylake = 'arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85"'
    bridged = [switch(gpu(rank, gen='link_speed="8 GT/s" link_width="0"')) for rank in range(3)]
    box = network(system(cpu(0, *bridged[:2], model=skylake), cpu(1, *bridged[2:], model=skylake)))
    assert links(box) == {**both("gpu", "cpu", 12, 0.5, 3), ("cpu-cpu", 10.0, 0.0): 2}


def test_cpus_that_have_nothing_join_nothing(network):
    boxes = system(cpu(0, gpu(0)), cpu(1, gpu(1)), cpu(2), cpu(3, nic(0)))
    assert links(network(boxes))[("cpu-cpu", 16.0, 0.0)] == 2
    assert links(network(boxes, "?hosts=2"))[("cpu-cpu", 16.0, 0.0)] == 2 * 3 * 2


@pytest.mark.parametrize(
    ("model", "speed"),
    [
        ('arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="79"', 6),
        ('arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143"', 22),
        ('arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="207"', 40),
        ('arch="arm64"', 6),
        ('arch="ppc64"', 32),
        ("", 10),
    ],
)
def test_what_joins_cpus_goes_by_their_model(network, model, speed):
    box = network(system(cpu(0, gpu(0), model=model), cpu(1, gpu(1), model=model)))
    assert links(box)[("cpu-cpu", float(speed), 0.0)] == 2


def test_direct_nvlinks_are_parallel_links(network):
    box = network(system(cpu(0, *(gpu(rank, peers(rank, 4, 4)) for rank in range(4)))))
    assert links(box) == {("gpu-gpu", 20.0, 0.7): 4 * 3 * 4}
    hopper = network(system(cpu(0, *(gpu(rank, peers(rank, 2, 18), sm=90) for rank in range(2)))))
    assert links(hopper) == {("gpu-gpu", 20.6, 0.7): 2 * 18}


def test_nvswitches_of_hopper_multicast_whatever_they_are_called(network):
    link = '<nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/>'
    box = network(system(cpu(0, *(gpu(rank, link, sm=90) for rank in range(4)))))
    assert box.multicast == box.aggregate == {4}
    assert links(box) == both("gpu", "nvswitch", 370.8, 0.35, 4)


def test_alpha_is_one_or_three(network):
    assert {alpha for _, _, alpha in links(network(dgx_a100(), "?hosts=2&alpha=3us"))} == {3}
    assert links(network(dgx_a100(), "?hosts=2&alpha=1us,2us,4us")) == {
        **both("gpu", "nvswitch", 240, 1, 16),
        **both("gpu", "pcie", 24, 2, 16),
        **both("pcie", "mlx5_", 24, 2, 16),
        **both("mlx5_", "network", 25, 4, 16),
    }


def test_an_adapters_latency_is_of_both_ends_and_its_ports_are_links(network):
    two = '<net name="a" dev="0" speed="100000" latency="75"/><net name="b" dev="1" speed="0"/>'
    ports = f'<pci busid="0000:99:00.0" class="0x020000" {GEN4}><nic>{two}</nic></pci>'
    boxes = network(system(cpu(0, switch(gpu(0), gpu(1), ports))), "?hosts=2")
    assert links(boxes) == {
        **both("gpu", "pcie", 24, 0.5, 4),
        **both("pcie", "a", 24, 0, 2),
        **both("a", "network", 12.5, 37.5, 2),
        **both("a", "network", 1.25, 0.85, 2),
    }


def test_an_adapter_listed_under_two_cpus_is_one(network):
    socket = '<nic><net name="eth0" dev="0" speed="10000" guid="0x0"/></nic>'
    boxes = network(system(cpu(0, gpu(0), socket), cpu(1, gpu(1), socket)), "?hosts=2")
    assert [label for label in boxes.labels if "eth0" in label] == ["h0.eth0", "h1.eth0"]
    assert links(boxes)[("cpu-eth", 1.25, 0.0)] == 4


def test_a_domain_of_several_hosts_has_one_nvswitch(network):
    link = '<nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/><c2c bw="44712" count="5"/>'
    gpus = [gpu(rank, link, sm=100, bus=f"0000:{rank % 2}:00.0") for rank in range(4)]
    trays = [cpu(0, *gpus[:2], host="0xa"), cpu(0, *gpus[2:], host="0xb")]
    domain = network(system(*trays))
    assert links(domain) == both("gpu", "nvswitch", 721.8, 0.35, 4)
    assert domain.hosts.tolist() == [0, 0, 1, 1, -1]
    check_hosts(domain)
    assert links(network(system(*trays), "?pcie=all"))[("gpu-cpu", 223.56, 0.5)] == 4


def test_ranks_order_the_gpus_and_those_without_are_left_out(network):
    unranked = gpu(7).replace(' rank="7"', "")
    box = network(system(cpu(0, gpu(1, peers(1, 2)), unranked, gpu(0, peers(0, 2), sm=60))))
    assert box.num_ranks == 2
    assert [float(box.link(i).bandwidth / GB) for i in range(2)] == [18, 20]  # rank 0 has sm 60
    assert any("1 GPUs without a rank" in note for note in box.notes)


def test_gpus_of_an_unknown_kind_have_a_guess(network):
    box = network(system(cpu(0, *(gpu(rank, peers(rank, 2), sm=52) for rank in range(2)))))
    assert any("sm 52 (unknown) carries 20GB/s, a guess" in note for note in box.notes)


def test_python_takes_the_same_text(network):
    boxes = network(dgx_a100(), "?hosts=2")
    assert tutti.topology(boxes.name) == boxes


def test_notes_are_kept_in_files_and_by_failures(network, tmp_path):
    box = network(dgx_a100(), "?drop_nodes=7")
    assert box.notes
    write_topology(box, tmp_path / "box.json")
    assert read_topology(tmp_path / "box.json").notes == box.notes


MANY_PCI = "".join(f'<pci busid="{i}" class="0x030200"/>' for i in range(3))


@pytest.mark.parametrize(
    ("document", "keys", "words"),
    [
        ("<algo/>", "", "line 1: <algo> is no topology of NCCL"),
        (system(), "", "<system> has no GPU"),
        (system(cpu(0, nic(0))), "", "<system> has no GPU"),
        (system(cpu(0, gpu(0))), "", r"1 rank\(s\); a collective needs at least 2"),
        (system(cpu(0, gpu(0), gpu(1))), "?hosts=2", "no network adapter in the file; hosts=2 needs one"),
        (system(cpu(0, gpu(0), gpu(0))), "", "<gpu> has rank 0, as the one in line 1"),
        (system(cpu(0, gpu(0), gpu(1), nic(0, -2))), "?hosts=2", "<net> has speed='-2'"),
        (system(cpu(0, gpu(0), gpu(1), nic(0, "9" * 30))), "?hosts=2", "<net> has speed='999.*'"),
        (system(cpu(0, gpu(0), gpu(1), nic(0, 1, 'latency="nan"'))), "", "latency that is no number"),
        (system(cpu(0, gpu(0), gpu(1), nic(0, 1, 'latency="-1"'))), "", "latency out of range"),
        (system(cpu(0, gpu(0), gpu(1), nic(0, 1, f'latency="{"9" * 10**6}"'))), "", "latency out of range"),
        (system(cpu(0, gpu(0, peers(0, 2, 10**9)), gpu(1))), "", "<nvlink> has count='1000000000'"),
        (system(cpu(0, gpu(0), gpu(1, gen='link_width="-9"'))), "", "<pci> has link_width='-9'"),
        (system(*(cpu(i, gpu(i)) for i in range(65))), "", "one of 65 of a host; at most 64"),
        (system(cpu(0, gpu(0), gpu(1))), "?hosts=0", "hosts=0; from 1 to 65536"),
        (dgx_a100(), "?hosts=999999999", "from 1 to 65536"),
        (dgx_a100(), "?hosts=60000", "too many nodes"),
        (dgx_a100(), "?hosts=2&fabric=ring", "fabric=ring; allowed: switch, rails"),
        (dgx_a100(), "?pcie=none", "pcie=none; allowed: needed, all"),
        (dgx_a100(), "?fabric=rails", "give hosts=2 or more with it"),
        (dgx_a100(), "?bandwidth=5GB/s", "nccl has no bandwidth="),
        (dgx_a100(), "?alpha=1us,2us", "alpha has 2 values; give 1 or 3"),
        (dgx_a100(), "?rails=2", "nccl has no rails"),
        ("<system>" * 100, "", "nested too deeply"),
        (f"<system><cpu>{'<pci/>' * 10**5}</cpu></system>", "", "too many elements; at most 16384"),
        (dgx_a100()[:-30], "", "not XML"),
    ],
)
def test_bad_files_get_one_line_in_bounded_time(network, document, keys, words):
    start = time.perf_counter()
    with pytest.raises(InputError, match=words) as caught:
        network(document, keys)
    assert "\n" not in str(caught.value)
    assert time.perf_counter() - start < 2


def test_texts_that_name_no_file():
    with pytest.raises(InputError, match=r"no file; write e\.g\. nccl:topo\.xml"):
        parse_topology("nccl:")
    with pytest.raises(InputError, match=r"none\.xml: can't be read"):
        parse_topology("nccl:none.xml")
    with pytest.raises(InputError, match=r"named with its kind: nccl:topo\.xml"):
        parse_topology("topo.xml")
    with pytest.raises(InputError, match="ring has no hosts; families that do: nccl, nvidia-smi"):
        parse_topology("ring:4?hosts=2")


def sample(name, keys=""):
    path = SAMPLES / name
    if not path.is_file():
        pytest.skip(f"{path} is not there: real files that others wrote are kept outside of the project")
    return parse_topology(f"nccl:{path}{keys}")


def test_a_real_mi100_box_is_complete():
    box = sample("rccl_topo_4p3l.xml")
    assert links(box) == {("gpu-gpu", 24.0, 0.7): 12}


def test_a_real_mi250_box_has_three_links_a_gpu():
    box = sample("rccl_topo_8p_90a.xml")
    assert links(box) == {("gpu-gpu", 36.0, 0.7): 24}
    # Its eth0 hangs below a bridge, at 2.5 GT/s and one lane: 1500 Mb/s.
    assert links(sample("rccl_topo_8p_90a.xml", "?hosts=2"))[("cpu-eth", 0.1875, 0.0)] == 2


def test_real_mi300x_boxes_have_an_adapter_a_gpu():
    boxes = sample("rccl_topo_8p_942.xml", "?hosts=2&fabric=rails")
    assert links(boxes) == {
        ("gpu-gpu", 48.0, 0.7): 2 * 56,
        **both("gpu", "rail", 48, 1.35, 16),  # nothing else shares their PCIe switch
    }


def test_a_real_box_of_eight_numa_nodes_keeps_pcie_where_xgmi_joins_halves_only():
    box = sample("rccl_topo_8p_rome_n4.xml")
    assert box.num_ranks == 8
    assert links(box)[("gpu-gpu", 24.0, 0.7)] == 16
    assert links(box)[("gpu-cpu", 24.0, 0.5)] == 8
    boxes = sample("rccl_topo_8p_rome_n4.xml", "?hosts=2")
    assert links(boxes)[("cpu-cpu", 16.0, 0.0)] == 2 * 7 * 6


def test_a_real_vendor_file_has_gpus_by_class():
    boxes = sample("aws_p4d.xml", "?hosts=2")
    assert links(boxes) == {
        **both("gpu", "pcie", 12, 0.5, 16),
        **both("cpu", "pcie", 12, 0, 8),
        **both("pcie", "nic", 12, 0, 8),
        **both("nic", "network", 12, 0.85, 8),
        ("cpu-cpu", 10.0, 0.0): 4,
    }
    assert any("whether NVLink joins them" in note for note in boxes.notes)


def test_every_real_file_is_read():
    for name in ("rccl_topo_8p6l_4nic.xml", "rccl_topo_8p_942.xml", "aws_p4d.xml"):
        for keys in ("", "?hosts=2", "?hosts=4&fabric=rails&pcie=all"):
            check_hosts(sample(name, keys))
