"""Command lines and a config that tests share."""

from pathlib import Path

ROOT = Path(__file__).parents[3]
SYNTH = ["synth", "ring:4", "--method", "bfb", "--size", "1MB"]
TACOS = ["synth", "ring:4", "--method", "tacos", "--size", "1MB"]


def write_smoke(folder: Path) -> Path:
    path = folder / "x.toml"
    path.write_text(
        'name = "x"\n[[topology]]\nspec = "ring:4"\n[[collective]]\nkind = "allgather"\nsizes = ["1MB"]\n'
        '[[method]]\nname = "bfb"\n[[method]]\nname = "rhd"\n[run]\nworkers = 1\n'
    )
    return path
