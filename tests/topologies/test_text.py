"""The one-line grammar: the texts that it reads, and the errors for others."""

import csv
import json
from fractions import Fraction
from pathlib import Path

import pytest

from tests.sweep import for_each
from tutti.topologies import (
    FAMILIES,
    InputError,
    circulant,
    dgx1,
    dgx2,
    dgx_a100,
    dgx_h100,
    drop_links,
    drop_nodes,
    fat_tree,
    gen_kautz,
    mesh,
    mi250,
    ndv2,
    parallel_links,
    parse_topology,
    rail_only,
    rail_spine,
    ring,
    torus,
    torus_of_boxes,
    uniring,
    write_topology,
)
from tutti.topologies.text import with_words

INSTANCES = Path(__file__).parents[1] / "data" / "reference" / "instances.csv"
GB, GIB = 10**9, 2**30


def instances():
    with INSTANCES.open() as file:
        return sorted({row["topology"] for row in csv.DictReader(file)})


@for_each("text", instances())
def test_every_listed_instance_is_read_and_keeps_its_text_as_its_name(text):
    assert parse_topology(text).name == text


@for_each("family", FAMILIES.values())
def test_the_example_of_a_family_is_read(family):
    topology = parse_topology(family.example)
    assert topology.name == family.example
    assert family.example.startswith(f"{family.name}:" if family.form else family.name)


@for_each(
    ("text", "topology"),
    [
        ("ring:8", ring(8)),
        ("uniring:8", uniring(8)),
        ("torus:2x3x4", torus(2, 3, 4)),
        ("mesh:4x1", mesh(4, 1)),
        ("gen_kautz:4,64", gen_kautz(4, 64)),
        ("circulant:16,3,4", circulant(16, 3, 4)),
        ("dgx_a100:2", dgx_a100(2)),
        ("dgx1", dgx1()),
        ("dgx1:", dgx1()),
        ("dgx1?bandwidth=25GB/s", dgx1(bandwidth=25 * GB)),
        ("ndv2:2", ndv2(2)),
        ("dgx2:2?alpha=0us,1us,2us", dgx2(2, alpha=[0, Fraction(1, 10**6), Fraction(2, 10**6)])),
        ("dgx_a100:4?rails=2", dgx_a100(4, rails=2)),
        (
            "dgx_h100:2?rails=8&bandwidth=900GB/s,100GB/s",
            dgx_h100(2, rails=8, bandwidth=[900 * GB, 100 * GB]),
        ),
        ("fat_tree:4,8", fat_tree(4, 8, 1, 1)),
        ("fat_tree:4,8,2,3", fat_tree(4, 8, 2, 3)),
        ("fat_tree:2,4?ranks=3+1", drop_nodes(fat_tree(2, 4), [3, 5, 6, 7])),
        ("rail_only:4,8", rail_only(4, 8)),
        ("rail_spine:4,8,2", rail_spine(4, 8, 2)),
        ("torus_of_boxes:4,3,3", torus_of_boxes(4, 3, 3)),
        (
            "mesh:7x10?bandwidth=16GiB/s,73GiB/s&alpha=1.5us",
            mesh(7, 10, bandwidth=[16 * GIB, 73 * GIB], alpha=Fraction(3, 2_000_000)),
        ),
        ("mi250:2?bandwidth=1GB/s,2GB/s", mi250(2, bandwidth=[GB, 2 * GB])),
        ("dgx_a100:2?alpha=0us,1us", dgx_a100(2, alpha=[0, Fraction(1, 10**6)])),
        ("mesh:4x4?drop_nodes=7,9", drop_nodes(mesh(4, 4), [7, 9])),
        ("torus:3x3?drop_links=0-1", drop_links(torus(3, 3), [(0, 1)])),
        ("torus:3x3?drop_links=0>1,4-5", drop_links(drop_links(torus(3, 3), [(0, 1)], both=False), [(4, 5)])),
        ("ring:4?links=2", parallel_links(ring(4), 2)),
        ("mi250:2?ranks=8+8", drop_nodes(mi250(2), [*range(8, 16), *range(24, 32)])),
        ("dgx_a100:2?drop_nodes=nvswitch0", drop_nodes(dgx_a100(2), [16])),
        ("torus:4x4?drop_nodes=(1,3),9", drop_nodes(torus(4, 4), [7, 9])),
        ("torus:3x3?drop_links=(0,0)-(0,1),4>(1, 2)", parse_topology("torus:3x3?drop_links=0-1,4>5")),
        ("switch2d:4x2?drop_nodes=(3,1)", parse_topology("switch2d:4x2?drop_nodes=7")),
        ("twisted_torus:4x8?drop_nodes=(1,2)", parse_topology("twisted_torus:4x8?drop_nodes=10")),
        ("hypercube:3?drop_nodes=(1,0,1)", parse_topology("hypercube:3?drop_nodes=5")),
        ("dgx_a100:2?drop_nodes=(1,3)", drop_nodes(dgx_a100(2), [11])),
        ("ring:4?fail_links=0&fail_nodes=0", ring(4)),
        ("trn2", torus(4, 4, bandwidth=128 * GB)),
        ("tpu_v4:4x4x4", torus(4, 4, 4)),
        ("tpu_v5p:2x4x4", torus(2, 4, 4, bandwidth=100 * GB)),
        ("dgx_h200:2?rails=8", dgx_h100(2, rails=8)),
        ("dgx_b200:2", dgx_h100(2, bandwidth=[900 * GB, 50 * GB])),
        ("  torus:4x4 ", torus(4, 4)),
    ],
)
def test_a_text_is_the_network_that_it_says(text, topology):
    read = parse_topology(text)
    assert read == topology
    assert read.name == text.strip()
    assert read.degree == topology.degree


