"""Pulls as a moving picture: a frame and a sentence for each step, in an output that needs nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from moe_lab.patch_routing import JointMoE, PatternTask
from moe_lab.patch_routing.pulls import router_pulls
from moe_lab_widgets import play, pulls
from moe_lab_widgets.playing import FRAMES_PER_SECOND, Played


@pytest.fixture(scope="module")
def played() -> Played:
    return play(router_pulls(JointMoE(experts=2), PatternTask(), samples=40, steps=6, record_every=2, seed=5))


def test_it_has_a_frame_and_a_sentence_for_each_step(played: Played) -> None:
    data = router_pulls(JointMoE(experts=2), PatternTask(), samples=40, steps=6, record_every=2, seed=5)
    recording = played.recording
    assert recording.captions == tuple(pulls.caption(data, step) for step in (0, 2, 4, 6))
    assert len(set(recording.bodies)) == 4 and repr(played) == recording.captions[-1]
    assert recording.stage["rate"] == FRAMES_PER_SECOND and len(recording.stage["spans"]) == 2
    assert dict(recording.values) == {
        "k, experts": "2", "l, patches each expert keeps": "6", "N, training samples": "40", "trial": "0", "seed": "5",
    }  # fmt: skip


def test_its_output_is_whole_and_small(played: Played, tmp_path: Path) -> None:
    page = played._repr_html_()
    held = re.search(r'class="moe-lab-run">(.*?)</script>', page, re.DOTALL)
    assert held is not None and json.loads(held[1]) == json.loads(json.dumps(played.recording.plain()))
    assert not re.search(r"(src|href)=.(?!data:)", page.partition("<script>")[0]) and len(page) < 300_000
    assert page.count("<script>") == 1 and 'src="data:image/png;base64,' in page
    assert played.save(tmp_path / "pulls.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_its_code_makes_it_again(played: Played) -> None:
    *lines, last = played.recording.code.splitlines()
    names: dict[str, object] = {}
    exec("\n".join(lines), names)
    again = eval(last, names)
    assert isinstance(again, Played) and again.recording.bodies == played.recording.bodies


def test_other_data_is_refused(played: Played) -> None:
    many = router_pulls(JointMoE(experts=8), PatternTask(), samples=40, steps=1)
    with pytest.raises(ValueError, match="data must have at most 4 experts"):
        play(many)
