"""Converts formulas to MathML when the site is built, so that browsers show them without a script."""

import html
import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert

from moe_lab.core.errors import InputError

LONG = 100
"""Letters of LaTeX from which a formula may be wider than its page; keys must be able to reach what scrolls."""
TAG = re.compile(r"\\tag\{(.+?)\}")


def mathml(latex: str, display: str) -> str:
    """A formula as a `math` element, which also keeps its LaTeX.

    Args:
      latex: the text between dollar signs.
      display: "block" or "inline".

    Raises:
      ValueError: it has a command that the converter does not know.
    """
    plain = re.sub(r"\\mathrm\{(.+?)\}", r"\\text{\1}", latex).replace(r"\arg", r"\text{arg}\,").replace(r"\!", "")
    made = convert(TAG.sub("", plain), display=display)
    if unknown := re.findall(r"\\[A-Za-z]+", made):
        raise InputError(f"a formula must hold commands that latex2mathml knows: got {unknown[0]} in {latex!r}")
    source = f'<annotation encoding="application/x-tex">{html.escape(latex)}</annotation>'
    opening, inside = made.removesuffix("</math>").split(">", 1)
    return f"{opening}><semantics>{inside}{source}</semantics></math>"


def _inline(self: Any, node: nodes.math) -> None:
    self.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def _block(self: Any, node: nodes.math_block) -> None:
    numbers = "".join(f'<span class="eqno">({html.escape(number)})</span>' for number in TAG.findall(node.astext()))
    reached = ' tabindex="0" role="group" aria-label="A formula"' if len(node.astext()) >= LONG else ""
    self.body.append(f'<div class="math"{reached}>{mathml(node.astext(), "block")}{numbers}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
