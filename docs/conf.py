"""The site, as `make docs` builds it: the pages of this folder, and those that `generate` makes of code."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
# Cells run in folders of their own: there, too, `tutti` is this one.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
os.environ["PYTHONPATH"], os.environ["IPYTHONDIR"] = str(HERE.parent), str(HERE / "ipython")

from generate import write_pages  # noqa: E402 (which lies beside this file)

from tutti.experiments.runner.manifest import code_digest  # noqa: E402

project, author, copyright = "tutti", "the tutti authors", "the tutti authors"  # noqa: A001 (Sphinx's name)
extensions = ["myst_nb", "sphinx_copybutton", "sphinx_design"]
html_theme, html_title = "furo", "tutti"
html_static_path = ["_static", "../experiments/show/templates/network.css"]
html_css_files = ["network.css", "site.css"]
html_theme_options = {"navigation_with_keys": True}
copybutton_prompt_text = "$ "
exclude_patterns = ["ipython", "methods"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE.parent / "build" / "cells" / code_digest())  # other code, other outputs
nb_execution_in_temp = True  # as a reader has it: an empty folder
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_execution_show_tb = True
nb_merge_streams = True


def setup(app: object) -> None:
    """Make the pages before Sphinx looks for them."""
    write_pages(HERE / "generated")
