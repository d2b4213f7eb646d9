"""Configs: what is right is read exactly, what is wrong is one line with its place."""

import math
import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
import zoo

from tests.sweep import for_each
from tutti.experiments.registry import METHODS
from tutti.experiments.runner.config import TopologyTable, parse_config, read_config
from tutti.experiments.runner.plan import make_plan, time_limit
from tutti.experiments.runner.study import select, study_of
from tutti.topologies import InputError
from tutti.topologies.options import build_options, describe_options
from tutti.topologies.units import parse_time

CONFIGS = Path(__file__).parents[3] / "configs"

GOOD = """
name = "x"
[[topology]]
spec = "ring:4"
[[collective]]
kind = "allgather"
sizes = ["1KB", "1MB"]
[[method]]
name = "good"
"""


def plan(text: str, methods=None):
    return make_plan(parse_config(text, "x.toml"), methods or zoo.METHODS)


MANY = [*range(1, 401)]


def tables(
    topology='spec = "ring:4"', collective='kind = "allgather"\nsizes = ["1KB"]', method='name = "good"'
):
    return f'name = "x"\n[[topology]]\n{topology}\n[[collective]]\n{collective}\n[[method]]\n{method}\n'


def test_all_sizes_of_a_method_that_does_not_depend_on_them_are_one_task():
    (task,) = plan(GOOD)
    assert task.sizes == (1000, 10**6)


def test_each_size_of_a_method_that_depends_on_it_is_a_task():
    assert [task.sizes for task in plan(GOOD.replace("good", "by_size"))] == [(1000,), (10**6,)]


def test_a_sweep_fills_placeholders_and_leaves_the_papers_braces_alone():
    text = tables(topology='spec = "torus:{n}x{m}"\nsweep = {n = [2, 3], m = [4, 5]}')
    assert [task.topology for task in plan(text)] == ["torus:2x4", "torus:2x5", "torus:3x4", "torus:3x5"]
    braces = parse_config(tables(topology='spec = "L(C(16,{3,4}))"'))
    assert braces.tables(TopologyTable, "topology")[0].table.spec == "L(C(16,{3,4}))"


def test_blanks_around_a_topology_are_no_part_of_it():
    assert [task.topology for task in plan(GOOD.replace("ring:4", r" ring:4\n"))] == ["ring:4"]


def test_a_sweep_sets_keys():
    text = tables(collective='sizes = ["1KB"]\nsweep = {kind = ["allgather", "allreduce"]}')
    assert [str(task.collective) for task in plan(text)] == ["allgather", "allreduce"]


def test_a_sweep_inside_options_sets_options():
    text = tables(method='name = "slow"\noptions = {seconds = 1, sweep = {chunks = [1, 2]}}')
    assert [task.options for task in plan(text)] == [{"seconds": 1, "chunks": n} for n in (1, 2)]


def test_a_method_may_be_for_some_topologies_and_collectives():
    text = tables(
        topology='spec = "ring:{n}"\nsweep = {n = [4, 5]}',
        collective='sizes = ["1KB"]\nsweep = {kind = ["allgather", "allreduce"]}',
        method='name = "good"\ntopologies = ["ring:5", "torus*"]\n'
        '[[method]]\nname = "slow"\ncollectives = ["all?educe"]',
    )
    assert [(t.topology, str(t.collective), t.method) for t in plan(text)] == [
        ("ring:4", "allreduce", "slow"),
        ("ring:5", "allgather", "good"),
        ("ring:5", "allreduce", "good"),
        ("ring:5", "allreduce", "slow"),
    ]


def test_a_method_may_be_for_some_of_the_sizes_of_a_collective():
    text = GOOD + 'sizes = ["1MB", "1GB"]\n[[method]]\nname = "slow"\n'
    assert [(t.method, t.sizes) for t in plan(text)] == [("good", (10**6,)), ("slow", (1000, 10**6))]


def test_a_number_of_seeds_is_one_task_and_a_list_one_each():
    assert [t.seeds for t in plan(tables(method='name = "lucky"\nseeds = 3'))] == [(0, 1, 2)]
    assert [t.seeds for t in plan(tables(method='name = "lucky"\nseeds = [5, 7]'))] == [(5,), (7,)]


