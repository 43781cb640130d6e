"""The site is whole, needs no network, and shows what the notebooks, the Configs and the claims hold."""

from __future__ import annotations

import base64
import importlib.util
import json
import re
import sys
from html import unescape
from html.parser import HTMLParser
from importlib import import_module
from inspect import getdoc, signature
from itertools import pairwise
from pathlib import Path
from urllib.parse import parse_qsl, urlparse

import jsonschema
import nbformat
import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from matplotlib import pyplot as plt

from moe_lab.core.installing import how_to_install
from moe_lab.course import glossary
from moe_lab.patch_routing import JointMoE, PatchRun, PatternTask
from moe_lab.patch_routing.pulls import router_pulls
from moe_lab.registry import CLAIMED, LABS, NOTEBOOKS, PAGES
from moe_lab_papers import claims, errata, exchange
from moe_lab_papers.claim import sentence
from moe_lab_papers.digest import REPLICATES
from moe_lab_papers.form import SCHEMA
from moe_lab_papers.runner import Order
from moe_lab_papers.verdicts import Row
from moe_lab_widgets import pages, play
from moe_lab_widgets.engine.linking import own_site
from moe_lab_widgets.playground import bundle
from tests.helpers.effort import THOROUGH, only_thorough
from tests.papers import measured
from tools import reference, site
from tools.claims_page import DATA, claims_page
from tools.landing import DOORS
from tools.live_pages import FRONT, cells_of, lab_of_cell
from tools.markdown import table
from tools.outputs import is_exercise
from tools.owner import repository
from tools.pairs import read

ROOT = Path(__file__).resolve().parent.parent
NEEDED = ("sphinx", "myst_nb", "sphinx_book_theme", "latex2mathml")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
needs_sphinx = pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} not installed: {how_to_install('site')}")
ORDER = Order("quick", 3, "cpu", Path("measured"), None, 1)

COMPARABLE = [claim for claim in claims() if not claim.not_comparable]


@pytest.fixture
def results(tmp_path) -> Path:
    """A results.json for two claims: one that its rule accepts, one that broke off."""
    first, second = COMPARABLE[:2]
    low, high = first.rule.agrees or first.rule.in_kind
    value = low if np.isfinite(low) else high
    rows = [
        Row(first, first.rule.leaning(np.full(2, value)), np.full(2, value), 1.0, "a processor", ("call()",)),
        Row(second, "failed", np.zeros(0), 1.0, "", ("call()",), "it broke | off"),
    ]
    path = tmp_path / "results.json"
    exchange.write(path, exchange.file([first, second], rows, exchange.run_part(ORDER, "a processor")))
    return path


