"""A recorded run as HTML: a page that needs nothing from elsewhere.

Without a script a page shows the last picture of the run, its caption, the values of the knobs and the code. A script
(page/recorded.js) puts the player in the picture's place.
"""

from __future__ import annotations

import base64
import html
import json
from typing import Any

from moe_lab import __version__
from moe_lab_widgets.frames.module import recorded_source, recorded_style
from moe_lab_widgets.frames.recording import Recording

NOTE = "Recorded; open the notebook to train."


def in_script(plain: Any) -> str:
    """Returns plain data as JSON that may stand in a script of a page."""
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def part(recording: Recording, note: str = NOTE) -> str:
    """Returns a part of a page that shows a recorded run of a Lab; the note is HTML."""
    run, still = recording.plain(), "data:image/png;base64," + base64.b64encode(recording.still).decode()
    rows = "".join(
        f"<div><dt>{html.escape(label)}</dt><dd>{html.escape(value)}</dd></div>" for label, value in run["values"]
    )
    caption = html.escape(run["captions"][-1])
    end = f'<div class="moe-lab-still"><img alt="{caption}" src="{still}"></div>\n<p>{caption}</p>'
    if "question" in run:  # nobody sees the end before the question
        end = f"<noscript>{end}</noscript>"
    return f"""<section class="moe-lab-recorded" aria-label="{html.escape(run["title"])}">
<style>{recorded_style()}</style>
<div class="moe-lab-show">{end}</div>
<p class="moe-lab-status" role="status"></p>
<p class="moe-lab-note">{note}</p>
<details class="moe-lab-values" open><summary>Settings of this run</summary><dl>{rows}</dl></details>
<details class="moe-lab-code" open><summary>Code of this run</summary><pre><code>{html.escape(run["code"])}</code></pre>
<button type="button" class="moe-lab-needs-script">Copy as code</button> <span role="status"></span></details>
<script type="application/json" class="moe-lab-run">{in_script(run)}</script>
</section>"""


def document(recording: Recording, note: str = NOTE) -> bytes:
    """Returns a whole page with one run; the note is HTML."""
    title = html.escape(recording.title)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="moe_lab {__version__}">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>body {{ margin: 8px; background: #FBFAF7; }}
h1 {{ max-width: 1130px; margin: 4px auto; font: bold 22px/1.3 sans-serif; color: #1B1B25; }}</style>
</head>
<body>
<main>
<h1>{title}</h1>
{part(recording, note)}
</main>
<script>{recorded_source()}</script>
</body>
</html>
""".encode()