@pytest.mark.parametrize(("seeds", "said"), [("5", "5"), ("[3, 4]", r"[3, 4]"), ("1", None)])
def test_seeds_of_a_method_without_randomness_are_one_task_and_a_note(seeds, said):
    (task,) = plan(tables(method=f'name = "good"\nseeds = {seeds}'))
    note = f"good has no randomness, so seeds = {said} is one try" if said else ""
    assert (task.seeds, task.seed, task.known["note"]) == ((0,), None, note)
    (failed,) = {row["note"] for row in task.rows("timeout")}
    assert failed == note


def test_uneven_shards_are_taken_by_their_decimal_text():
    (task,) = plan(tables(collective='kind = "allgather"\nsizes = ["1KB"]\nshards = [0.1, 0.2, 0.3, 4e-1]'))
    assert task.collective.shards == (Fraction(1, 10), Fraction(1, 5), Fraction(3, 10), Fraction(2, 5))


def test_roots_and_groups_reach_the_collective():
    text = tables(collective='kind = "broadcast"\nsizes = ["1KB"]\nroot = 1\ngroups = [[0, 1], [2, 3]]')
    (task,) = plan(text)
    assert (task.collective.root, task.collective.groups) == (1, ((0, 1), (2, 3)))


def test_the_time_limit_is_a_time():
    assert time_limit(parse_config(GOOD + '[run]\ntime_limit = "2min"')) == 120.0
    assert time_limit(parse_config(GOOD)) is None


def test_the_key_of_a_task_depends_on_its_options_and_not_on_how_it_is_run():
    (task,) = plan(GOOD)
    (same,) = plan(GOOD + "[run]\nworkers = 1")
    (other,) = plan(GOOD.replace('"good"', '"slow"\noptions = {chunks = 2}'))
    assert task.key == same.key != other.key


def test_a_pattern_selects_by_topology_collective_method_or_all_of_it():
    tasks = plan(tables(topology='spec = "ring:{n}"\nsweep = {n = [4, 5]}'))
    assert [t.topology for t in select(tasks, "ring:4")] == ["ring:4"]
    assert len(select(tasks, "good")) == len(select(tasks, "allga*")) == 2
    assert [t.topology for t in select(tasks, "ring:5 * good")] == ["ring:5"]
    with pytest.raises(InputError, match=r"--only 'gud' matches none of the 2 tasks; try one of"):
        select(tasks, "gud")


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.toml")), ids=lambda path: path.stem)
def test_the_configs_of_the_repository_are_right(path):
    assert study_of(read_config(path), METHODS).tasks


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.toml")), ids=lambda path: path.stem)
def test_a_kind_that_is_said_is_that_which_the_tables_give_away(path):
    text, kind = path.read_text(), read_config(path).kind
    assert parse_config(f'kind = "{kind}"\n{text}', str(path)).kind == kind
    for other in {"schedules", "failures", "solvers", "training"} - {kind}:
        refused = rf"(is missing|a study of {other} has no '.*'; it has name, kind)"
        with pytest.raises(InputError, match=refused):
            parse_config(f'kind = "{other}"\n{text}', str(path))