class TestPages:
    def page(self, name: str = "02_router_alignment") -> nbformat.NotebookNode:
        stored = read(ROOT / "notebooks" / f"{name}.ipynb")
        return site.notebook_page(stored, f"{name}.ipynb", "a title")

    def test_badges_become_links_and_the_set_up_cell_goes(self):
        text = "\n".join(cell.source for cell in self.page().cells)
        assert "![" not in text and "google.colab" not in text
        assert "](https://colab.research.google.com/github/" in text and "](https://mybinder.org/v2/gh/" in text
        assert self.page().cells[1].source.count("02_router_alignment.ipynb") == 2

    def test_outputs_stay_and_pictures_have_words(self):
        stored = read(ROOT / "notebooks" / "02_router_alignment.ipynb")
        shown = [cell for cell in self.page().cells if cell.get("outputs")]
        assert [cell.outputs for cell in shown] == [cell.outputs for cell in stored.cells if cell.get("outputs")]
        assert all(cell.metadata["mystnb"]["image"]["alt"].startswith("A picture of “a title”") for cell in shown)

    def test_everything_else_is_as_stored(self):
        stored = read(ROOT / "notebooks" / "02_router_alignment.ipynb")
        before = [cell.source for cell in stored.cells if not {"setup", "badges"} & set(cell.metadata.get("tags", []))]
        cells = self.page().cells
        shown = [cell.source for cell in (cells[0], *cells[2:])]
        assert [source for source in shown if not source.startswith("*Your turn:*")] == before

    def test_what_answers_a_question_is_folded_and_the_comparing_code_left_out(self):
        code = nbformat.v4.new_code_cell
        shown = {"outputs": [nbformat.v4.new_output("display_data", {"text/html": "<b>1</b>"})]}
        compare = {"tags": ["compare"], "jupyter": {"source_hidden": True}}
        cells = [
            code("before()", **shown), code("prediction = predict('?', 'abc')", **shown), code("lab", **shown),
            nbformat.v4.new_markdown_cell("words"), code("other()", **shown), code("found", **shown),
            code("prediction.seen('a')", metadata=compare, **shown),
        ]  # fmt: skip
        page = site.notebook_page(nbformat.v4.new_notebook(cells=cells), "02_router_alignment.ipynb", "a title")
        folded = {cell.source for cell in page.cells if "hide-output" in cell.metadata.get("tags", [])}
        assert folded == {"lab", "found", "prediction.seen('a')"}
        assert ["remove-input" in cell.metadata.get("tags", []) for cell in page.cells] == [False] * 6 + [True]
        assert page.cells[2].metadata["mystnb"]["code_prompt_show"] == "Show what happened"

    def test_exercises_say_where_their_check_answers(self):
        cells = self.page().cells
        below = [after.source for cell, after in pairwise(cells) if is_exercise(cell)]
        assert len(below) == 3 and all("colab.research.google.com/github/" in source for source in below)


def test_every_lab_in_a_notebook_is_found_but_one_with_a_model_of_its_reader():
    found = {}
    for notebook in NOTEBOOKS:
        for cell in read(ROOT / "notebooks" / f"{notebook.stem}.ipynb").cells:
            if cell.cell_type == "code" and re.search(rf"\b({'|'.join(lab.name for lab in LABS)})\(", cell.source):
                found[notebook.number, "layer" in cell.source] = lab_of_cell(cell)
    assert {lab.notebook for lab in LABS} <= {number for number, _ in found}
    assert all((run is None) == own for (_, own), run in found.items())


class TestClaims:
    def test_every_claim_and_erratum_is_there_with_its_rule(self):
        page = unescape(claims_page(None))
        for claim in claims():
            row = page.partition(f'<tr id="{claim.id}">')[2].partition("</tr>")[0]
            assert all(words in row for words in (claim.where, claim.sentence, claim.published.words, claim.rule.words))
        assert all(one.instead in page and one.evidence in page for one in errata())
        assert page.count('<tr id="') == len(claims()) + len(CLAIMED)
        assert "verdict" not in page

    def test_what_was_measured_stands_beside_it(self, results):
        first, second, third = COMPARABLE[:3]
        page = unescape(claims_page(results))
        shown, failed, left = (
            page.partition(f'<tr id="{one.id}">')[2].partition("</tr>")[0] for one in (first, second, third)
        )
        result = json.loads(results.read_text())["claims"][0]["result"]
        assert f">{result['mean']:.4g} ± 0" in shown and f">{result['verdict']}</td>" in shown
        assert "it broke | off" in failed and ">failed</td>" in failed and ">not measured</td>" in left
        assert page.count(">not measured</td>") == len(claims()) - 2
        assert "; quick budget, seed 3, a processor, moe_lab " in page
        assert f"<strong>{int(result['verdict'] in REPLICATES)} of 2</strong>" in page and "1 failed (" in page

    def test_the_page_is_markdown_that_ends_no_table_early(self, results):
        for page in (claims_page(None), claims_page(results)):
            for part in re.findall(r'<div class="wide".*?</table></div>', page, re.DOTALL):
                assert "\n\n" not in part
            assert page.count("<table") == page.count("</table></div>") > 3

    @pytest.mark.parametrize("text", ["", "{", "[1]", '{"id": 1}', '[{"id": "x"}]'])
    def test_another_file_is_a_sentence(self, tmp_path, text):
        (tmp_path / "wrong.json").write_text(text)
        with pytest.raises(ValueError, match=r"a file of claims must fit claims\.schema\.json: got"):
            claims_page(tmp_path / "wrong.json")

    def test_claims_of_another_version_are_a_sentence(self, tmp_path, results):
        data = json.loads(results.read_text())
        data["claims"][0]["id"] = "nobody/claims/this"
        results.write_text(json.dumps(data))
        with pytest.raises(ValueError, match=r"those of this version.*: got ids=.'nobody/claims/this'"):
            claims_page(results)


