"""Formulas as MathML, which browsers show without a script."""

import html
import re

from latex2mathml.converter import convert

from moe_lab.errors import InputError

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
