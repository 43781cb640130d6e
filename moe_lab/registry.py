"""The papers, the Labs and the notebooks of the course, each declared once. Every other list of them reads these.

Labs, rooms and claims are named by strings, because the library imports no widget and a list must load nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    """A paper that the library reproduces.

    Attributes:
      key: "chen2022"; the package `moe_lab_papers.KEY` holds its CLAIMS and ERRATA.
      authors: "Chen et al."
      venue: conference and year: "NeurIPS 2022".
      title: as published.
      room: the package of its models and figures, below `moe_lab`: "recovery.gridlock".
      url: where anybody can read it.
    """

    key: str
    authors: str
    venue: str
    title: str
    room: str
    url: str

    @property
    def citation(self) -> str:
        """Authors, venue and title."""
        return f"{self.authors}, {self.venue}: {self.title}"


@dataclass(frozen=True)
class Topic:
    """What several papers state about one thing, measured in the rooms of other papers.

    Attributes:
      key: "routers"; the package `moe_lab_papers.KEY` holds its CLAIMS and ERRATA.
      title: its heading.
    """

    key: str
    title: str

    @property
    def citation(self) -> str:
        """The title; every claim names its paper."""
        return self.title


@dataclass(frozen=True)
class Notebook:
    """A notebook of the course.

    Attributes:
      stem: its file name without the suffix: "02_router_alignment".
      title: "Router alignment".
      minutes: at the keyboard, exercises included.
      after: the numbers of the notebooks that it needs: ("00", "01").
      will: what its reader will do, in a few words that follow "you will".
      theme: one of `THEMES`: where it stands on the map of the course.
      exercises: the module of `moe_lab.exercises` that checks its exercises.
      explains: packages and modules that it is about: "moe_lab.patch_routing", "moe_lab_hub".
      extra: what it needs installed beyond the others, an extra of the package: "hub"; "" for most.
    """

    stem: str
    title: str
    minutes: int
    after: tuple[str, ...]
    will: str
    theme: str
    exercises: str
    explains: tuple[str, ...] = ()
    extra: str = ""

    @property
    def number(self) -> str:
        """The first two digits of its name."""
        return self.stem[:2]

    @property
    def heading(self) -> str:
        """Number and title, as at its top."""
        return f"{self.number} · {self.title}"


@dataclass(frozen=True)
class Lab:
    """A live widget.

    Attributes:
      name: its class: "RouterAlignmentLab".
      module: below `moe_lab_widgets`, which has the class.
      paper: the key of the paper that it shows.
      notebook: the number of the notebook that introduces it.
      page: the file of the playground's page that trains the same run in a browser: "map.html"; "" for most.
    """

    name: str
    module: str
    paper: str
    notebook: str
    page: str = ""


PAPERS: Mapping[str, Paper] = {
    paper.key: paper
    for paper in (
        Paper(
            key="pmoe2023",
            authors="Chowdhury et al.",
            venue="ICML 2023",
            title="Patch-level Routing in Mixture-of-Experts is Provably Sample-efficient for Convolutional Neural "
            "Networks",
            room="patch_routing",
            url="https://arxiv.org/abs/2306.04073",
        ),
        Paper(
            key="chen2022",
            authors="Chen et al.",
            venue="NeurIPS 2022",
            title="Towards Understanding the Mixture-of-Experts Layer in Deep Learning",
            room="specialization",
            url="https://arxiv.org/abs/2208.02813",
        ),
        Paper(
            key="pruning2024",
            authors="Chowdhury et al.",
            venue="ICML 2024",
            title="A Provably Effective Method for Pruning Experts in Fine-tuned Sparse Mixture-of-Experts",
            room="pruning",
            url="https://arxiv.org/abs/2405.16646",
        ),
        Paper(
            key="gridlock2019",
            authors="Makkuva et al.",
            venue="ICML 2019",
            title="Breaking the gridlock in Mixture-of-Experts: Consistent and Efficient Algorithms",
            room="recovery.gridlock",
            url="https://arxiv.org/abs/1802.07417",
        ),
        Paper(
            key="gated2019",
            authors="Makkuva et al.",
            venue="2019",
            title="Learning in Gated Neural Networks",
            room="recovery.landscape",
            url="https://arxiv.org/abs/1906.02777",
        ),
    )
}
"""The papers by key, in the order of the course."""

TOPICS: Mapping[str, Topic] = {
    topic.key: topic
    for topic in (Topic(key="routers", title="Routing and balancing: nine papers that notebooks 10 and 11 cite"),)
}
"""The topics by key."""

CLAIMED: Mapping[str, Paper | Topic] = {**PAPERS, **TOPICS}
"""All that has claims, in the order of their lists."""

SHARED_ROOMS: tuple[str, ...] = ("vision",)
"""The rooms with the deep networks of several papers, whose own rooms hold the rest."""

ROOMS: tuple[str, ...] = (*dict.fromkeys(paper.room.split(".")[0] for paper in PAPERS.values()), *SHARED_ROOMS)
"""The folders of `moe_lab` that hold the papers' models and figures; two papers share `recovery`."""

