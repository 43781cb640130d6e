"""The settings of Sphinx for the course's site. `python -m tools.site` lays out the pages and calls it."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from tools.owner import repository  # noqa: E402 - found by the line above

project = "moe_lab"
author = "The moe_lab authors"
language = "en"
extensions = ["myst_nb", "mathml", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode", "autodoc"]
exclude_patterns = ["_build"]
root_doc = "course"

# Notebooks are shown as they are stored, and nothing is fetched: no kernel, no widget manager, no MathJax.
nb_execution_mode = "off"
nb_ipywidgets_js = {}
html_math_renderer = "mathml"
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
suppress_warnings = ["misc.highlighting_failure", "ref.python"]  # the latter: rooms have functions of one name

# The reference: docstrings have Google's sections; those with declared parameters have names of their own.
napoleon_custom_sections = [("Settings", "params_style"), ("Parameters", "params_style"), ("Variants", "params_style")]
napoleon_use_rtype, napoleon_use_ivar = False, True
autodoc_default_options = {"exclude-members": "model_config, model_fields, model_computed_fields"}
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 100

ADDRESS = f"https://github.com/{repository()}"
html_theme = "sphinx_book_theme"
html_title = "moe_lab"
html_static_path = ["site.css", "fonts/stix-two-math.woff2", "fonts/OFL.txt"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "home_page_in_toc": True,
    "use_download_button": False,
    "use_fullscreen_button": False,
    "show_toc_level": 2,
    "extra_footer": f'<a href="{ADDRESS}">Source code</a> · <a href="{ADDRESS}/issues">Questions and faults</a>',
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
