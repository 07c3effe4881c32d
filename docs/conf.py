"""Settings of the documentation build: `make docs`, which fails on warnings and needs no network.

Pages are Markdown. Tables of parameters, errors, commands and settings are made by the extensions in `_ext` from the
code itself; code is shown from the example DAGs, which the tests run. Nothing is looked up on the internet, so
references to other projects are plain links.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_ext"))

# Airflow writes a configuration where it is imported, and a machine's own settings must not be shown as defaults.
os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="deltalite-docs-")
atexit.register(shutil.rmtree, os.environ["AIRFLOW_HOME"], ignore_errors=True)

from deltalite.version import VERSION  # noqa: E402  after the environment, as everything of Airflow's

project = "airflow-provider-deltalite"
author = "the authors of airflow-provider-deltalite"
version = release = VERSION

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "documented_classes",
    "documented_commands",
    "documented_errors",
    "documented_settings",
]
exclude_patterns = ["_build"]
nitpicky = True
# Annotations name types of other projects, whose pages are not looked up.
nitpick_ignore_regex = [("py:.*", r"(pyarrow|pa|pyspark|os|datetime|collections|deltalite|airflow)\..*")]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

smartquotes = False  # two dashes begin an option

html_theme = "furo"
html_title = f"airflow-provider-deltalite {VERSION}"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_show_sphinx = False
html_copy_source = False
