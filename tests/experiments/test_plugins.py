"""Plug-ins: each kind as docs/plugins.md shows it, by every way in, and what is said of bad ones."""

import io
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from rich.console import Console
from scipy.sparse import csr_array

import tutti
from tests import plugged
from tutti.experiments import plugins
from tutti.experiments.cli import main
from tutti.experiments.registry import METHODS
from tutti.experiments.runner.config import read_config
from tutti.experiments.runner.plan import make_plan
from tutti.experiments.runner.pool import Pool, Setting
from tutti.experiments.runner.run import RunOptions, run
from tutti.experiments.runner.study import DiskError
from tutti.experiments.solver_study.tasks import read_study
from tutti.models.bounds import BoundError, lower_bounds
from tutti.models.solvers import CompiledModel, Termination, solve
from tutti.models.solvers.registry import find_backend
from tutti.schedules import collective
from tutti.topologies import InputError, TuttiError, parse_topology

HUB = plugged.files()["hub_method.py"]
CONFIG, ENTRY_POINTS = plugged.blocks("toml")


@pytest.fixture(autouse=True)
def _forgotten():
    plugins.load_installed.cache_clear()
    with plugged.unregistered():
        yield
    plugins.load_installed.cache_clear()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The files of the page, in the folder where the command runs."""
    plugged.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, text: str, name: str = "mine.py") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def rows_of(folder: Path, config: str = CONFIG, **options):
    path, screen = write(folder, config, "mine.toml"), io.StringIO()
    summary = run(path, RunOptions(out=folder / "out", workers=1, **options), Console(file=screen, width=200))
    return summary.rows


def said(capsys, *words: object) -> tuple[int, str]:
    """The exit code of a command, and the one line on standard error."""
    code = main([str(word) for word in words])
    err = capsys.readouterr().err
    assert err.count("\n") == 1, err
    return code, err


SYNTH = ("--size", "1MB", "--quiet", "--method")


# Each kind, by each way in


@pytest.mark.parametrize("line", "".join(plugged.blocks("console")).splitlines())
def test_every_command_of_the_page_runs(line, folder, capsys):
    assert main(shlex.split(line)[2:]) == 0
    assert capsys.readouterr().out


def test_without_a_command_there_is_no_plug_in(capsys):
    assert main([]) == 0
    assert "usage: tutti" in capsys.readouterr().out


def test_the_hub_does_what_the_page_says(folder):
    tutti.register("hub_method.py")
    table = tutti.synthesize("complete:5", "allgather", method="hub", rank=2).schedule.transfers()
    gathers, spreads = table[table["target"] == 2], table[table["source"] == 2]
    assert set(gathers["order"]) == {1}
    assert len(gathers) == 4  # everyone but the hub sends its shard
    assert set(spreads["order"]) == {2}
    assert len(spreads) == 4 * 4  # everyone but the hub lacks all but its own
    assert len(table) == 20


def test_a_wheel_has_spokes_and_a_rim(folder):
    tutti.register("wheel_family.py")
    wheel = parse_topology("wheel:6?bandwidth=25GB/s&alpha=1us")
    ends = set(zip(wheel.source.tolist(), wheel.target.tolist(), strict=True))
    around = [(1, 2), (2, 3), (3, 4), (4, 5), (5, 1)]
    assert ends == {pair for a, b in [*around, *((0, r) for r in range(1, 6))] for pair in ((a, b), (b, a))}
    assert set(wheel.bandwidth) == {Fraction(25 * 10**9)}
    with pytest.raises(InputError, match=r"^topology 'wheel:six': 'six' is not a whole number.*wheel:9$"):
        parse_topology("wheel:six")
    with pytest.raises(InputError, match="unknown family 'whel'; did you mean 'wheel'"):
        parse_topology("whel:6")


def test_a_family_may_have_keys_of_its_own(tmp_path):
    tutti.register(
        write(
            tmp_path,
            "from tutti.topologies import Family, ring\n"
            "def build(n, bandwidth, alpha, times=1):\n"
            "    return ring(n * times, bandwidth=bandwidth, alpha=alpha)\n"
            'FAMILY = Family("many", "n", "many:3", "a ring", build, keys=("times",))\n',
        )
    )
    assert parse_topology("many:3?times=4").num_ranks == 12
    with pytest.raises(InputError, match="ring has no times; families that do: many"):
        parse_topology("ring:3?times=4")


def test_a_bound_is_one_of_the_bounds_and_its_certificate_is_checked(folder):
    before = tutti.bound("ring:4", "allgather")
    tutti.register("average_bound.py")
    ring, what = parse_topology("ring:4"), collective("allgather", 4)
    (average,) = (bound for bound in lower_bounds(ring, what) if bound.kind == "average")
    assert average.value == Fraction(3, 8 * 50 * 10**9)  # 3 M over 8 links of 50 GB/s
    with pytest.raises(BoundError, match="average bound: the certificate proves 0 s/B, not"):
        replace(average, certificate={"links": [0, 1]}).check(ring, what)
    assert tutti.bound("ring:4", "allgather").seconds == before.seconds


@pytest.mark.parametrize("apart", [False, True])
def test_a_solver_solves_what_ours_solve(folder, apart):
    tutti.register("scipy_solver.py")
    matrix = csr_array(np.array([[1.0, 2.0], [3.0, 1.0]]))
    model = CompiledModel.of_matrix("two", matrix, [1.0, 1.0], -np.inf, [4.0, 6.0], maximize=True)
    options = find_backend("scipy").options(own_process=apart)
    result = solve(model, "scipy", options)
    assert result.termination is Termination.OPTIMAL
    assert result.objective == pytest.approx(14 / 5)  # at x = 8/5, y = 6/5, where both rows are tight


def test_the_config_of_the_page_runs_in_a_worker(folder):
    hub, bfb = rows_of(folder)
    assert (hub["status"], bfb["status"]) == ("ok", "ok")
    assert bfb["solver"].startswith("scipy")


def test_a_study_of_solvers_has_plug_ins_too(folder):
    text = (
        'name = "s"\nplugins = ["scipy_solver.py"]\n[[instance]]\nmodel = "all-to-all"\ntopology = "ring:4"\n'
        '[[solver]]\nname = "scipy"\n[study]\ntime_limit = "10s"\n'
    )
    assert read_study(read_config(write(folder, text, "s.toml"))).solvers[0].name == "scipy"


def test_best_tries_a_method_that_it_is_told_of(folder):
    tutti.register("hub_method.py")
    result = tutti.synthesize("ring:4", "allgather", methods=["hub"])
    assert result.document["algorithm"] == "hub"


def test_an_object_is_registered_and_replaced_by_its_like_only():
    ring = METHODS["ring"]
    tutti.register(replace(ring, name="mine", summary="first"))
    with pytest.raises(InputError, match=r"^register: there is a method 'mine' already; give it another"):
        tutti.register(replace(ring, name="mine"))
    tutti.register(replace(ring, name="mine", summary="second"), replace=True)
    table = tutti.methods().set_index("name")
    assert table.loc["mine", "summary"] == "second"
    with pytest.raises(InputError, match="there is a method 'ring' already"):
        tutti.register(replace(ring, summary="mine"), replace=True)
    assert METHODS["ring"] is ring


def test_a_file_that_was_edited_is_read_again_when_asked(folder):
    tutti.register("hub_method.py")
    longer = HUB.replace("everything through one rank", "everything through one rank, again")
    write(folder, longer, "hub_method.py")
    tutti.register("hub_method.py")
    assert METHODS["hub"].summary == "everything through one rank"
    tutti.register("hub_method.py", replace=True)
    assert METHODS["hub"].summary == "everything through one rank, again"


def test_a_module_may_use_what_others_registered(folder):
    text = """