THEMES = ("first steps", "patches and routing", "specialisation and balance", "pruning", "recovery")
"""The themes of the course, from top to bottom on its map."""

NOTEBOOKS = (
    Notebook(
        stem="00_start_here",
        title="Start here",
        minutes=17,
        after=(),
        will="see it move",
        theme="first steps",
        exercises="start",
    ),
    Notebook(
        stem="01_routing_by_hand",
        title="Routing by hand",
        minutes=35,
        after=("00",),
        will="route four patches on paper, three ways",
        theme="first steps",
        exercises="routing",
        explains=("moe_lab.course.routing_table",),
    ),
    Notebook(
        stem="02_router_alignment",
        title="Router alignment",
        minutes=40,
        after=("00", "01"),
        will="see why routers turn, measure it, and break it",
        theme="patches and routing",
        exercises="alignment",
        explains=("moe_lab.patch_routing",),
    ),
    Notebook(
        stem="03_phase_transitions",
        title="Phase transitions",
        minutes=45,
        after=("02",),
        will="find out how many samples it takes, and which of the paper's claims hold",
        theme="patches and routing",
        exercises="transitions",
        explains=("moe_lab.patch_routing.figures", "moe_lab.patch_routing.phase", "moe_lab.patch_routing.theory"),
    ),
    Notebook(
        stem="04_specialization",
        title="Specialisation",
        minutes=45,
        after=("00", "01"),
        will="see experts divide the clusters among them, and measure how well",
        theme="specialisation and balance",
        exercises="specialization",
        explains=("moe_lab.specialization",),
    ),
    Notebook(
        stem="05_pruning",
        title="Pruning",
        minutes=45,
        after=("00", "01"),
        will="find the experts that matter, and throw the others away",
        theme="pruning",
        exercises="pruning",
        explains=("moe_lab.pruning",),
    ),
    Notebook(
        stem="06_recovery",
        title="Recovery",
        minutes=45,
        after=("00", "01"),
        will="read the experts off a tensor, then the router, and see when EM needs that",
        theme="recovery",
        exercises="recovery",
        explains=("moe_lab.recovery",),
    ),
    Notebook(
        stem="07_landscapes",
        title="Landscapes",
        minutes=40,
        after=("00", "01", "06"),
        will="replace the squared error by two losses that lead every start home",
        theme="recovery",
        exercises="recovery",
        explains=("moe_lab.recovery.landscape",),
    ),
    Notebook(
        stem="08_real_images",
        title="Real images, real models",
        minutes=45,
        after=("00", "01", "02"),
        will="watch deep networks route pieces of images, and find out by controls what a gain is due to",
        theme="patches and routing",
        exercises="vision",
        explains=("moe_lab.vision",),
    ),
    Notebook(
        stem="09_prune_a_model",
        title="Prune a model that people use",
        minutes=30,
        after=("00", "01", "05"),
        will="prune a Mixtral of transformers in two ways, save it, and ask whether the choice was a good one",
        theme="pruning",
        exercises="hub",
        explains=("moe_lab_hub",),
        extra="hub",
    ),
    Notebook(
        stem="10_balance_and_collapse",
        title="Balance and collapse",
        minutes=45,
        after=("00", "01", "04"),
        will="watch a router collapse, cure it in four ways, and find out when balance hurts",
        theme="specialisation and balance",
        exercises="balance",
        explains=("moe_lab.routers.balance", "moe_lab.specialization.balancing", "moe_lab.specialization.topk"),
    ),
    Notebook(
        stem="11_routing_choices",
        title="Routing choices",
        minutes=40,
        after=("00", "01", "02"),
        will="see which patches a routing loses, and what that costs, at equal compute",
        theme="patches and routing",
        exercises="choices",
        explains=("moe_lab.routers.choices", "moe_lab.patch_routing.routed", "moe_lab.patch_routing.routing_figures"),
    ),
    Notebook(
        stem="12_build_your_own",
        title="Build your own mixture",
        minutes=45,
        after=("00", "01", "02"),
        will="write a mixture of experts in plain torch, train it, and see the Lab's picture of it",
        theme="patches and routing",
        exercises="build",
        explains=("moe_lab.patch_routing.stepwise",),
    ),
    Notebook(
        stem="13_pruning_further",
        title="Pruning, further",
        minutes=35,
        after=("05",),
        will="prune other checkpoints, with another loss and another routing, and compare theorems with runs",
        theme="pruning",
        exercises="pruning",
        explains=("moe_lab.pruning.theory", "moe_lab.pruning.theory_run", "moe_lab.pruning.theory_conditions"),
    ),
    Notebook(
        stem="14_recovery_further",
        title="Recovery, further",
        minutes=30,
        after=("06",),
        will="hold a paper's figures and formulas against runs, and find why some do not replicate",
        theme="recovery",
        exercises="recovery",
        explains=("moe_lab.recovery.printed",),
    ),
    Notebook(
        stem="15_specialization_further",
        title="Specialisation, further",
        minutes=20,
        after=("04",),
        will="trace a published table to what trained it, sharpen a lemma, and check a theorem on a run",
        theme="specialisation and balance",
        exercises="specialization",
        explains=("moe_lab.specialization.theory",),
    ),
)
"""The notebooks in their order."""


