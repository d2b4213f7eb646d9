"""The site, as `make docs` builds it: the pages of this folder, with what `generate` adds from the code."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
# Cells run in folders of their own: there, too, `tutti` is this one.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
os.environ["PYTHONPATH"], os.environ["IPYTHONDIR"] = str(HERE.parent), str(HERE / "ipython")

from generate import completed, write_pictures  # noqa: E402 (which lies beside this file)
from sphinx.application import Sphinx  # noqa: E402

from tutti.experiments.runner.results import code_digest  # noqa: E402

project, author, copyright = "tutti", "the tutti authors", "the tutti authors"  # noqa: A001 (Sphinx's name)
extensions = ["myst_nb", "sphinx.ext.autodoc", "numpydoc", "sphinx_copybutton", "sphinx_design"]
html_theme, html_title = "furo", "tutti"
html_static_path = ["_static", "../experiments/show/templates/network.css"]
html_css_files, html_js_files = ["network.css", "site.css"], ["site.js"]
html_theme_options = {"navigation_with_keys": True}
copybutton_prompt_text = "$ "
exclude_patterns = ["ipython", "generated"]
default_role = "py:obj"  # `Result` in a docstring links to its page
numpydoc_show_class_members = False
python_maximum_signature_line_length = 80
autodoc_member_order = "bysource"
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE.parent / "build" / "cells" / code_digest())  # other code, other outputs
nb_execution_in_temp = True  # as a reader has it: an empty folder
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_execution_show_tb = True
nb_merge_streams = True


def setup(app: Sphinx) -> None:
    """Let the code add to pages; after a change of the code all pages are read again."""
    write_pictures(HERE / "generated")
    app.add_config_value("code", code_digest(), "env")
    app.connect("source-read", complete)


def complete(_: Sphinx, page: str, source: list[str]) -> None:
    """Replace the text of a page by the completed one."""
    source[0] = completed(page, source[0])