def test_a_network_says_at_what_rate_ranks_reduce():
    read = parse_topology("torus:4x4?reduce=200GB/s&drop_nodes=3")
    assert read.gamma == Fraction(1, 200 * 10**9)
    assert read != parse_topology("torus:4x4?drop_nodes=3")
    assert parse_topology("L(K_{4,4})?reduce=1GB/s").expression is not None, "nodes and links are the same"


def test_keys_may_stand_in_any_order_and_speak_of_the_whole_network():
    one = parse_topology("mi250:2?ranks=8+8&drop_nodes=3,17&alpha=1us&drop_links=0-1")
    other = parse_topology("mi250:2?drop_links=0-1&alpha=1us&drop_nodes=3,17&ranks=8+8")
    assert one == other
    assert one.labels == (*"012", *"4567", "16", *(str(gpu) for gpu in range(18, 24)), "ib")


def test_slow_links_are_exactly_so_slow():
    plain, slow = (parse_topology(f"torus:4x4{keys}") for keys in ("", "?degrade=0-1:0.3,(1,1)>(1,2):1/7"))
    expected = {("0", "1"): Fraction(3, 10), ("1", "0"): Fraction(3, 10), ("5", "6"): Fraction(1, 7)}
    for link, (before, after) in enumerate(zip(plain.bandwidth, slow.bandwidth, strict=True)):
        ends = tuple(plain.link_name(link).split("->"))
        assert after == before * expected.get(ends, 1)
    assert slow.expression is None


def test_slow_links_of_labels_with_colons(tmp_path):
    nodes = [{"id": name, "kind": "compute"} for name in ("a:0", "a:1")]
    edges = [{"source": "a:0", "target": "a:1", "bandwidth": "8GB/s", "alpha": "0us"}]
    (tmp_path / "net.json").write_text(json.dumps({"directed": False, "nodes": nodes, "edges": edges}))
    slow = parse_topology(f"{tmp_path}/net.json?degrade=a:0>a:1:0.25")
    assert [bandwidth / GB for bandwidth in slow.bandwidth] == [2, 8]


def ends(topology):
    return {topology.link_name(link) for link in range(topology.num_links)}