def test_every_figure_of_the_gallery_has_a_picture():
    """A notebook stores it, or the site's build draws it from arguments that the figure takes."""
    stored = set(reference._stored(ROOT))
    for module, names in reference.gallery():
        small = reference.SMALL.get(module, {})
        assert {name for name in names if (module, name) not in stored} == set(small), module
        for name, arguments in small.items():
            given = eval(f"dict({arguments})")  # our own words
            assert given and signature(getattr(import_module(module), name)).bind(**given)


def test_text_means_nothing_in_markdown():
    assert table(["a", "b"], [["x|y_1*", "<b> $2$\n[z]"]]).splitlines()[-1] == r"| x\|y\_1\* | \<b\> \$2\$ \[z\] |"


@needs_sphinx
class TestFormulas:
    @pytest.fixture
    def mathml(self, monkeypatch):
        monkeypatch.syspath_prepend(str(ROOT / "docs"))
        yield importlib.import_module("mathml").mathml
        del sys.modules["mathml"]

    def test_is_mathml_that_keeps_its_latex(self, mathml):
        made = mathml(r"\frac{a}{b} < \mathrm{ReLU}(x) \tag{4}", "block")
        assert made.startswith("<math ") and 'display="block"' in made and "<mfrac>" in made
        assert "<mtext>ReLU</mtext>" in made and r"\frac{a}{b} &lt;" in made
        assert "(4)" not in made

    def test_an_unknown_command_is_a_sentence(self, mathml):
        with pytest.raises(ValueError, match=r"commands that latex2mathml knows: got \\nonsense"):
            mathml(r"\nonsense{x}", "inline")