WRONG = {
    # malformed files
    'name = "x\n': r"x\.toml:1: .+ \(column \d+\)",
    'name = "x"\n[[topology]]\nspec = \n': r"x\.toml:3: not TOML: Invalid value \(column 8\)",
    # kinds
    f'kind = "frontier"\n{tables()}': r"x\.toml: 'kind' must be 'schedules', 'failures', 'solvers' or 'trai",
    tables() + '[[job]]\nname = "x"': r"x\.toml: a study of training has no 'topology'; it has name, kind",
    'name = "x"\n[study]\ntime_limit = "1s"': r"x\.toml: \[\[instance\]\] is missing",
    'name = "x"\n[[instance]]\nmodel = "bfb"\n[[solver]]\nname = "highs"': r"x\.toml: \[study\] is missing",
    # keys and tables
    tables() + "\n[runn]": r"x\.toml: unknown key 'runn'; did you mean 'run'\?",
    tables() + "\n[run]\nworker = 2": r"x\.toml: \[run\]: unknown key 'worker'; did you mean 'workers'\?",
    tables(topology='spek = "ring:4"'): (
        r"x\.toml: \[\[topology\]\] 1: unknown key 'spek'; did you mean 'spec'\?"
    ),
    tables(topology=""): r"x\.toml: \[\[topology\]\] 1: key 'spec' is missing",
    tables(topology='spec = "ring:4"\n[[topology]]\nspec = "ring:4"\nspeck = 1'): (
        r"x\.toml: \[\[topology\]\] 2: unknown key 'speck'; did you mean 'spec'\?"
    ),
    GOOD.replace("[[topology]]", "[topology]"): r"write \[\[topology\]\] with double brackets",
    'name = "x"': r"x\.toml: \[\[topology\]\] is missing",
    GOOD.replace('name = "x"', ""): r"x\.toml: key 'name' is missing",
    GOOD.replace('name = "x"', 'name = "a/b"'): r"x\.toml: name 'a/b' must be letters, digits",
    GOOD.replace('name = "x"', "name = 3"): r"x\.toml: 'name' must be a valid string, not 3",
    # values
    tables(topology="spec = 4"): r"\[\[topology\]\] 1: 'spec' must be a valid string, not 4",
    tables(topology='spec = "rng:4"'): r"\[\[topology\]\] 1: .*unknown family 'rng'; did you mean",
    tables(topology='spec = "torus:4xa"'): r"\[\[topology\]\] 1: .*'a'",
    tables(topology='spec = "ring:4?bandwidth=0GB/s"'): r"\[\[topology\]\] 1: .*zero",
    tables(topology='spec = "ring:4?bandwidth=50"'): r"\[\[topology\]\] 1: .*has no unit",
    tables(topology='spec = "ring:4?drop_links=0>1,2>1"'): r"\[\[topology\]\] 1: .*not strongly connected",
    tables(topology='spec = "nowhere.json"'): r"\[\[topology\]\] 1: .*nowhere\.json",
    tables(
        collective='kind = "allgahter"\nsizes = ["1KB"]'
    ): r"\[\[collective\]\] 1 .*did you mean 'allgather'\?",
    tables(collective='kind = "allgather"\nsizes = []'): r"\[\[collective\]\] 1: 'sizes' is empty",
    tables(collective='kind = "allgather"\nsizes = [1000]'): (
        r'\[\[collective\]\] 1: size 1000 has no unit; write it as text, such as "1MB"'
    ),
    tables(collective='kind = "allgather"\nsizes = ["1000"]'): r"\[\[collective\]\] 1: sizes: .*has no unit",
    tables(collective='kind = "allgather"\nsizes = ["1XB"]'): r"\[\[collective\]\] 1: sizes: .*unknown unit",
    tables(collective='kind = "allgather"\nsizes = ["0.5B"]'): r"'0\.5B' must be a positive whole number",
    tables(collective='kind = "allgather"\nsizes = ["1KB", "1000B"]'): r"size '1000B' occurs twice",
    tables(collective='kind = "broadcast"\nsizes = ["1KB"]\nroot = 9'): (
        r"\[\[collective\]\] 1 on ring:4: broadcast: root 9; allowed: 0\.\.3"
    ),
    tables(collective='kind = "allgather"\nsizes = ["1KB"]\nroot = "0"'): (
        r"\[\[collective\]\] 1: 'root' must be a valid integer, not '0'"
    ),
    # methods
    tables(method='name = "goood"'): r"\[\[method\]\] 1: unknown method 'goood'; did you mean 'good'\?",
    tables(method='name = "good"\nseeds = [1, 1]'): r"\[\[method\]\] 1: seeds = \[1, 1\]; a list holds",
    tables(
        method='name = "lucky"\nseeds = 0'
    ): r"\[\[method\]\] 1: option seeds is 0; it must be a whole number, 1 to",
    tables(
        method='name = "lucky"\nseeds = [1, 1]'
    ): r"\[\[method\]\] 1: seeds = \[1, 1\]; a list holds different",
    tables(method='name = "lucky"\nseeds = "many"'): r"\[\[method\]\] 1: 'seeds' must be a valid integer",
    tables(method='name = "slow"\noptions = {chunk = 2}'): (
        r"\[\[method\]\] 1: method slow has no option 'chunk'; did you mean 'chunks'\?"
    ),
    tables(method='name = "slow"\noptions = {chunks = "2"}'): (
        r"\[\[method\]\] 1: method slow, option 'chunks': input should be a valid integer, not \"2\""
    ),
    tables(method='name = "slow"\noptions = {seconds = -1}'): r"seconds is -1\.0; it must not be negative",
    tables(
        method='name = "good"\noptions = {chunks = 2}'
    ): r"method good has no option 'chunks'; it has none",
    tables(method='name = "good"\n[[method]]\nname = "good"'): (
        r"x\.toml: ring:4 allgather good at 1000 B is asked for twice"
    ),
    tables(method='name = "good"\ntopologies = ["torus*"]'): (
        r"\[\[method\]\] 1: nothing in the config matches both topologies = \['torus\*'\] and collectives"
    ),
    tables(method='name = "good"\nsizes = ["1MB", "1GB"]'): (
        r"\[\[method\]\] 1: nothing in the config matches both topologies .* at 1MB, 1GB$"
    ),
    tables(method='name = "good"\nsizes = ["1XB"]'): r"\[\[method\]\] 1: sizes: .*1XB",
    tables(method='name = "good"\n[[method]]\nname = "slow"\ncollectives = ["allreduce"]'): (
        r"\[\[method\]\] 2: nothing in the config matches both topologies = \['\*'\] and coll.*allreduce"
    ),
    tables(
        method='name = "good"\ntopologies = []'
    ): r"\[\[method\]\] 1: 'topologies' is empty; give at least",
    tables(
        method='name = "good"\ncollectives = "allgather"'
    ): r"'collectives' must be a valid list, not 'allg",
    # one column of the gap table would hold both
    tables(method='name = "lucky"\n[[method]]\nname = "lucky"\nseeds = 4'): (
        r"\[\[method\]\] 2: method lucky has the same options in \[\[method\]\] 1, with other seeds; give all"
    ),
    # sweeps
    tables(topology='spec = "ring:{n}"'): r"\[\[topology\]\] 1: nothing fills \{n\} in 'ring:\{n\}'",
    tables(
        topology='spec = "ring:{n}"\nsweep = {n = 4}'
    ): r"\[\[topology\]\] 1, sweep: 'n' is 4; give a list",
    tables(topology='spec = "ring:{n}"\nsweep = {n = [4], m = [5]}'): (
        r"\[\[topology\]\] 1, sweep: 'm' is no key, and no text has \{m\}"
    ),
    tables(topology='spec = "ring:{n}"\nsweep = {n = [4, 1]}'): r"\[\[topology\]\] 1 \(n = 1\): ",
    # numbers beyond what can be held
    tables() + "x = " + "[" * 5000: r"x\.toml: nested too deeply",
    tables() + "x = " + "9" * 5000: r"x\.toml: a number or date is out of range",
    tables(collective='kind = "allgather"\nsizes = ["1KB"]\nshards = [1e999999999, 1, 1, 1]'): (
        r"\[\[collective\]\] 1 on ring:4: the number 1E\+999999999 is out of range"
    ),
    tables(collective='kind = "allgather"\nsizes = ["1KB"]\nshards = [1e60, 1e-60, 1, 1]'): (
        r"\[\[collective\]\] 1 on ring:4: values too far apart"
    ),
    tables(collective='kind = "allgather"\nsizes = ["1KB"]\ngroups = []'): (
        r"\[\[collective\]\] 1 on ring:4: allgather: groups is empty"
    ),
    tables(
        method='name = "lucky"\nseeds = 1000000000000'
    ): r"option seeds is 10{12}; it must be a whole number, 1 to 1000000",
    tables(method='name = "lucky"\nseeds = [99999999999999999999]'): r"a seed must be below 2\^63",
    tables(method='name = "slow"\noptions = {chunks = 2020-01-01}'): (
        r"option 'chunks': input should be a valid integer, not \"2020-01-01\""
    ),
    # more than there can be
    tables(topology=f'spec = "ring:4"\nsweep = {{spec = {[*map(str, range(400))]}, x = {[0] * 400}}}'): (
        r"\[\[topology\]\] and its sweeps make 160000 tables; at most 100000"
    ),
    tables(method=f'name = "slow"\noptions = {{sweep = {{chunks = {MANY}, seconds = {MANY}}}}}'): (
        r"\[\[method\]\] and its sweeps make 160000 tables"
    ),
    # run
    tables() + '[run]\nkeep_schedules = "some"': r"\[run\]: 'keep_schedules' must be 'all', 'best' or 'none'",
}


