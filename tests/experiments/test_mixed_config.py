"""Mixed collectives in a config: kinds at the same time, and what is wrong with them."""

import pytest

from tutti.experiments.registry import METHODS
from tutti.experiments.runner.config import parse_config
from tutti.experiments.runner.plan import make_plan
from tutti.schedules import Problem, collective, concurrent
from tutti.topologies import InputError, Unsupported
from tutti.topologies.text import parse_topology


def plan(table, spec="mesh:2x3"):
    text = f'name = "mixed"\n[[topology]]\nspec = "{spec}"\n[[collective]]\nsizes = ["1MB"]\n{table}\n'
    return make_plan(parse_config(text + '[[method]]\nname = "direct"\n'), METHODS)


def test_parts_run_at_the_same_time():
    (task,) = plan(
        'kind = "mixed"\nparts = [{kind = "broadcast", root = 1, groups = [[0, 1]]}, '
        '{kind = "allreduce", groups = [[2, 3]]}]'
    )
    expected = [
        collective("broadcast", 6, root=1, groups=[[0, 1]]),
        collective("allreduce", 6, groups=[[2, 3]]),
    ]
    assert task.collective == concurrent(expected)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('kind = "mixed"', "parts are for kind 'mixed', and needed there; this is 'mixed'"),
        (
            'kind = "allgather"\nparts = [{kind = "reduce"}]',
            "parts are for kind 'mixed', and needed there; this is 'allgather'",
        ),
        (
            'kind = "mixed"\nroot = 1\nparts = [{kind = "reduce"}]',
            "a mixed collective has no root, shards, groups and matrix; its parts have",
        ),
        ('kind = "mixed"\nparts = [{kind = "reduce"}]', "mixed: 1 part(s); at least 2 are needed"),
        ('kind = "mixed"\nparts = [{kind = "reduce", rot = 1}]', "'parts': unknown key 'rot'"),
        (
            'kind = "mixed"\nparts = [{kind = "reduce"}, {kind = "gather", groups = [[0, 1], [1, 2]]}]',
            "rank 1 occurs twice in the groups; groups must be disjoint",
        ),
        (
            'kind = "mixed"\nparts = [{kind = "mixed"}, {kind = "gather", groups = [[0, 1]]}]',
            "a mixed collective is made of parts",
        ),
        ('kind = "mixed"\nparts = [{kind = "reduce", sizes = 1}]', "unknown key"),
    ],
)
def test_parts_that_do_not_fit_are_refused_with_their_place(table, message):
    with pytest.raises(InputError) as error:
        plan(table)
    assert str(error.value).startswith("config: [[collective]] 1")
    assert message in str(error.value)


def test_two_methods_do_several_kinds_themselves_and_the_others_say_that_they_do_not():
    """The others are found with `schedules.groups` around them, which does the parts one by one."""
    what = concurrent([collective("reduce", 6, groups=[[0, 1]]), collective("gather", 6, groups=[[2, 3]])])
    problem, able = Problem(parse_topology("mesh:2x3"), what), set()
    for name, method in METHODS.items():
        try:
            method.supports(problem, method.options())
        except Unsupported as error:
            said = str(error)
        else:
            able.add(name)
            continue
        assert said.endswith("; not mixed"), name
    assert able == {"tacos", "best"}
