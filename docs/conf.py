"""How the documentation is built: `make docs`. Needs no network."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.errors import ExtensionError
from sphinx.search.en import SearchEnglish
from sphinx.util import logging

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import pictures  # noqa: E402  # beside this file

from fgrn._version import __version__  # noqa: E402

project = "fgrn"
author = "the fgrn developers"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "sphinx_design"]
exclude_patterns = ["_pictures", "paper.md"]  # the second is included by results.md
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
napoleon_use_ivar = True
myst_heading_anchors = 3
default_role = "code"  # docstrings write names in single backticks

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_type_aliases = {"ArrayLike": "ArrayLike"}
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 100
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

html_theme = "pydata_sphinx_theme"
html_title = f"fgrn {__version__}"
html_sidebars = {path.stem: [] for path in HERE.glob("*.md")}  # pages without others below them
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_extra_path = [str(pictures.live(HERE / "_pictures").relative_to(HERE))]  # pages that infer
html_css_files = ["fgrn.css"]
copybutton_selector = "div[class*=highlight-]:not(.highlight-text) pre"  # outputs are not to be copied
copybutton_prompt_text = "$ "
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": True,
    "footer_start": [],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "header_links_before_dropdown": 5,
    "show_toc_level": 2,
}

SEARCHED = ("missing", "impute", "imputation", "viterbi", "decode", "calibration", "latent class", "junction", "hmm")
"""Words of the field that the search of the site must find."""


def prepared(app: object) -> None:
    """Pictures, and the page that is included by another."""
    pictures.draw(HERE / "_pictures", logging.getLogger(__name__).info)
    pictures.include(HERE / "paper.md", HERE / "_pictures" / "paper.md")


def searchable(app: object, exception: Exception | None) -> None:
    """An error if the search of the site does not find the words of the field."""
    index = Path(app.outdir) / "searchindex.js"
    if exception is not None or app.builder.name != "html" or not index.is_file():
        return
    found = json.loads(index.read_text(encoding="utf-8").removeprefix("Search.setIndex(").rstrip().removesuffix(")"))
    stem = SearchEnglish({}).stem
    known = {*found["terms"], *found["titleterms"]}
    lost = [word for words in SEARCHED for word in words.split() if stem(word) not in known]
    if lost:
        raise ExtensionError(f"The search of the site does not find {', '.join(lost)}: say it on a page.")


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
            code = code.replace("_:", r"\_:", 1)  # network_ is not a link
        elif not code.startswith((":", "..")):
            code = re.sub(r"(?<![`\w])(\w+)_(?![`\w])", r"\1\\_", code)
        head, gap, _ = code.partition("  ")
        if gap and head.isidentifier():  # a list in two columns keeps its lines
            code = f"| {code}"
        lines[number] = code.replace(COLON, ":")


def ours(app: object, what: str, name: str, obj: object, skip: bool, options: object) -> bool | None:
    """Leave out what a class inherits from other packages: scikit-learn documents its own methods."""
    module = getattr(getattr(obj, "fget", None) or obj, "__module__", None)
    inherited = isinstance(module, str) and not module.startswith("fgrn")
    return True if inherited or (name.startswith("set_") and name.endswith("_request")) else None


def signature(
    app: object, what: str, name: str, obj: object, options: object, arguments: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Sphinx shows how it keeps an alias; the alias is enough."""
    return arguments and re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", arguments), returns


def setup(app: object) -> dict[str, bool]:
    """What Sphinx asks for."""
    app.add_html_math_renderer("mathml", (inline_math, None), (block_math, None))
    app.connect("builder-inited", prepared)
    app.connect("build-finished", searchable)
    app.connect("autodoc-skip-member", ours)
    app.connect("autodoc-process-signature", signature)
    app.connect("autodoc-process-docstring", guarded, priority=400)  # before napoleon
    app.connect("autodoc-process-docstring", plain, priority=600)
    return {"parallel_read_safe": True}
