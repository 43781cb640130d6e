"""The waiting time of a student: one live training, the imports, and the first picture."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys

from benchmarks.measure import Result, in_turns, ratio
from moe_lab.core.training import final
from moe_lab.patch_routing import CNN, JointMoE, PatternTask, SeparateMoE, train

PICTURE = """
import os, ipykernel.kernelapp, IPython, torch
torch.set_num_threads(1)
from moe_lab_widgets import RouterAlignmentLab
lab = RouterAlignmentLab(seed=0)
assert lab._presenter.first_shown.wait(60)
os._exit(0)  # the run goes on
"""
"""What a kernel does until notebook 00 shows a picture."""


def run(tiny: bool = False) -> list[Result]:
    rivals = {
        model.name: lambda model=model: final(train(model, PatternTask(), trials=5, seed=0, device="cpu"))
        for model in (JointMoE(), SeparateMoE(), CNN())
    }
    seconds = {
        name: statistics.median(times) for name, times in in_turns(rivals, calls=1, rounds=1 if tiny else 7).items()
    }
    return [
        Result("live_joint", seconds["joint"], "CPU s", 0.3),
        Result("live_separate", seconds["separate"], "CPU s"),
        Result("live_cnn", seconds["cnn"], "CPU s"),
        *imports(rounds=1 if tiny else 6),
    ]


def imports(rounds: int) -> list[Result]:
    """CPU seconds of imports in a fresh Python, and those of a kernel until notebook 00 shows its first picture."""
    programs = {
        "torch": "import torch",
        "moe_lab": "import moe_lab",
        "room": "import moe_lab.patch_routing",
        "picture": PICTURE,
    }
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, found in times.items():
            before = _children()
            subprocess.run([sys.executable, "-c", programs[name]], check=True)
            found.append(_children() - before)
    times = {name: found[1:] or found for name, found in times.items()}  # the first round fills the disk cache
    torch, ours, _, picture = (statistics.median(found) for found in times.values())
    over_torch = ratio(times["room"], times["torch"])
    note = f"import torch: {torch:.2f} s"
    return [
        Result("import_moe_lab", ours, "CPU s", 0.1),
        Result("import_patch_routing", over_torch, "times import torch", 1.15, note=note),
        Result("first_picture", picture, "CPU s", 3.0, note=f"of a kernel, from its start; {note}"),
    ]


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
