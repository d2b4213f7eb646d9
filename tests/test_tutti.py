"""The way in from Python: what a user types first."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from fractions import Fraction
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from setuptools.discovery import PackageFinder

import tutti
from tutti.models.bounds import path_price, report
from tutti.schedules.verify import VerificationError
from tutti.topologies import InputError

FOLDERS = ("topologies", "schedules", "models", "heuristics", "expansions", "experiments")

ROOT = Path(__file__).parents[1]


def test_a_result_has_its_time_bound_and_gap():
    """15/16 of 64 MB over two dimensions' 200 GB/s is 300 us, and α four times 0.5 us."""
    result = tutti.synthesize("torus:4x4", "allgather", size="64MB", method="bfb")
    assert result.time == pytest.approx(302e-6)
    assert result.bound.check()
    assert result.gap == pytest.approx(result.time / result.bound.seconds - 1)
    assert result.algbw == pytest.approx(64e6 / 302e-6)
    assert result.busbw == pytest.approx(15 / 16 * 64e6 / 302e-6)  # nccl-tests: (N - 1)/N
    assert "T_B" in str(result)
    assert "<table>" in result._repr_html_()


def test_a_certificate_that_proves_something_else_does_not_hold():
    bound = tutti.bound("ring:4", "allreduce", "1GB")
    other = tutti.LowerBound(bound.proof, tutti.topology("ring:4?links=2"), bound.collective, bound.size)
    assert bound.check()
    assert not other.check()


def test_a_schedule_is_saved_and_verified_and_simulated(tmp_path):
    result = tutti.synthesize("ring:4", "allreduce", size=10**6, method="ring")
    path = tmp_path / "ring.json"
    result.save(path)
    assert len(tutti.verify(path)) == len(result.schedule)
    assert tutti.simulate(path, "1MB").time == result.time
    broken = result.schedule.replace(chunk=0 * result.schedule.chunk)
    with pytest.raises(VerificationError):
        tutti.verify(broken)


def test_transfers_and_messages_are_tables():
    """Ring of 4, allreduce of 1 MB: each link carries 3/4 of it in six messages of an eighth."""
    result = tutti.synthesize("ring:4", "allreduce", size="1MB", method="ring")
    transfers, messages = result.schedule.transfers(), result.schedule.messages("1MB")
    assert transfers["share"].sum() == pytest.approx(8 * 0.75)
    assert set(messages.columns) >= {"link", "start", "end", "bytes"}
    assert messages.groupby("link")["bytes"].sum().tolist() == pytest.approx([750_000] * 8)
    assert messages["end"].max() == pytest.approx(result.time)


def test_a_flow_is_a_table_of_slices():
    result = tutti.synthesize("dgx_a100:1", "allgather", size="64MB", method="forestcoll")
    assert result.messages()["end"].max() == pytest.approx(result.time)


def test_networkx_graphs_and_topologies_are_networks():
    graph = nx.cycle_graph(4)
    of_graph = tutti.synthesize(graph, "allgather", "1MB", method="bfb")
    of_text = tutti.synthesize(tutti.topology("ring:4"), "allgather", "1MB", method="bfb")
    assert of_graph.time == of_text.time


def test_compare_has_a_row_a_case_refusals_too():
    methods = ["ring", ("tacos", {"chunks": 2}), "rhd"]
    frame = tutti.compare(["ring:6", "torus:2x2"], ["allgather", "allreduce"], ["1KB", "1MB"], methods)
    assert len(frame) == 2 * 2 * 2 * 3
    assert set(frame["status"]) == {"ok", "unsupported"}
    done = frame[frame["status"] == "ok"]
    assert (done["time"] >= done["bound"]).all()
    assert done["time"].tolist() == pytest.approx((done["time_us"] / 1e6).tolist())


def test_best_is_what_is_taken_where_nothing_is_said():
    result = tutti.synthesize("complete:3", "allgather", "3MB", methods=("ring", "direct"))
    assert result.method == "best"
    assert "time_limit=10s" in result.options


def test_what_there_is_can_be_listed_and_found():
    assert {"ring", "best", "taccl"} <= set(tutti.methods()["name"])
    found = tutti.find(16, 4)
    assert found["tb_factor"].min() == Fraction(15, 16)  # what no network is below: (N - 1)/N


@pytest.mark.parametrize("size", ["0MB", "-1", 0, "much"])
def test_a_size_that_is_none_is_refused(size):
    with pytest.raises(InputError):
        tutti.synthesize("ring:4", size=size, method="ring")


@pytest.mark.parametrize("size", [float("nan"), float("inf"), None, [], b"1MB", 10**400])
def test_what_is_no_size_is_refused_in_words(size):
    with pytest.raises(InputError):
        tutti.bound("ring:4", size=size)


def test_sizes_may_be_of_numpy():
    exact = tutti.synthesize("ring:4", "allgather", 10**6, method="ring").time
    for size in (np.int64(10**6), np.float32(10**6), Fraction(10**6), "1MB"):
        assert tutti.synthesize("ring:4", "allgather", size, method="ring").time == exact


@pytest.mark.parametrize("network", [None, 5, [], b"ring:4"])
def test_what_is_no_network_is_refused_in_words(network):
    with pytest.raises(InputError, match="is no network"):
        tutti.topology(network)


