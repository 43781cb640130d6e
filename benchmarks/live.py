"""The waiting time of a student: one live training, and the import."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys

from benchmarks.measure import Result, in_turns
from moe_lab.patch_routing import CNN, JointMoE, PatternTask, SeparateMoE, train
from moe_lab.training import final


def run() -> list[Result]:
    rivals = {
        model.name: lambda model=model: final(train(model, PatternTask(), trials=5, seed=0, device="cpu"))
        for model in (JointMoE(), SeparateMoE(), CNN())
    }
    seconds = {name: statistics.median(times) for name, times in in_turns(rivals, calls=1, rounds=7).items()}
    return [
        Result("live_joint", seconds["joint"], "CPU s", 0.3),
        Result("live_separate", seconds["separate"], "CPU s"),
        Result("live_cnn", seconds["cnn"], "CPU s"),
        *imports(),
    ]


def imports() -> list[Result]:
    """CPU seconds of `import moe_lab` in a fresh Python, against those of `import torch`."""
    times: dict[str, list[float]] = {"torch": [], "moe_lab": [], "moe_lab.patch_routing": []}
    for turn in range(6):
        for name, found in times.items():
            before = _children()
            subprocess.run([sys.executable, "-c", f"import {name}"], check=True)
            if turn:  # the first fills the disk cache
                found.append(_children() - before)
    torch, ours, room = (statistics.median(found) for found in times.values())
    limit = 1.2 * torch + 0.5
    return [
        Result("import_moe_lab", ours, "CPU s", limit, note=f"at most 1.2 times import torch ({torch:.2f} s) + .5 s"),
        Result("import_patch_routing", room, "CPU s", limit, note="the same, for the room"),
    ]


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