def test_what_fails_at_random_is_the_same_for_a_seed_and_grows_with_the_number():
    whole = parse_topology("torus:6x6")
    failed = {
        (count, seed): ends(whole) - ends(parse_topology(f"torus:6x6?fail_links={count}&seed={seed}"))
        for count in (2, 3)
        for seed in (0, 7)
    }
    assert all(len(gone) == 2 * count for (count, _), gone in failed.items())  # both directions
    assert failed[2, 7] < failed[3, 7]
    assert failed[3, 0] != failed[3, 7]
    assert failed[3, 0] == ends(whole) - ends(parse_topology("torus:6x6?fail_links=3"))
    names = [parse_topology(f"torus:6x6?fail_nodes={count}&seed=1").labels for count in (2, 2, 3)]
    assert names[0] == names[1]
    assert set(names[2]) < set(names[0])
    assert [len(labels) for labels in names] == [34, 34, 33]


def test_adapters_that_fail_are_links_out_of_hosts_both_ways():
    whole = parse_topology("dgx_h100:2")
    for seed in range(5):
        gone = ends(whole) - ends(parse_topology(f"dgx_h100:2?fail_nics=2&seed={seed}"))
        ranks = {name.replace("->ib", "").replace("ib->", "") for name in gone}
        assert gone == {way for rank in ranks for way in (f"{rank}->ib", f"ib->{rank}")}
        assert len(ranks) == 2
        assert ranks <= set(map(str, range(16)))


def test_words_join_those_that_a_key_has():
    text = with_words("torus:3x3", "drop_links", ["0-1", "3-4"])
    assert text == "torus:3x3?drop_links=0-1,3-4"
    text = with_words(f"{text}&seed=1", "drop_links", ["1-2"])
    assert text == "torus:3x3?drop_links=0-1,3-4,1-2&seed=1"
    assert with_words(text, "degrade", ["4-5:0.5"]) == f"{text}&degrade=4-5:0.5"


def test_what_fails_at_random_fails_besides_what_has():
    text = "torus:4x4?drop_nodes=0,5&drop_links=2-3&fail_nodes=1&fail_links=4&seed=3"
    failed = parse_topology(text)
    known = parse_topology("torus:4x4?drop_nodes=0,5&drop_links=2-3&fail_nodes=1&seed=3")
    assert failed.labels == known.labels
    assert len(failed.labels) == 13
    assert known.num_links - failed.num_links == 8


def test_what_fails_together_is_judged_together():
    # Without the link 0-1, rank 0 of a path is isolated; but rank 0 failed too.
    assert parse_topology("mesh:4x1?drop_links=0-1&drop_nodes=0").num_ranks == 3


def test_a_path_names_a_file_and_keys_apply_to_it(tmp_path):
    path = tmp_path / "net.json"
    write_topology(drop_nodes(mesh(3, 3), [0]), path)
    assert parse_topology(str(path)) == drop_nodes(mesh(3, 3), [0])
    assert parse_topology(str(path)).name == str(path)
    assert parse_topology(f"{path}?drop_nodes=8").labels == tuple("1234567")  # labels are the file's