from dataclasses import replace
from tutti.heuristics.classic.ring import RING
from hub_method import METHOD

MINE = replace(RING, name="mine")
"""
    tutti.register("hub_method.py")
    tutti.register(write(folder, text))
    assert {"hub", "mine"} <= METHODS.keys()


def installed(folder: Path, monkeypatch, points: str, **modules: str) -> None:
    """Make a package with entry points that is found."""
    package, info = folder / "my_package", folder / "my_package-1.0.dist-info"
    for made in (package, info):
        made.mkdir()
    for name, text in modules.items():
        write(package, text, f"{name}.py")
    write(info, "Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n", "METADATA")
    write(info, points, "entry_points.txt")
    monkeypatch.syspath_prepend(folder)
    for name in [*sys.modules]:
        if name.partition(".")[0] == "my_package":
            del sys.modules[name]


def entry_points() -> str:
    """Those of the page, as an installed package has them."""
    group, line = ENTRY_POINTS.splitlines()
    assert group == '[project.entry-points."tutti.methods"]'
    return "\n".join(["[tutti.methods]", line.replace('"', "")])


def test_an_installed_package_is_there_and_only_when_asked(tmp_path, monkeypatch):
    installed(tmp_path, monkeypatch, entry_points(), __init__="", hub_method=HUB)
    assert "my_package" not in sys.modules
    assert "hub" in set(tutti.methods()["name"])
    assert tutti.synthesize("ring:4", method="hub").gap > 0
    assert plugins.digests("hub")
    assert plugins.digests("ring") == []


def test_a_module_may_be_an_entry_point(tmp_path, monkeypatch):
    wheel = plugged.files()["wheel_family.py"]
    installed(tmp_path, monkeypatch, "[tutti.topologies]\nw = my_package.wheel\n", __init__="", wheel=wheel)
    assert tutti.topology("wheel:5").num_ranks == 5


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("my_package.hub_method:NOTHING", r"AttributeError: .*'NOTHING'.*"),
        ("my_package.nothing:METHOD", r"ModuleNotFoundError: .*'my_package.nothing'.*"),
        ("my_package.hub_method:HubOptions", r"it is a type, not a Method"),
        ("my_package", r"it has nothing to register: .*"),
    ],
)
def test_a_faulty_entry_point_is_named(value, fault, tmp_path, monkeypatch, capsys):
    points = f"[tutti.methods]\nhub = {value}\n"
    installed(tmp_path, monkeypatch, points, __init__="", hub_method=HUB)
    code, err = said(capsys, "list", "solvers")
    assert code == 2
    assert re.fullmatch(rf"tutti: plug-in my-package, tutti.methods hub = {value}: {fault}\n", err), err


def test_nothing_is_imported_that_no_plug_in_needs():
    code = (
        "import sys; from tutti.experiments import plugins; plugins.load_installed()\n"
        "print(*sorted({'tutti.experiments.registry', 'numpy', 'pandas', 'pyomo'} & sys.modules.keys()))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert out.stdout == "\n"


# What a row depends on


def keys(folder: Path, config: str) -> dict[str, str]:
    """The keys of a config's tasks, by method, as a new process finds them."""
    with plugged.unregistered():
        tasks = make_plan(read_config(write(folder, config, "keys.toml")), METHODS)
    return {task.method: task.key for task in tasks}


