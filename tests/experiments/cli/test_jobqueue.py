"""``tutti run --print-jobqueue``: each script is Python that names the study, its folder and its memory."""

import ast

import pytest

from experiments.cli.jobqueue import SYSTEMS
from experiments.cli.parser import JOBQUEUES
from tests.experiments.cli.commands import write_smoke


def constants(script):
    """Return what the script's names in capitals are set to."""
    found = {}
    for node in ast.parse(script).body:
        if isinstance(node, ast.Assign):
            (target,) = node.targets
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            value = ast.literal_eval(node.value)
            found |= dict(zip((name.id for name in names), value if len(names) > 1 else [value], strict=True))
    return found


def test_the_parser_names_all_systems():
    assert tuple(SYSTEMS) == JOBQUEUES


@pytest.mark.parametrize("system", JOBQUEUES)
def test_a_script_is_python_and_names_the_study(tutti, tmp_path, monkeypatch, system):
    monkeypatch.chdir(tmp_path)
    path = write_smoke(tmp_path)
    code, out, _ = tutti("run", path, "--print-jobqueue", system, "--out", "there")
    assert code == 0
    named = constants(out)
    assert (named["CONFIG"], named["OUT"], named["FOLDER"]) == (str(path), "there", str(tmp_path))
    called = [ast.unparse(node) for node in ast.walk(ast.parse(out)) if isinstance(node, ast.List)]
    command = "'--out', OUT, '--scheduler', cluster.scheduler_address]"
    assert any(call.startswith("['tutti', 'run', CONFIG") and call.endswith(command) for call in called)
    assert not (tmp_path / "there").exists()


def test_a_job_has_the_memory_of_the_largest_row(tutti, tmp_path):
    path = write_smoke(tmp_path)
    path.write_text(path.read_text() + 'memory = "200.5GB"\n')
    out = tutti("run", path, "--print-jobqueue", "slurm")[1]
    assert constants(out)["MEMORY"] == 201
    assert constants(out)["OUT"] == "results/x"


def test_a_wrong_config_is_refused(tutti, tmp_path):
    path = write_smoke(tmp_path)
    path.write_text(path.read_text().replace("bfb", "nobody"))
    code, out, err = tutti("run", path, "--print-jobqueue", "slurm")
    assert (code, out) == (2, "")
    assert "unknown method 'nobody'" in err
