"""What pytest leaves out: modules whose packages are those of requirements-layers.txt."""

from importlib.util import find_spec

collect_ignore = [
    f"tutti/experiments/layers/by_{layer}.py"
    for layer, package in (("linopy", "linopy"), ("poi", "pyoptinterface"))
    if find_spec(package) is None
]
