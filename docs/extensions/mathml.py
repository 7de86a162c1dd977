"""Formulas as MathML, which browsers draw themselves: no script and no network."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

SUBSTITUTES = {
    r"\Bigl": "", r"\Bigr": "", r"\Big": "", r"\bigl": "", r"\bigr": "", r"\big": "",
    r"\qquad": r"\quad\quad", r"\tfrac": r"\frac", r"\dfrac": r"\frac",
}  # fmt: skip

FRACTION_WITHOUT_LINE = re.compile(
    r"\\genfrac\{\}\{\}\{0pt\}\{\}\{((?:[^{}]|\{[^{}]*\})*)\}\{((?:[^{}]|\{[^{}]*\})*)\}"
)


def to_mathml(latex: str, display: str) -> str:
    """Convert a formula.

    Parameters
    ----------
    latex : str
        As LaTeX.
    display : {"inline", "block"}
        In the line or on its own.

    Raises
    ------
    ValueError
        If it cannot be read.
    """
    for name, substitute in SUBSTITUTES.items():
        latex = re.sub(re.escape(name) + r"(?![a-zA-Z])", lambda _, to=substitute: to, latex)
    latex = FRACTION_WITHOUT_LINE.sub(r"\\begin{matrix}\1\\\\\2\\end{matrix}", latex)
    try:
        mathml = convert(latex.strip(), display=display)
    except Exception as error:
        raise ValueError(f"cannot convert the formula {latex!r}: {error!r}") from error
    if unknown := re.search(r"<m[iot]>(\\[a-zA-Z]+)</m[iot]>", mathml):
        raise ValueError(f"the formula {latex!r} has a command that is not known: {unknown[1]}")
    return mathml


def visit_math(writer: Any, node: nodes.math) -> None:
    """Write a formula in a line."""
    writer.body.append(to_mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def visit_displayed_math(writer: Any, node: nodes.math_block) -> None:
    """Write a formula on its own; a double backslash outside of environments ends a line."""
    lines = [""]
    for part in re.split(r"(\\\\)", node.astext()):
        inside = lines[-1].count(r"\begin{") > lines[-1].count(r"\end{")
        if part == r"\\" and not inside:
            lines.append("")
        else:
            lines[-1] += part
    formulas = "".join(to_mathml(line, "block") for line in lines)
    writer.body.append(f'<div class="formula">{formulas}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displayed_math, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