@pytest.mark.parametrize(("text", "message"), WRONG.items(), ids=range(len(WRONG)))
def test_a_wrong_config_is_one_line_with_its_place(text, message):
    with pytest.raises(InputError, match=message) as error:
        plan(text)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith("x.toml")


def test_more_tasks_than_a_run_can_have_are_refused(monkeypatch):
    monkeypatch.setattr("tutti.experiments.runner.plan.MOST_TASKS", 1)
    assert len(plan(GOOD)) == 1
    with pytest.raises(InputError, match=r"x\.toml: more than 1 tasks; make several configs"):
        plan(GOOD.replace("good", "by_size"))


def test_a_wrong_time_limit_is_one_line():
    with pytest.raises(InputError, match=r"\[run\]: time_limit: time '60' has no unit"):
        time_limit(parse_config(GOOD + '[run]\ntime_limit = "60"'))
    with pytest.raises(InputError, match=r"\[run\]: time_limit is '0s'; it must be positive"):
        time_limit(parse_config(GOOD + '[run]\ntime_limit = "0s"'))


def test_a_config_with_the_shared_folder_of_earlier_versions_is_read():
    config = parse_config(GOOD + '[run]\nshared = "/nfs/tutti"', "x.toml")
    assert make_plan(config, zoo.METHODS) == plan(GOOD)