def test_a_file_needs_no_suffix_but_is_never_taken_for_a_family(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_topology(ring(5), Path("network"))
    write_topology(ring(5), Path("ring:3"))
    assert parse_topology("network") == ring(5)
    assert parse_topology("ring:3") == ring(3)


def test_a_folder_is_no_network(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("machines").mkdir()
    for name in ("machines", str(tmp_path)):
        with pytest.raises(InputError, match="is a folder; name a file in it, or a family"):
            parse_topology(name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("toros:4x4", r"^topology 'toros:4x4': unknown family 'toros'; did you mean 'torus'\?$"),
        ("zzz:4", r"unknown family 'zzz'; allowed: amd-smi, biring, circulant, "),
        (
            "4x4",
            r"is not understood; write family:args, e\.g\. torus:4x4, the papers' notation, "
            r"e\.g\. L\(K_\{4,4\}\), or the path of a \.json file$",
        ),
        (
            "L(K_{4,4)",
            r"^topology 'L\(K_\{4,4\)': expected '\}' at character 9: 'L\(K_\{4,4' <- here -> '\)'$",
        ),
        (
            "K_3?rails=2",
            r"the papers' notation has no rails; families that do: dgx_a100, dgx_h100, .*, mi300x$",
        ),
        ("K_3?bandwidth=1GB/s,2GB/s", r"complete:3: bandwidth has 2 values; give 1$"),
        ("torus:4x4?twist=1", r"torus has no twist; families that do: twisted_torus$"),
        ("", r"^topology '' is not understood; write family:args"),
        ("torus", r"^topology 'torus': 0 arguments; expected torus:AxBx\.\.\., e\.g\. torus:4x4$"),
        ("torus:", r"0 arguments; expected torus:AxBx"),
        ("torus:4,4", r"'4,4' is not a whole number below 10\^9; expected torus:AxBx"),
        ("torus:4x", r"'' is not a whole number"),
        ("torus:-4x4", r"'-4' is not a whole number"),
        ("torus:4.0x4", r"'4.0' is not a whole number"),
        ("mesh:99999999999x1", r"'99999999999' is not a whole number below 10\^9"),
        ("ring:4,2", r"^topology 'ring:4,2': 2 arguments; expected ring:n, e\.g\. ring:8$"),
        ("dgx1:2", r"^topology 'dgx1:2': dgx1 takes no arguments; expected dgx1 alone$"),
        ("trn2:-1", r"^topology 'trn2:-1': trn2 takes no arguments; expected trn2 alone$"),
        ("ring:6?drop_nodes=1,2,1", r"drop_nodes: '1' is named twice$"),
        ("mesh:2x3?drop_nodes=(0,1),1", r"drop_nodes: '1' is named twice$"),
        ("ring:6?drop_links=0-1,1>0", r"drop_links: '1>0' is named twice$"),
        ("ring:6?degrade=0-1:0.5,2-3:0.5,1-0:0.25", r"degrade: '1-0' is named twice$"),
        (
            "mi250:2?rails=2",
            r"^topology 'mi250:2\?rails=2': mi250 has no rails; families that do: dgx_a100, .*, mi300x$",
        ),
        ("dgx_a100:2?rails=x", r"rails: 'x' is not a whole number below 10\^9; write e\.g\. rails=2$"),
        ("dgx_a100:2?rails=3", r"dgx_a100:2: 3 rails; allowed: 1, 2, 4, 8, which divide the GPUs of a box$"),
        ("fat_tree:4", r"1 arguments; expected fat_tree:leaves,ports\[,spines\[,factor\]\], e\.g\. fat_tree"),
        ("gen_kautz:4", r"1 arguments; expected gen_kautz:d,n, e\.g\. gen_kautz:4,64$"),
        ("circulant:8", r"1 arguments; expected circulant:n,a,b,\.\.\."),
        ("circulant:8,2,4", r"the gcd .* is 2; it must be 1"),
        ("mesh:1x1", r"1 rank"),
        ("torus:4x4?bandwith=5GB/s", r"unknown key 'bandwith'; did you mean 'bandwidth'\?$"),
        (
            "torus:4x4?",
            r"nothing stands after '\?' or '&'; allowed: alpha, bandwidth, degrade, "
            r"drop_links, drop_nodes, fabric, "
            r"fail_links, fail_nics, fail_nodes, hosts, links, nvlink, pcie, rails, ranks, reduce, seed, "
            r"switches, twist$",
        ),
        ("ring:8?fail_links=2", r"fail_links=2 is not strongly connected: cut off from the rest: [0-9, ]+$"),
        ("ring:8?fail_links=9", r"ring:8: 9 pairs of linked nodes can't fail; only 8 are left$"),
        ("ring:8?fail_nodes=9", r"ring:8: 9 nodes can't fail; only 8 are left$"),
        (
            "ring:8?fail_nodes=-1",
            r"fail_nodes: '-1' is not a whole number below 10\^9; write e\.g\. fail_nodes=2$",
        ),
        ("ring:8?seed=1", r"seed= is for fail_nodes= and fail_nics= and fail_links=$"),
        ("torus:4x4?fail_nics=1", r"torus:4x4 has no hosts with adapters to fail; links can$"),
        ("dgx_h100:1?fail_nics=1", r"dgx_h100:1 has no hosts with adapters to fail; links can$"),
        ("dgx_h100:2?fail_nics=17", r"dgx_h100:2: 17 pairs of linked nodes can't fail; only 16 are left$"),
        ("dgx_h100:2?fail_nics=16", r"not strongly connected: cut off from the rest: [0-9, ]+\.\.\.$"),
        ("torus:4x4?drop_nodes=(4,0)", r"no rank at \(4,0\); ranks are at \(0,0\) to \(3,3\)$"),
        ("torus:4x4?drop_nodes=(4)", r"no rank at \(4\); ranks are at \(0,0\) to \(3,3\)$"),
        ("gen_kautz:2,8?drop_nodes=(0,1)", r"\(0,1\): the network is no grid; name nodes by their labels$"),
        ("torus:4x4?drop_links=(0,0)", r"drop_links: '\(0,0\)' is no link; write e\.g\. 0-1"),
        ("ring:8?degrade=0-1", r"degrade: '0-1' has no factor; write e\.g\. 0-1:0\.5$"),
        ("ring:8?degrade=0-1:fast", r"degrade: 'fast' is not a number$"),
        ("ring:8?degrade=0-1:2", r"the factor 2 must be above 0 and at most 1$"),
        ("ring:8?degrade=0-1:0", r"the factor 0 must be above 0 and at most 1$"),
        ("ring:8?degrade=0-2:0.5", r"ring:8 has no link 0->2; 0 has links to 1, 7$"),
        ("ring:8?degrade=01:0.5", r"degrade: '01' is no link; write e\.g\. 0-1"),
        ("torus:4x4?alpha", r"key 'alpha' has no value; write alpha=\.\.\.$"),
        ("torus:4x4?alpha=", r"key 'alpha' has no value"),
        ("ring:8?reduce=1GB/s,2GB/s", r"'ring:8\?reduce=1GB/s,2GB/s': reduce: .*1GB/s,2GB/s"),
        ("ring:8?reduce=0GB/s", r"reduce: .* must be positive"),
        ("torus:4x4?alpha=1us&alpha=2us", r"key 'alpha' occurs twice; separate values by commas$"),
        ("torus:4x4?bandwidth=5", r"^topology 'torus:4x4\?bandwidth=5': bandwidth '5' has no unit"),
        ("torus:4x4?bandwidth=0GB/s", r"bandwidth '0GB/s' is zero; it must be positive$"),
        ("torus:4x4?bandwidth=-1GB/s", r"bandwidth '-1GB/s' is negative; it must be positive$"),
        ("torus:4x4?bandwidth=5GX/s", r"unknown unit 'GX/s'; did you mean 'GB/s'\?$"),
        ("torus:4x4?bandwidth=1GB/s,2GB/s,3GB/s", r"bandwidth has 3 values; give 1 or 2$"),
        ("torus:4x4?drop_nodes=99", r"no node '99'; nodes are 0\.\.15$"),
        ("dgx_a100:1?drop_nodes=gpu", r"no node 'gpu'; nodes are 0\.\.7, nvswitch0$"),
        (
            "dgx_a100:3?drop_links=8-gpu",
            r"no node 'gpu'; nodes are 0\.\.23, nvswitch0, nvswitch1, nvswitch2, ib$",
        ),
        (
            "dgx_a100:4?drop_links=8-gpu",
            r"no node 'gpu'; nodes are 0\.\.31, nvswitch0, nvswitch1, \.\.\., ib$",
        ),
        (
            "mesh:3x1?drop_nodes=1",
            r"mesh:3x1\?drop_nodes=1 is not strongly connected: cut off from the rest: 2$",
        ),
        ("mesh:3x1?drop_links=0-1", r"is not strongly connected: cut off from the rest: 0$"),
        ("uniring:3?drop_links=0>1", r"is not strongly connected: cut off from the rest: 1, 2$"),
        ("ring:3?drop_nodes=0,1", r"has 1 rank\(s\) left; a collective needs at least 2$"),
        ("torus:4x4?drop_links=0-5", r"torus:4x4 has no link 0->5; 0 has links to 1, 3, 4, 12$"),
        ("uniring:4?drop_links=1>0", r"uniring:4 has no link 1->0; 1 has links to 2$"),
        (
            "torus:4x4?drop_links=0",
            r"drop_links: '0' is no link; write e\.g\. 0-1 \(both directions\) or 0>1$",
        ),
        ("torus:4x4?drop_links=0-99", r"no node '99'"),
        ("torus:4x4?ranks=8+8", r"torus:4x4 has no boxes to count ranks in; use drop_nodes$"),
        ("mi250:2?ranks=8", r"mi250:2 has 2 boxes, not 1; give one number a box, e\.g\. 16\+16$"),
        ("mi250:2?ranks=8+17", r"box 1 has 16 ranks; keep 1 to 16, not 17$"),
        ("mi250:2?ranks=8+x", r"ranks: 'x' is not a whole number below 10\^9; write e\.g\. ranks=8\+8$"),
        ("torus:4x4?links=0", r"0 parallel links; at least 1$"),
        ("torus:4x4?links=two", r"links: 'two' is not a whole number below 10\^9; write e\.g\. links=2$"),
        ("nofile.json", r"^nofile\.json: can't be read: No such file or directory$"),
        ("a\nb", r"^topology 'a\\nb' is not understood"),
        ("a\0b", r"^topology 'a\\x00b' is not understood"),
        ("a" * 5000, r"^topology 'a{120}'\.\.\."),
    ],
)
def test_a_wrong_text_gets_one_line(text, message):
    with pytest.raises(InputError, match=message) as caught:
        parse_topology(text)
    assert "\n" not in str(caught.value)


def test_a_file_says_its_own_bandwidths(tmp_path):
    path = tmp_path / "net.json"
    write_topology(ring(4), path)
    with pytest.raises(InputError, match="bandwidth= is for families; a file says it link by link"):
        parse_topology(f"{path}?bandwidth=1GB/s")
    with pytest.raises(InputError, match="rails= is for families"):
        parse_topology(f"{path}?rails=2")


@pytest.mark.parametrize("text", ["torus:8", "torus:4x4", "torus:3x5", "torus:3x4x5", "torus:4x4x4"])
def test_a_torus_is_the_cartesian_product_that_it_keeps_as_its_expression(text: str):
    network = parse_topology(text)
    product = network.expression.topology()
    assert (product.source.tolist(), product.target.tolist()) == (
        network.source.tolist(),
        network.target.tolist(),
    )
    assert product.num_ranks == network.num_ranks


@pytest.mark.parametrize(
    "text",
    ["torus:2x4", "torus:4x4?bandwidth=50GB/s,25GB/s", "torus:4x4?drop_links=0-1", "torus:4x4?links=2"],
)
def test_a_torus_that_is_no_such_product_keeps_no_expression(text: str):
    assert parse_topology(text).expression is None


def test_all_switches_may_be_told_to_multicast_and_add():
    """The network is two boxes of 8, with one NVSwitch each, and an InfiniBand switch."""
    able = parse_topology("dgx_a100:2?switches=sharp")
    assert able.multicast == able.aggregate == {16, 17, 18}


def test_switches_may_be_told_to_forward_only():
    assert parse_topology("dgx_h100:1").multicast
    plain = parse_topology("dgx_h100:1?switches=forward")
    assert (plain.multicast, plain.aggregate) == (frozenset(), frozenset())
    with pytest.raises(InputError, match="switches=off; it can be: forward, sharp"):
        parse_topology("dgx_h100:1?switches=off")