def keyed(*files: str) -> str:
    return CONFIG.replace(re.search(r"plugins = .*", CONFIG)[0], f"plugins = {list(files)}") + (
        '[[method]]\nname = "ring"\n[[method]]\nname = "best"\noptions = {methods = ["hub"]}\n'
    )


@pytest.mark.parametrize(
    ("file", "changed"),
    [
        ("hub_method.py", {"hub", "best"}),
        ("scipy_solver.py", {"bfb"}),
        ("average_bound.py", {"hub", "bfb", "ring", "best"}),
        ("wheel_family.py", {"hub", "bfb", "ring", "best"}),
    ],
)
def test_a_change_of_the_source_makes_those_rows_anew_that_depend_on_it(file, changed, folder):
    config = keyed(*plugged.files())
    before = keys(folder, config)
    write(folder, plugged.files()[file] + "# a remark\n", file)
    after = keys(folder, config)
    assert {method for method in before if before[method] != after[method]} == changed


def test_a_module_beside_it_counts_as_its_source(folder):
    write(folder, HUB, "hub_parts.py")
    write(folder, "from hub_parts import METHOD\n", "hub_method.py")
    config = keyed(*plugged.files())
    before = keys(folder, config)
    sys.modules.pop("hub_parts")
    write(folder, HUB + "# a remark\n", "hub_parts.py")
    assert keys(folder, config)["hub"] != before["hub"]
    sys.modules.pop("hub_parts")