@pytest.mark.parametrize("what", [{"shards": ["1e99999999", 1, 1, 1]}, {"groups": 5}, {"groups": [["a"]]}])
def test_collectives_that_are_none_are_refused_in_words(what):
    with pytest.raises(InputError):
        tutti.synthesize("ring:4", "allgather", "1MB", "ring", **what)


def test_two_networks_of_one_name_are_not_taken_for_one():
    slow, fast = nx.cycle_graph(4), nx.cycle_graph(4)
    nx.set_edge_attributes(slow, "1GB/s", "bandwidth")
    with pytest.raises(InputError, match="two networks are named"):
        tutti.compare([slow, fast], "allgather", "1MB", "ring")
    with pytest.raises(InputError, match="whole numbers of bytes"):
        tutti.compare("ring:4", "allgather", "1.5B", "ring")


WRONG_TYPES = {
    "verify": (lambda: tutti.verify(7), "int is no schedule; give a Result"),
    "simulated": (lambda: tutti.simulate(None, 1), "NoneType is no schedule"),
    "option": (lambda: tutti.simulate(ring(), 1, slice=2), "unknown option 'slice'; did you mean 'slices'"),
    "slices": (lambda: tutti.simulate(ring(), 1, slices="2"), "slices is '2'; it must be a whole number"),
    "flag": (
        lambda: tutti.simulate(ring(), 1, overlap_alpha=1),
        "overlap_alpha is 1; it must be true or false",
    ),
    "nodes": (lambda: tutti.find("16", 4), "find: nodes is '16'; it is a whole number"),
    "degree": (lambda: tutti.find(16, 4.0), "find: degree is 4.0; it is a whole number"),
    "root": (lambda: tutti.collective("broadcast", "ring:4", root=True), "root True of broadcast; it is the"),
    "kind": (lambda: tutti.collective([], "ring:4"), r"collective \[\]; it is a name such as 'allgather'"),
    "method": (lambda: tutti.synthesize("ring:4", method=["ring"]), "unknown method"),
    "sizes": (lambda: tutti.compare("ring:4", sizes=None), "compare: sizes is None"),
    "methods": (lambda: tutti.compare("ring:4", methods=7), "compare: methods is 7"),
    "pair": (lambda: tutti.compare("ring:4", methods=[("ring", 7)]), "a pair of a name and options"),
    "kinds": (lambda: tutti.compare("ring:4", kinds=7), "compare: kinds is 7"),
}


def ring():
    return tutti.synthesize("ring:4", "allgather", method="ring")


@pytest.mark.parametrize(("call", "said"), WRONG_TYPES.values(), ids=WRONG_TYPES)
def test_what_is_of_the_wrong_type_is_refused_in_a_sentence(call, said):
    with pytest.raises(InputError, match=said):
        call()


def test_an_array_of_bytes_is_an_all_to_all_of_its_own_size():
    bytes_of = np.array([[0, 6, 0], [0, 0, 0], [1, 1, 0]]) * 10**6
    result = tutti.synthesize("ring:3", "all-to-all", method="direct", matrix=bytes_of)
    assert result.size == 6 * 10**6
    with pytest.raises(InputError, match="is 3 x 3, for 4 ranks"):
        tutti.collective("all-to-all", "ring:4", matrix=bytes_of)


def test_a_bound_by_linear_programs_is_larger(monkeypatch):
    """Two halves of 2 us over two links in a row, α 0.5 us: three times 1.5 us."""
    monkeypatch.setattr(report, "PROGRAMS", ("path_price",))
    monkeypatch.setattr(path_price, "MOST_TICKS", 12)
    found = tutti.bound("mesh:3", "broadcast", "100KB", lp=True)
    assert tutti.bound("mesh:3", "broadcast", "100KB").seconds < found.seconds <= 4.5e-6
    assert found.kind == "path_price"
    assert found.check()


def python(code, folder):
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.stdout, done.stderr


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_has_one_name(folder):
    """By two names Python would load it twice, and their classes would be unequal."""
    _, error = python(f"import {folder}", ROOT)
    assert error.endswith(f"ImportError: the package {folder} is called tutti.{folder}\n")


def test_a_wheel_takes_one_name_and_holds_every_file():
    """A project of its own may have packages of these names."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]
    found = PackageFinder.find(str(ROOT), include=declared["include"])
    assert {name.partition(".")[0] for name in found} == {"tutti"}
    files = {path.parent.relative_to(ROOT) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    assert {"tutti." + ".".join(path.parts) for path in files} == set(found) - {"tutti"}


def test_the_package_works_beside_others_of_the_folders_names(tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "__init__.py").write_text("MINE = True\n")
    code = f"import sys, models; sys.path.append({str(ROOT)!r}); import tutti\n"
    code += "print(models.MINE, tutti.bound('ring:4', 'allgather', '1MB').check())"
    assert python(code, tmp_path) == ("True True\n", "")


def test_importing_the_package_loads_nothing_and_shows_the_public_names():
    code = "import sys, tutti; print({'numpy', 'numba', 'tutti.api'} & set(sys.modules)); print(dir(tutti))"
    out, _ = python(code, ROOT)
    assert out.splitlines() == ["set()", str(sorted(tutti.__all__))]
    for name in tutti.__all__:
        assert getattr(tutti, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'synthesise'"):
        _ = tutti.synthesise
