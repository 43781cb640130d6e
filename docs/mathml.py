"""Converts formulas to MathML when the site is built, so that browsers show them without a script."""

import html
from typing import Any

from docutils import nodes

from moe_lab.classroom.formulas import TAG, mathml

LONG = 100
"""Letters of LaTeX from which a formula may be wider than its page; keys must be able to reach what scrolls."""


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
