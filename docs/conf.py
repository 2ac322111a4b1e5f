"""How the documentation is built: `sphinx-build -W --keep-going docs build/docs`. Needs no network."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import pictures  # noqa: E402  # beside this file

from fgrn._version import __version__  # noqa: E402

project = "fgrn"
author = "the fgrn developers"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_pictures", "paper.md"]  # the second is included by results.md
myst_enable_extensions = ["dollarmath", "deflist"]
napoleon_use_ivar = True
myst_heading_anchors = 3
default_role = "code"  # docstrings write names in single backticks

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_type_aliases = {"ArrayLike": "ArrayLike"}
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 100
python_use_unqualified_type_names = True

html_theme = "pydata_sphinx_theme"
html_title = f"fgrn {__version__}"
html_sidebars = {path.stem: [] for path in HERE.glob("*.md")}  # pages without others below them
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_math_renderer = "mathml"
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": True,
    "footer_start": [],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "header_links_before_dropdown": 7,
}

pictures.draw(HERE / "_pictures")
pictures.include(HERE / "paper.md", HERE / "_pictures" / "paper.md")


def inline_math(writer: object, node: nodes.math) -> None:
    """A formula in a line, as MathML, which browsers show by themselves."""
    writer.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def block_math(writer: object, node: nodes.math_block) -> None:
    """A formula of its own."""
    writer.body.append(f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>\n')
    raise nodes.SkipNode


COLON = "\ue000"


def guarded(app: object, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Napoleon takes what is before the colon in the docstring of a property for its type."""
    if what == "property":
        lines[:] = [line.replace(":", COLON) for line in lines]


def plain(app: object, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Docstrings are written to be read as they are; this makes them what Sphinx wants."""
    for number, line in enumerate(lines):
        code = re.sub(
            r"(?<!`)`([^`]+)`(?!`)(\w?)", lambda found: f"``{found[1]}``" + f"\\{found[2]}" * bool(found[2]), line
        )
        if code.startswith((":ivar", ":vartype")):
            code = code.replace("_:", r"\_:", 1)  # network_ is no link
        elif not code.startswith((":", "..")):
            code = re.sub(r"(?<![`\w])(\w+)_(?![`\w])", r"\1\\_", code)
        head, gap, _ = code.partition("  ")
        if gap and head.isidentifier():  # a list in two columns keeps its lines
            code = f"| {code}"
        lines[number] = code.replace(COLON, ":")


def signature(
    app: object, what: str, name: str, obj: object, options: object, arguments: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Sphinx shows how it keeps an alias; the alias is enough."""
    return arguments and re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", arguments), returns


def setup(app: object) -> dict[str, bool]:
    """What Sphinx asks for."""
    app.add_html_math_renderer("mathml", (inline_math, None), (block_math, None))
    app.connect("autodoc-process-signature", signature)
    app.connect("autodoc-process-docstring", guarded, priority=400)  # before napoleon
    app.connect("autodoc-process-docstring", plain, priority=600)
    return {"parallel_read_safe": True}