class Resources(HTMLParser):
    """What a page fetches by itself, and the words and pictures on it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.pictures: list[dict[str, str | None]] = []
        self.formulas = 0
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("img", "script", "iframe", "source", "video", "audio", "embed") and given.get("src"):
            self.fetched.append(str(given["src"]))
        if tag == "link" and given.get("rel") not in ("next", "prev", "canonical", "index", "search", "author"):
            self.fetched.append(str(given["href"]))
        if tag == "img":
            self.pictures.append(given)
        self.formulas += tag == "math"

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """The site, with the results of the kept run of every claim."""
    folder = tmp_path_factory.mktemp("built")
    results = folder / "results.json"
    exchange.write(results, exchange.file(claims(), measured.rows(), exchange.run_part(ORDER, "cpu")))
    site.build(ROOT, folder / "site", results)
    return folder / "site"


@needs_sphinx
@pytest.mark.slow
class TestBuilt:
    def test_every_page_is_there_and_linked_from_the_first(self, built):
        names = ["course", *(notebook.stem for notebook in NOTEBOOKS), "labs", "instructors_guide", "glossary"]
        names += ["claims", "howto/index", "papers/index", "reference/index"]
        front = (built / "course.html").read_text(encoding="utf-8")
        for name in names:
            assert (built / f"{name}.html").is_file()
            assert name == "course" or f'href="{name}.html"' in front

    def test_the_site_begins_with_the_playground_which_leads_to_the_course(self, built):
        first = (built / "index.html").read_text(encoding="utf-8")
        assert first == (built / "playground.html").read_text(encoding="utf-8")
        (card,) = re.findall(r'<meta property="og:image" content=".+\n<meta name="twitter:card".+\n', first)
        assert first.replace(card, "") == pages.page(FRONT, ".")
        for lab in PAGES:
            for link in bundle.links(lab, "."):
                assert (built / link["address"]).is_file(), link

    def test_who_posts_the_address_of_a_lab_shows_its_picture(self, built):
        for name in PAGES.values():
            text = (built / name).read_text(encoding="utf-8")
            (address,) = re.findall(r'<meta property="og:image" content="([^"]+)">', text)
            assert address == f"{own_site()}/cards/{Path(name).stem}.png" and address.startswith("https://")
            assert plt.imread(built / "cards" / f"{Path(name).stem}.png").shape[1] >= 600

    def test_labs_of_the_playground_are_live_beside_their_still_pictures(self, built):
        for number, lab in (("00", FRONT), ("03", "PhaseTransitionLab"), ("06", "GridlockLab")):
            (stem,) = (notebook.stem for notebook in NOTEBOOKS if notebook.number == number)
            page = (built / f"{stem}.html").read_text(encoding="utf-8")
            runs = [run for run in cells_of(read(ROOT / "notebooks" / f"{stem}.ipynb")).values() if run.lab == lab]
            frames = re.findall(r'<div class="moe-lab-live"><iframe src="([^"]+)" title="([^"]+), live"', page)
            every = [urlparse(unescape(address)) for address, _ in frames]
            asked = [one for one in every if one.path == f"./{PAGES[lab]}"]
            assert runs and len(asked) == len(runs)
            said = [dict(parse_qsl(one.fragment)) for one in asked]
            assert said == [{"lab": lab, **{name: str(one) for name, one in run.values.items()}} for run in runs]
            assert page.count('<img alt="A picture of') >= len(runs)

    def test_papers_are_linked_with_their_claims(self, built):
        claimed = (built / "claims.html").read_text(encoding="utf-8")
        for key in CLAIMED:
            page = Resources(built / "papers" / f"{key}.html").text
            assert "eplicate" in page and f'href="papers/{key}.html"' in claimed

    def test_a_paper_s_page_says_what_replicates_and_has_a_row_for_each_claim(self, built):
        for key in CLAIMED:
            page = (built / "papers" / f"{key}.html").read_text(encoding="utf-8")
            own = [claim for claim in claims() if claim.paper == key]
            assert page.count('<table class="claims"') == 1 and re.search(
                r"Of \d+ claims that were measured \d+ repl", page
            )
            assert all(f'<tr id="{claim.id}">' in page for claim in own)
            for address in re.findall(r'<a class="small" href="([^"]+)"', page):
                target, name = (built / "papers" / address.partition("#")[0]).resolve(), address.partition("#")[2]
                assert f'id="{name}"' in target.read_text(encoding="utf-8"), address

    def test_pages_link_the_repository_its_issues_and_the_source_of_a_function(self, built):
        page = (built / "reference" / "moe_lab.core.routing.html").read_text(encoding="utf-8")
        address = f"https://github.com/{repository(ROOT)}"
        assert f'<a href="{address}">Source code</a>' in page and f'<a href="{address}/issues">' in page
        assert 'href="../_modules/moe_lab/core/routing.html#expert_choice"' in page
        source = (built / "_modules" / "moe_lab" / "core" / "routing.html").read_text(encoding="utf-8")
        assert 'id="expert_choice"' in source

    def test_the_page_of_the_course_moves_and_has_three_doors(self, built):
        front = Resources(built / "course.html")
        assert "Move a slider and watch a mixture of experts train." in " ".join(front.text.split())
        moving = [one for one in front.pictures if str(one["src"]).endswith("router_alignment.webp")]
        assert len(moving) == 1 and "four routers" in str(moving[0]["alt"])
        assert len(DOORS) == 3
        for _, page, words in DOORS:
            assert (built / f"{page}.html").is_file() and words in front.text

    def test_the_claims_are_one_table_and_a_file_that_fits_its_schema(self, built):
        page = (built / "claims.html").read_text(encoding="utf-8")
        assert page.count('<table class="claims"') == 1
        assert all(f'<tr id="{claim.id}">' in page for claim in claims())
        data, schema = (
            json.loads((built / re.search(rf'href="([^"]*/{name})"', page)[1]).read_text()) for name in (DATA, SCHEMA)
        )
        jsonschema.validate(data, schema)
        assert [part["id"] for part in data["claims"]] == [claim.id for claim in claims()]

    def test_the_reference_explains_every_parameter_and_leads_to_notebooks_and_back(self, built):
        words = " ".join(Resources(built / "reference" / "moe_lab.patch_routing.html").text.split())
        for config in (JointMoE, PatternTask, PatchRun):
            for knob in config.knobs().values():
                assert f"{knob.name} – " in words and knob.meaning.replace("'", "’") in words, (config, knob.name)
        page = (built / "reference" / "moe_lab.patch_routing.html").read_text(encoding="utf-8")
        assert 'href="../02_router_alignment.html"' in page
        for name, number in (("JointMoE", "02"), ("RoutedMoE", "11"), ("train_batch", "02")):
            about = page.partition(f'id="moe_lab.patch_routing.{name}"')[2].partition('<dt class="sig sig-object')[0]
            stem = next(notebook.stem for notebook in NOTEBOOKS if notebook.number == number)
            assert f'See <a class="reference internal" href="../{stem}.html"' in about, name
        assert 'href="reference/moe_lab.patch_routing.html"' in (built / "02_router_alignment.html").read_text()
        first = page.partition("<table")[2].partition("</table>")[0]
        line = getdoc(JointMoE).splitlines()[0].rstrip(".").replace("'", "’")
        assert 'href="#moe_lab.patch_routing.JointMoE"' in first and line in unescape(re.sub("<[^>]*>", "", first))

    def test_every_figure_is_in_the_gallery_with_its_call(self, built):
        page, source = (Resources(path := built / "howto" / "gallery.html"), path.read_text(encoding="utf-8"))
        for module, names in reference.gallery():
            assert names and all(f"figures.{name}(" in page.text for name in names), module
            anchors = (f"gallery-{module}-{name}".replace(".", "-").replace("_", "-") for name in names)
            assert all(f'id="{anchor}"' in source for anchor in anchors), module
        thumbnails = source.partition('class="moe-lab-gallery"')[2].partition("<section")[0]
        titles = [unescape(one) for one in re.findall(r'alt="([^"]+)"', thumbnails)]
        assert len(titles) == len(reference._stored(ROOT)) >= 15, "what is not stored is not drawn here"
        assert all(" " in one and not one.endswith(".") for one in titles), "a title says what is seen"

    def test_the_list_of_how_to_pages_says_what_each_is_about(self, built):
        index = (built / "howto" / "index.html").read_text(encoding="utf-8")
        for page in sorted(path.stem for path in (ROOT / "docs" / "howto").glob("*.md")):
            line = re.search(rf'<li><p><a[^>]*href="{page}.html".*?</li>', index, flags=re.DOTALL)
            assert line is not None and len(re.sub("<[^>]*>", "", line[0])) > 40, page

    def test_beside_the_first_claim_that_a_figure_measures_is_its_picture(self, built):
        page = Resources(built / "papers" / "gridlock2019.html")
        pictures = [str(one["src"]) for one in page.pictures if "../_images/" in str(one["src"])]
        assert len(pictures) == len(set(pictures)) >= 4
        assert all((built / "papers" / one).is_file() for one in pictures)

    def test_nothing_is_fetched_from_elsewhere(self, built):
        pages = sorted(path for path in built.rglob("*.html") if "_static" not in path.parts)
        assert len(pages) >= 40
        for path in pages:
            for address in (one for one in Resources(path).fetched if not one.startswith("data:")):
                assert not re.match(r"(https?:)?//", address), (path.name, address)
                assert (path.parent / address.split("?")[0].split("#")[0]).is_file(), (path.name, address)
            assert not re.search(r"import\(.https?:|fetch\(.https?:", path.read_text(encoding="utf-8"))
        for path in built.rglob("*.css"):
            assert not re.search(r"(url\(|@import )[\"']?(https?:)?//", path.read_text(encoding="utf-8")), path.name

    def test_every_notebook_shows_its_stored_pictures_with_words_for_them(self, built):
        for path in (ROOT / "notebooks" / f"{notebook.stem}.ipynb" for notebook in NOTEBOOKS):
            outputs = [output.get("data", {}) for cell in read(path).cells for output in cell.get("outputs", [])]
            stored = [base64.b64decode(data["image/png"]) for data in outputs if "image/png" in data]
            pictures = [one for one in Resources(built / f"{path.stem}.html").pictures if "_images/" in str(one["src"])]
            assert [(built / str(one["src"])).read_bytes() for one in pictures] == stored, path.name
            assert all("A picture of" in str(one["alt"]) for one in pictures) and stored

    def test_formulas_need_no_script(self, built):
        page = Resources(built / "02_router_alignment.html")
        assert page.formulas > 30
        assert "MathJax" not in page.text and "$" not in page.text.replace("${", "")

    def test_symbols_stories_and_claims_are_there(self, built):
        texts = {name: " ".join(Resources(built / f"{name}.html").text.split()) for name in ("glossary", "claims")}
        assert all(entry.places[0] in texts["glossary"] for entry in glossary.entries())
        assert all(claim.id in texts["claims"] for claim in claims())
        assert all(sentence(claim.rule.words) in texts["claims"] for claim in claims())
        guide = " ".join(Resources(built / "instructors_guide.html").text.split())
        assert "Its slope is 0, and no router moves." in guide and "<!--" not in guide

    def test_builds_again_over_itself_but_over_nothing_else(self, built, tmp_path):
        (tmp_path / "thesis.txt").write_text("mine")
        with pytest.raises(RuntimeError, match="the site's folder must be empty or hold an older site: got"):
            site.build(ROOT, tmp_path)
        assert (tmp_path / "thesis.txt").read_text() == "mine"


TEMPLATES = ("course", "02_router_alignment", "claims", "howto/data", "reference/moe_lab.core.routing", "search")
"""A page of each kind."""
WIDEST = (
    "13_pruning_further",
    "howto/gallery",
    "instructors_guide",
    "glossary",
    "genindex",
    "reference/moe_lab.pruning.figures",
)
"""Pages with long lines, wide tables and long names."""
WITHOUT_A_PAGE = "a recorded run"
SIZES = ({"width": 1366, "height": 768}, {"width": 390, "height": 844})
"""A laptop's screen, and a phone's."""
SCROLLING = "[...document.querySelectorAll('pre')].filter((one) => one.scrollWidth > one.clientWidth + 1).length"
SEARCHING = """[...document.querySelectorAll('input[type=search], .search-button__button')].filter(
    (one) => one.checkVisibility({visibilityProperty: true}) && one.getBoundingClientRect().width > 0).length"""


@pytest.fixture(scope="module")
def recorded_run(tmp_path_factory) -> Path:
    """The page of a recorded run, as the site's pages show it and as it is saved."""
    pulls = router_pulls(JointMoE(experts=4), PatternTask(), samples=20, steps=2)
    return play(pulls).save(tmp_path_factory.mktemp("recorded") / "run.html")


