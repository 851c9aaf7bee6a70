"""Sphinx, which makes the site of `make docs` from these pages. api.md shows the docstrings."""

from importlib import metadata

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

project = "bloomparquet"
release = metadata.version("bloomparquet")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
root_doc = "contents"
html_theme = "furo"
html_title = f"bloomparquet {release}"
html_copy_source = False

myst_heading_anchors = 4  # links name headings as on GitHub

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
add_module_names = False

# Signatures name classes of other projects and of our own modules, which have no page here.
nitpicky = True
nitpick_ignore_regex = [("py:class", ".*")]


def setup(app: Sphinx) -> None:
    app.add_lexer("diagram", TextLexer)
