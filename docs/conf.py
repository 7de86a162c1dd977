"""Configuration of Sphinx; `make docs` builds the site with warnings as errors."""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from docutils import nodes
from extensions.api_pages import escape_stars
from sphinx import addnodes

import equigeo

project = "equigeo"
author = "the equigeo developers"
copyright = "2026, the equigeo developers"
release = version = equigeo.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "extensions.mathml",
    "extensions.api_pages",
    "extensions.tutorial_pages",
]
exclude_patterns = ["_build"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"exclude-members": "extra_repr,__init__,__new__"}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = ["Equivariance", ("Attributes", "params_style")]
viewcode_line_numbers = True

html_theme = "furo"
html_title = f"equigeo {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5e93", "color-brand-content": "#0b5e93"},
    "dark_css_variables": {"color-brand-primary": "#7cc4ee", "color-brand-content": "#7cc4ee"},
}
pygments_style = "tango"
pygments_dark_style = "monokai"


ARGUMENT = re.compile(r"\s*\*{1,2}\w")


def escape_shapes(app, what, name, obj, options, lines):
    """Stars of shapes are no emphasis."""
    for number, line in enumerate(lines):
        if not ARGUMENT.match(line):
            lines[number] = escape_stars(line)


def leave_words_alone(app, doctree):
    """What is written in lower case where a type stands is a size or a word, and no class."""
    for node in [*doctree.findall(addnodes.pending_xref)]:
        if node.get("refspecific") and node["reftarget"].islower():
            node.replace_self(nodes.emphasis("", node["reftarget"]))


def setup(app):
    """Shapes are escaped before napoleon reads a docstring."""
    app.connect("autodoc-process-docstring", escape_shapes, priority=100)
    app.connect("doctree-read", leave_words_alone)