@pytest.fixture(scope="module")
def addresses(built, recorded_run) -> dict[str, str]:
    """The pages to look at by name: one of each kind and the widest; all where there is time."""
    every = {path.relative_to(built).with_suffix("").as_posix() for path in built.rglob("*.html")}
    pages = {name for name in every if not name.startswith("_static/")}
    pages -= {"index", *(Path(page).stem for page in PAGES.values())}  # whose own tests are in tests/browser
    assert {*TEMPLATES, *WIDEST} < pages
    shown = sorted(pages) if THOROUGH else (*TEMPLATES, *WIDEST)
    return {**{name: (built / f"{name}.html").as_uri() for name in shown}, WITHOUT_A_PAGE: recorded_run.as_uri()}


@pytest.fixture(scope="module")
def screen(browser):
    page = browser.new_page(viewport={"width": 1366, "height": 768})
    yield page
    page.close()


@needs_sphinx
@pytest.mark.slow
@pytest.mark.browser
class TestForEverybody:
    def wrong(self, screen, address: str) -> dict[str, str]:
        """What axe-core finds, by all its rules but the minor ones: contrast, words for pictures, headings, labels."""
        screen.set_viewport_size(SIZES[0])
        screen.goto(address)
        found = Axe().run(screen, options={"resultTypes": ["violations"]}).response
        assert len(found["passes"]) > 15, "axe-core has not looked"
        return {rule["id"]: rule["nodes"][0]["html"] for rule in found["violations"] if rule["impact"] != "minor"}

    @pytest.mark.parametrize("name", [*TEMPLATES, WITHOUT_A_PAGE])
    def test_axe_finds_nothing_wrong(self, screen, addresses, name):
        assert self.wrong(screen, addresses[name]) == {}

    @only_thorough("a minute or two for all pages")
    def test_axe_finds_nothing_wrong_on_any_page(self, screen, addresses):
        found = {name: self.wrong(screen, address) for name, address in addresses.items()}
        assert {name: wrong for name, wrong in found.items() if wrong} == {}

    @pytest.mark.parametrize("size", SIZES, ids=("laptop", "phone"))
    def test_no_line_of_code_is_cut_and_a_page_has_one_search_box(self, screen, addresses, size):
        screen.set_viewport_size(size)
        cut, boxes = {}, {}
        for name, address in addresses.items():
            screen.goto(address)
            cut[name], boxes[name] = screen.evaluate(SCROLLING), screen.evaluate(SEARCHING)
        assert {name: lines for name, lines in cut.items() if lines} == {}
        assert boxes == {name: int(name != WITHOUT_A_PAGE) for name in addresses}

    def test_on_a_laptop_the_longest_line_of_a_source_stays_one(self, screen, addresses):
        """Where the list of contents leaves the width: 120 letters, the sources' limit."""
        screen.set_viewport_size(SIZES[0])
        screen.goto(addresses["howto/data"])
        added = """(letters) => {
            const line = document.createElement('span');
            line.textContent = 'x'.repeat(letters);
            document.querySelector('.highlight pre').append('\\n', line);
            return line.getClientRects().length;
        }"""
        assert screen.evaluate(added, 120) == 1 < screen.evaluate(added, 200)

    def test_what_replicates_fits_a_laptops_first_screen(self, screen, addresses):
        screen.set_viewport_size(SIZES[0])
        screen.goto(addresses["claims"])
        bottom = screen.evaluate("document.querySelector('.digest').getBoundingClientRect().bottom")
        assert 300 < bottom <= SIZES[0]["height"]

    def test_axe_would_find_it(self, screen, addresses):
        screen.goto(addresses[WITHOUT_A_PAGE])
        screen.evaluate(
            "document.querySelector('main').innerHTML += '<p style=\"color: #aaa\">pale</p><img src=\"data:,\">'"
        )
        found = Axe().run(screen, options={"resultTypes": ["violations"]}).response
        assert {"color-contrast", "image-alt"} <= {rule["id"] for rule in found["violations"]}

    def test_no_page_is_wider_than_a_phone(self, screen, addresses):
        screen.set_viewport_size({"width": 390, "height": 844})
        wide = []
        for name, address in addresses.items():
            screen.goto(address)
            if screen.evaluate("document.documentElement.scrollWidth > innerWidth"):
                wide.append(name)
        assert wide == []

    def test_formulas_have_a_font_that_came_with_the_page(self, screen, addresses):
        screen.goto(addresses["02_router_alignment"])
        screen.evaluate("document.fonts.ready")
        used = screen.evaluate("[...document.fonts].filter((one) => one.status === 'loaded').map((one) => one.family)")
        assert "STIX Two Math" in [name.strip('"') for name in used]


def test_without_sphinx_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(site, "_installed", lambda name: name != "myst_nb")
    with pytest.raises(RuntimeError, match=f"the site needs myst_nb: {re.escape(how_to_install('site'))}"):
        site.build(ROOT, tmp_path / "site")


def test_the_command_ends_with_a_sentence(tmp_path):
    with pytest.raises(SystemExit, match=r"there is no file .*nowhere\.json"):
        site.main(["--out", str(tmp_path / "site"), "--results", str(tmp_path / "nowhere.json")])
