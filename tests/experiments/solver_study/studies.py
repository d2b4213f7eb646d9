"""What the tests of both studies do with a study that is wrong."""

from pathlib import Path

from tutti.experiments.cli import main


def replaced(study: str, old: str, new: str) -> str:
    """Return the study with one change."""
    return study.replace(old, new, 1)


def refusal(text: str, folder: Path, capsys) -> str:
    """Run a study; return the line that refuses it, and see that nothing ran."""
    config = folder / "wrong.toml"
    config.write_text(text)
    assert main(["run", str(config), "--out", str(folder / "out")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert not (folder / "out" / "results.parquet").exists()
    return error
