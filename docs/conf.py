"""Sphinx configuration: `make docs` builds the site from the Markdown here and the reference from the code."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import generate

generate.write()

project = "kafka-chaos"
author = "the authors of kafka-chaos"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_site", "reports"]
html_theme = "furo"
html_title = "kafka-chaos"
html_show_copyright = False
html_copy_source = False
myst_heading_anchors = 3
myst_enable_extensions = ["deflist"]
nitpicky = True
# Links to headings of other sites are not checked: their anchors change too often.
linkcheck_anchors = False