def test_a_plug_in_that_changes_during_a_run_ends_it(folder):
    tasks = make_plan(read_config(write(folder, CONFIG, "mine.toml")), METHODS)
    setting = Setting()
    write(folder, HUB + "# a remark\n", "hub_method.py")
    with (
        pytest.raises(
            DiskError, match=r"plug-in .*hub_method.py was changed after the run began; what is done"
        ),
        Pool(1, setting) as pool,
    ):
        list(pool.run(tasks, {}))


# Faults


def lines(*rest: str) -> str:
    return "\n".join(["from tutti.schedules import Method", *rest]) + "\n"


OLD = "models"
BAD = {
    "nothing": ("x = 1\n", r"it has nothing to register: a Method, Family, .*"),
    "raises": (lines("import nowhere_at_all"), r"ModuleNotFoundError: .* \(mine.py:2\)"),
    "old": (
        "from {} import Method\n".format("schedules"),
        r"ImportError: the package schedules is called tutti.schedules \(mine.py:1\)",
    ),
    "moved": (
        lines(f"raise ModuleNotFoundError(name='{OLD}.bounds')"),
        r"ModuleNotFoundError: .*\(mine.py:2\); import tutti.models",
    ),
    "divides": (lines("", "half = 1 / 0"), r"ZeroDivisionError: division by zero \(mine.py:3\)"),
    "exits": (lines("raise SystemExit(3)"), r"SystemExit: 3 \(mine.py:2\)"),
    "interrupts": (lines("raise KeyboardInterrupt"), r"KeyboardInterrupt: \(mine.py:2\)"),
    "pipe": (lines("raise BrokenPipeError"), r"BrokenPipeError: \(mine.py:2\)"),
    "syntax": (lines("def f(:"), r"invalid syntax \(mine.py:2\)"),
    "lacks": (lines('M = Method("mine", "heuristic")'), r"TypeError: .*'synthesize' \(mine.py:2\)"),
    "none": (lines('M = Method("mine", "heuristic", None)'), "method 'mine': synthesize is None; .*function"),
    "few": (
        lines('M = Method("mine", "heuristic", lambda problem: 1)'),
        "method 'mine': synthesize can't be called with 3 arguments: too many positional arguments",
    ),
    "kind": (
        lines('M = Method("mine", "fast", min)'),
        "method 'mine': kind is 'fast'; it must be one of exact.*",
    ),
    "options": (
        lines('M = Method("mine", "exact", min, options={})'),
        "method 'mine': options is {}; it must be a dataclass",
    ),
    "capabilities": (
        lines('M = Method("mine", "exact", min, capabilities=None)'),
        "method 'mine': capabilities is None; it must be a Capabilities",
    ),
    "summary": (
        lines('M = Method("mine", "exact", min, summary=7)'),
        "method 'mine': summary is 7; it must be a str",
    ),
    "taken": (
        lines('M = Method("ring", "exact", min)'),
        "there is a method 'ring' already; give it another name",
    ),
    "twice": (
        lines('A = Method("mine", "exact", min)', 'B = Method("mine", "exact", max)'),
        "there is a method 'mine' already; .*",
    ),
    "name": (
        lines('M = Method("my method", "exact", min)'),
        "a method has the name 'my method'; it must match .*",
    ),
    "build": (
        'from tutti.topologies import Family, mesh\nF = Family("mine", "n", "mine:3", "", lambda n: n)\n',
        "family 'mine': build can't be called with 1 arguments and bandwidth=, alpha=: .*'bandwidth'",
    ),
    "arguments": (
        'from tutti.topologies import Family, mesh\nF = Family("mine", "n", "mine:3", "", mesh, 1)\n',
        "family 'mine': arguments is 1; .*",
    ),
    "cut": (
        'from tutti.models.bounds import BoundKind\nK = BoundKind("cut", max, max)\n',
        "there is a bound 'cut' already; .*",
    ),
    "proof": (
        'from tutti.models.bounds import BoundKind\nK = BoundKind("mine", max, None)\n',
        "bound 'mine': prove is None; it must be a function",
    ),
}


