"""The waiting time of a student: one live training, the imports, and the first picture."""

from __future__ import annotations

import statistics

from benchmarks.measure import Result, in_turns, ratio, used_by
from moe_lab.core.snapshots import final
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
        Result("live_joint", seconds["joint"], "CPU s"),
        Result("live_separate", seconds["separate"], "CPU s"),
        Result("live_cnn", seconds["cnn"], "CPU s"),
        *imports(seconds["joint"], rounds=1 if tiny else 6),
    ]


def imports(training: float, rounds: int) -> list[Result]:
    """Imports, a kernel until notebook 00 shows its first picture, and a training, over `import torch`.

    Args:
      training: CPU seconds of a live training.
      rounds: how often each starts.
    """
    programs = {
        "torch": "import torch",
        "moe_lab": "import moe_lab",
        "room": "import moe_lab.patch_routing",
        "picture": PICTURE,
    }
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, found in times.items():
            found.append(used_by(programs[name]))
    times = {name: found[1:] or found for name, found in times.items()}  # the first round fills the disk cache
    torch = statistics.median(times["torch"])
    unit, note = "times import torch", f"import torch: {torch:.2f} s"
    return [
        Result("live_joint_over_import", training / torch, unit, 0.3, note=note),
        Result("import_moe_lab", ratio(times["moe_lab"], times["torch"]), unit, 0.1, note=note),
        Result("import_patch_routing", ratio(times["room"], times["torch"]), unit, 1.15, note=note),
        Result("first_picture", ratio(times["picture"], times["torch"]), unit, 2.5, note="of a kernel"),
    ]