def test_a_file_that_is_not_there_or_no_text_is_one_line(tmp_path):
    with pytest.raises(InputError, match=r"none\.toml: can't be read: No such file or directory"):
        read_config(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"name = '\xff'")
    with pytest.raises(InputError, match=r"bytes\.toml: not UTF-8 text, at byte 8"):
        read_config(tmp_path / "bytes.toml")


def test_an_option_of_a_method_becomes_its_dataclass():
    assert build_options(zoo.METHODS["slow"], {"seconds": 1}) == zoo.Options(seconds=1.0)


LIMITED = [name for name, method in METHODS.items() if "time_limit" in describe_options(method)]


@for_each("name", LIMITED)
def test_every_time_limit_is_a_number_of_seconds_or_a_text_with_its_unit(name):
    """2.5 s in five ways; those of the config's TOML and of ``--option`` are `Decimal`."""
    given = [2.5, Decimal("2.5"), "2.5s", "2500ms", "2500 ms"]
    made = [build_options(METHODS[name], {"time_limit": value}).time_limit for value in given]
    assert {float(one) if not isinstance(one, str) else float(parse_time(one)) for one in made} == {2.5}
    assert len(set(map(type, made))) == 1
    whole = [build_options(METHODS[name], {"time_limit": value}) for value in (15, "15s")]
    assert whole[0] == whole[1]


def test_there_are_methods_with_each_sort_of_time_limit():
    """`best` holds a text, `taccl` seconds."""
    assert {"best", "taccl", "tacos", "mcf", "sccl", "teccl", "optimum"} <= set(LIMITED)
    given = {"time_limit": 15}
    assert build_options(METHODS["best"], given).time_limit == "15s"
    assert build_options(METHODS["taccl"], given).time_limit == 15.0


@for_each("name", LIMITED)
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("15 parsecs", "time '15 parsecs' has an unknown unit 'parsecs'; write it like"),
        ("15", "time '15' has no unit; write it like"),
        (-1, "time '-1s' is negative"),
        (math.inf, "time 'infs' is not a number with a unit"),
        (True, "input should be a valid"),
        ([1], "input should be a valid"),
    ],
)
def test_a_wrong_time_limit_of_a_method_is_one_line_that_names_it(name, value, message):
    with pytest.raises(InputError) as error:
        build_options(METHODS[name], {"time_limit": value})
    assert str(error.value).startswith(f"method {name}, option 'time_limit': {message}")
    assert "\n" not in str(error.value)