@pytest.mark.parametrize(("text", "fault"), BAD.values(), ids=BAD)
def test_a_bad_plug_in_is_refused_in_one_line(text, fault, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, text)
    code, err = said(capsys, "list", "methods", "--plugin", "mine.py")
    assert code == 2
    assert re.fullmatch(f"tutti: plug-in mine.py: {fault}\n", err), err


@pytest.mark.parametrize(
    ("file", "fault"),
    [
        ("missing.py", "there is no such file"),
        ("folder.py", "there is no such file"),
        ("notes.txt", "it must be a Python file with the name of a module, such as my_method.py"),
        ("my-method.py", "it must be a Python file with the name of a module, such as my_method.py"),
        ("random.py", "there is another module 'random'; rename the file"),
        ("__main__.py", "there is another module '__main__'; rename the file"),
    ],
)
def test_a_file_that_is_no_plug_in_is_refused(file, fault, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.py").mkdir()
    for name in ("notes.txt", "my-method.py", "random.py", "__main__.py"):
        write(tmp_path, HUB, name)
    assert said(capsys, "list", "methods", "--plugin", file) == (2, f"tutti: plug-in {file}: {fault}\n")


def test_bytes_that_are_no_python_are_refused(tmp_path, capsys):
    path = tmp_path / "noise.py"
    path.write_bytes(bytes(range(256)))
    code, err = said(capsys, "list", "methods", "--plugin", path)
    assert code == 2
    assert err.startswith(f"tutti: plug-in {path}: ")


def test_a_config_names_the_plug_in_that_is_missing(tmp_path):
    with pytest.raises(InputError, match=r"mine.toml: plug-in .*hub_method.py: there is no such file$"):
        read_config(write(tmp_path, CONFIG, "mine.toml"))


def test_a_plug_in_that_was_refused_is_read_anew_once_it_is_mended(tmp_path):
    path = write(tmp_path, "x = 1\n")
    with pytest.raises(InputError, match="nothing to register"):
        plugins.load(path)
    plugins.load(write(tmp_path, lines('M = Method("mine", "exact", lambda a, b, c: 0)')))
    assert "mine" in METHODS


def test_what_is_refused_leaves_nothing_behind(tmp_path):
    with pytest.raises(InputError, match="there is a method 'ring' already"):
        plugins.load(
            write(tmp_path, lines('A = Method("mine", "exact", max)', 'B = Method("ring", "exact", min)'))
        )
    assert "mine" not in METHODS


def test_only_what_can_be_is_registered():
    with pytest.raises(
        InputError, match=r"^register: a int can't be registered; it must be a Method, Family"
    ):
        tutti.register(3)


FAULTY = lines(
    "from tutti.schedules import Problem, collective",
    "from tutti.heuristics.classic.direct import METHOD as DIRECT",
    "def direct(problem):",
    "    return DIRECT.synthesize(problem, DIRECT.options(), None)",
    "def raises(problem, options, rng):",
    "    return {}['seven']",
    "def reads(problem, options, rng):",
    "    return open('/no/such/file')",
    "def lacks(problem, options, rng):",
    "    import nowhere_at_all",
    "def gives_nothing(problem, options, rng):",
    "    pass",
    "def others(problem, options, rng):",
    "    return direct(Problem(problem.topology, collective('all-to-all', problem.topology.num_ranks)))",
    "def wrong(problem, options, rng):",
    "    made = direct(problem)",
    "    return made.replace(chunk=made.chunk[1:], route=made.route[1:], order=made.order[1:])",
    "def leaves(problem, options, rng):",
    "    raise SystemExit(0)",
    "def interrupts(problem, options, rng):",
    "    raise KeyboardInterrupt",
    "def breaks(problem, options, rng):",
    "    raise BrokenPipeError",
    "faulty = (raises, reads, lacks, gives_nothing, others, wrong, leaves, interrupts, breaks)",
    "A, B, C, D, E, F, G, H, I = (Method(f.__name__, 'heuristic', f) for f in faulty)",
)
FAULTS = {
    "raises": (2, r"a fault in plug-in mine.py: KeyError: 'seven' \(mine.py:7\); python -X dev shows where"),
    "reads": (2, r"a fault in plug-in mine.py: FileNotFoundError: .* \(mine.py:9\); .*"),
    "lacks": (2, r"a fault in plug-in mine.py: ModuleNotFoundError: .* \(mine.py:11\); .*"),
    "leaves": (2, r"a fault in plug-in mine.py: SystemExit: 0 \(mine.py:20\); .*"),
    "interrupts": (2, r"a fault in plug-in mine.py: KeyboardInterrupt: \(mine.py:22\); .*"),
    "breaks": (2, r"a fault in plug-in mine.py: BrokenPipeError: \(mine.py:24\); .*"),
    "gives_nothing": (2, "gives_nothing returned NoneType; it must return a Schedule"),
    "others": (2, "others answered another problem: all-to-all on ring:4, not allgather on ring:4"),
    "wrong": (1, ".* is missing at rank . at the end"),
}


@pytest.mark.parametrize(("method", "code", "fault"), [(name, *what) for name, what in FAULTS.items()])
def test_a_method_at_fault_is_named_with_its_line(method, code, fault, tmp_path, capsys):
    found, err = said(capsys, "synth", "ring:4", "--plugin", write(tmp_path, FAULTY), *SYNTH, method)
    assert re.fullmatch(f"tutti: {fault}\n", err), err
    assert found == code


def test_ctrl_c_in_a_plug_in_stays_ctrl_c(tmp_path, capsys):
    text = lines(
        "import signal",
        "def slow(problem, options, rng):",
        "    signal.raise_signal(signal.SIGINT)",
        "M = Method('slow', 'heuristic', slow)",
    )
    signal.signal(signal.SIGINT, signal.default_int_handler)
    found = said(capsys, "synth", "ring:4", "--plugin", write(tmp_path, text), *SYNTH, "slow")
    assert found == (130, "tutti: stopped\n")


def test_in_python_a_fault_is_what_it_is(tmp_path):
    tutti.register(write(tmp_path, FAULTY))
    with pytest.raises(KeyError, match="seven"):
        tutti.synthesize("ring:4", method="raises")


def test_best_does_not_take_another_problems_schedule(tmp_path):
    tutti.register(write(tmp_path, FAULTY))
    result = tutti.synthesize("ring:4", methods=["others", "ring"])
    assert result.document["algorithm"] == "ring"


def test_a_fault_is_a_row_and_the_others_go_on(tmp_path):
    write(tmp_path, FAULTY)
    head = 'name = "x"\nplugins = ["mine.py"]\n[[topology]]\nspec = "ring:4"\n'
    head += '[[collective]]\nkind = "allgather"\nsizes = ["1MB"]\n'
    names = ("raises", "wrong", "others", "ring")
    rows = rows_of(tmp_path, head + "".join(f'[[method]]\nname = "{name}"\n' for name in names))
    assert [row["status"] for row in rows] == ["failed", "failed", "failed", "ok"]
    assert rows[0]["message"] == "plug-in mine.py: KeyError: 'seven' (mine.py:7)"
    assert rows[1]["message"].startswith("illegal schedule: ")
    assert rows[2]["message"].startswith("others answered another problem")


def bound(find: str, prove: str = "return Fraction(1)") -> str:
    return (
        "from fractions import Fraction\nfrom tutti.models.bounds import Bound, BoundKind\n"
        f"def find(topology, collective, size):\n    {find}\n"
        f"def prove(certificate, topology, collective):\n    {prove}\n"
        "KIND = BoundKind('mine', find, prove)\n"
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (bound("return 7"), "mine bound: find returned 7; it must return None, or a Bound of kind 'mine' .*"),
        (
            bound("return Bound('mine', 1.0, 's', {})"),
            "mine bound: find returned .* whose value is a Fraction, .*",
        ),
        (bound("return Bound('mine', Fraction(1), 's', None)"), "mine bound: find returned .* a mapping"),
        (bound("return Bound('mine', Fraction(1), ['s'], {})"), "mine bound: find returned .* a text .*"),
        (bound("return Bound('yours', Fraction(1), 's', {})"), "mine bound: find returned .*"),
        (
            bound("return Bound('mine', Fraction(2), 's', {})"),
            "mine bound: the certificate proves 1 s, not 2",
        ),
        (
            bound("return Bound('mine', Fraction(1), 's', {})", "return certificate['x']"),
            r"a fault in plug-in mine.py: KeyError: 'x' \(mine.py:6\); .*",
        ),
    ],
)
def test_a_bound_without_its_proof_is_refused(text, fault, tmp_path, capsys):
    code, err = said(capsys, "bound", "ring:4", "--size", "1MB", "--plugin", write(tmp_path, text))
    assert code == 2
    assert re.fullmatch(f"tutti: {fault}\n", err), err