def notebook_of(name: str) -> Notebook | None:
    """Returns the notebook that explains a module, function or class of the library; None where none does.

    Args:
      name: its full name: "moe_lab.patch_routing.figures.phase_map". What names most of it counts.
    """
    about = {part: notebook for notebook in NOTEBOOKS for part in notebook.explains}
    parts = name.split(".")
    starts = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((about[start] for start in starts if start in about), None)


INDEX = ("00_course", "The course at a glance")
"""Stem and title of the notebook that maps the course."""

WAYS: Mapping[str, tuple[str, ...]] = {
    "one lecture": ("00", "01", "02"),
    "one day": ("00", "01", "02", "03", "04", "05"),
    "one term": tuple(notebook.number for notebook in NOTEBOOKS),
}
"""Ways through the course: numbers of notebooks, each after those that it needs."""

LABS = (
    Lab("RouterAlignmentLab", module="labs.router_alignment", paper="pmoe2023", notebook="02", page="playground.html"),
    Lab("PhaseTransitionLab", module="labs.phase_transition", paper="pmoe2023", notebook="03", page="map.html"),
    Lab("SpecializationLab", module="labs.specialization", paper="chen2022", notebook="04", page="specialization.html"),
    Lab("PruningLab", module="labs.pruning", paper="pruning2024", notebook="05", page="pruning.html"),
    Lab("GridlockLab", module="labs.gridlock", paper="gridlock2019", notebook="06", page="gridlock.html"),
    Lab("StuckRateLab", module="labs.stuck_rate", paper="gridlock2019", notebook="06", page="stuck.html"),
    Lab("LandscapeLab", module="labs.landscape", paper="gated2019", notebook="07", page="landscape.html"),
    Lab("PatchMapLab", module="labs.patch_map", paper="pmoe2023", notebook="08", page="patch_map.html"),
    Lab("ModelPruningLab", module="labs.model_pruning", paper="pruning2024", notebook="09"),
    Lab("BalanceLab", module="labs.balance", paper="chen2022", notebook="10", page="balance.html"),
    Lab("RoutingChoicesLab", module="labs.routing_choices", paper="pmoe2023", notebook="11", page="routing.html"),
)
"""The Labs in the order of their notebooks."""


def papers_of(notebook: Notebook) -> list[Paper]:
    """Returns the papers that a notebook is about: those of its Labs, and those whose rooms it explains."""
    shown = {lab.paper for lab in LABS if lab.notebook == notebook.number}
    rooms = [part.removeprefix("moe_lab.").split(".") for part in notebook.explains]

    def explained(room: list[str]) -> bool:
        return any(part[: len(room)] == room[: len(part)] for part in rooms)

    return [paper for paper in PAPERS.values() if paper.key in shown or explained(paper.room.split("."))]


PAGES: Mapping[str, str] = {lab.name: lab.page for lab in LABS if lab.page}
"""The pages that train in a browser, by the names of their Labs."""