@for_each("name", LIMITED)
def test_a_time_limit_of_zero_is_refused(name):
    with pytest.raises(InputError, match=r"time_limit is .*positive"):
        build_options(METHODS[name], {"time_limit": 0})


@pytest.mark.parametrize("text", ["90", "90.0", '"90s"', '"1.5min"'])
def test_the_time_limit_of_a_run_is_seconds_or_a_text_too(text):
    assert time_limit(parse_config(GOOD + f"[run]\ntime_limit = {text}")) == 90.0


def test_a_matrix_of_bytes_says_its_size(tmp_path):
    """Rows of 3, 5 and 0 bytes: M is 5; a generated matrix needs sizes."""
    path = tmp_path / "moe.csv"
    path.write_text("0,1,2\n4,0,1\n0,0,0\n")
    text = """
name = "v"
[[topology]]
spec = "ring:3"
[[collective]]
kind = "all-to-all"
matrix = "MATRIX"
[[method]]
name = "direct"
"""
    (task,) = make_plan(parse_config(text.replace("MATRIX", str(path))), METHODS)
    assert task.sizes == (5,)
    with pytest.raises(InputError, match="key 'sizes' is missing; only a matrix from a file, and parts"):
        make_plan(parse_config(text.replace("MATRIX", "random")), METHODS)


def groups_of(rest: str, spec: str = "torus:2x2") -> str:
    """Return a config of one collective over groups."""
    return f"""
    name = "g"
    [[topology]]
    spec = "{spec}"
    [[collective]]
    {rest}
    [[method]]
    name = "ring"
    """


PARTS = """kind = "mixed"
    parts = [
      {kind = "allreduce", groups = [[0, 1], [2, 3]]FIRST},
      {kind = "allgather", groups = [[0, 2], [1, 3]]SECOND},
    ]"""


def parts_with(first: str, second: str) -> str:
    return groups_of(PARTS.replace("FIRST", first).replace("SECOND", second))


def test_groups_by_dimensions_and_as_parts_are_the_same():
    dimensions = groups_of('kind = "mixed"\ngroups = "tp=2:allreduce@1MB,dp=*:allgather@4MB"')
    (one,) = make_plan(parse_config(dimensions), METHODS)
    (other,) = make_plan(parse_config(parts_with(', size = "1MB"', ', size = "4MB"')), METHODS)
    assert one.collective == other.collective
    assert one.sizes == other.sizes == (4 * 10**6,)
    assert one.collective.weights == (Fraction(1, 4), Fraction(1))


def test_sizes_of_several_groups_are_those_of_the_largest():
    text = groups_of('kind = "allreduce"\ngroups = "tp=2@1MB,dp=2@4MB"\nsizes = ["1KB", "1MB"]')
    tasks = make_plan(parse_config(text), METHODS)
    assert [task.sizes for task in tasks] == [(1000,), (10**6,)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (parts_with(', size = "1MB"', ""), "only some of the parts have a size; all or none must"),
        (parts_with(', size = "0B"', ', size = "1MB"'), "size '0B'"),
        (parts_with("", ""), "key 'sizes' is missing"),
        (groups_of('kind = "mixed"\ngroups = "tp=2,dp=2"'), "a mixed collective is made of parts"),
        (groups_of('kind = "allreduce"\nsize = "1MB"\nsizes = ["1MB"]'), "size is for one of the parts"),
        (
            groups_of('kind = "allreduce"\ngroups = "tp=2,dp=3"\nsizes = ["1MB"]'),
            "on torus:2x2: groups 'tp=2,dp=3': the sizes multiply to 6, for 4 ranks",
        ),
        (
            groups_of('kind = "allreduce"\nroot = 1\ngroups = "tp=2,dp=2"\nsizes = ["1MB"]'),
            "groups by dimensions take no root, shards and matrix",
        ),
        (
            groups_of('kind = "mixed"\nsizes = ["1MB"]\nparts = [{kind = "reduce", groups = "tp=4"}]'),
            "parts have groups as lists of ranks",
        ),
    ],
)
def test_groups_that_make_no_sense_are_refused_with_their_place(text, message):
    with pytest.raises(InputError, match=re.escape(message)) as error:
        make_plan(parse_config(text), METHODS)
    assert "[[collective]] 1" in str(error.value)
    assert "\n" not in str(error.value)