def test_a_bound_that_a_schedule_beats_is_named(tmp_path):
    """One second for a ring of four at 1 MB, which takes about 9 us."""
    tutti.register(write(tmp_path, bound("return Bound('mine', Fraction(1), 's', {})")))
    (row,) = tutti.compare("ring:4", methods="ring").to_dict("records")
    assert row["status"] == "failed"
    assert re.fullmatch(r"simulated .* us beats the mine bound of 1000000 us", row["message"])


def test_a_time_is_no_bound_where_no_size_is_asked(tmp_path):
    tutti.register(write(tmp_path, bound("return Bound('mine', Fraction(1), 's', {})")))
    ring, what = parse_topology("ring:4"), collective("allgather", 4)
    assert "mine" not in {found.kind for found in lower_bounds(ring, what)}
    assert "mine" in {found.kind for found in lower_bounds(ring, what, 10**6)}


def test_a_family_that_makes_no_network_is_named(tmp_path, capsys):
    build = "lambda n, bandwidth, alpha: n"
    text = f'from tutti.topologies import Family\nF = Family("mine", "n", "mine:3", "", {build})\n'
    code, err = said(capsys, "bound", "mine:3", "--plugin", write(tmp_path, text))
    assert (code, err) == (2, "tutti: topology 'mine:3': mine returned int, not a Topology\n")


SOLVER = plugged.files()["scipy_solver.py"]
SMALL = CompiledModel.of_matrix("one", csr_array(np.ones((1, 1))), [1.0], 1.0, 2.0)


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (
            "return 1 / 0",
            r"^solver scipy: ZeroDivisionError: division by zero \(mine.py:\d+\)$",
        ),
        ("return 7", "solver scipy returned int; it must return an Outcome"),
    ],
)
def test_a_solver_at_fault_is_named(body, fault, apart, tmp_path):
    text = re.sub(r"(def run.*\n)(.*\n)*?\n\n", rf"\1    {body}\n\n\n", SOLVER, count=1)
    tutti.register(write(tmp_path, text))
    wanted = ZeroDivisionError if "1 / 0" in body and not apart else TuttiError
    with pytest.raises(wanted, match=r"division by zero" if wanted is ZeroDivisionError else fault):
        solve(SMALL, "scipy", find_backend("scipy").options(own_process=apart))


def test_a_solver_of_a_notebook_can_not_be_put_apart(monkeypatch):
    notebook = ModuleType("notebook_without_file")
    monkeypatch.setitem(sys.modules, notebook.__name__, notebook)
    exec(SOLVER, notebook.__dict__)
    tutti.register(notebook.BACKEND)
    with pytest.raises(TuttiError, match=r"^another process lacks what it was sent: .*notebook_without_file"):
        solve(SMALL, "scipy", find_backend("scipy").options(own_process=True))
    assert solve(SMALL, "scipy").objective == 1
