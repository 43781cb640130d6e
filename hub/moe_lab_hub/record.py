"""What a pruning of a checkpoint chose and why, as a file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from moe_lab import __version__
from moe_lab_hub.checkpoint import CheckpointPlan
from moe_lab_hub.folder import CONFIG, Folder
from moe_lab_hub.scores import source_groups, unsure_of


def record(plan: CheckpointPlan, options: Mapping[str, Any], hashes: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Returns the plan as plain values.

    Args:
      options: those of the command.
      hashes: the SHA-256 of each file by name, of the model and, where there is one, of the model before.
    """
    groups = source_groups(plan.source, "rerouted")
    layers = {
        layer.name: {
            "experts": layer.experts,
            "kept": list(plan.kept[layer.name]),
            "scores": plan.scores[layer.name].tolist(),
            "criterion": plan.scored[layer.name].criterion,
            "could_change_places": unsure_of(plan.scored[layer.name], plan.kept[layer.name], groups),
        }
        for layer in plan.source.layers
    }
    model = plan.source.family.name
    told = {"options": dict(options), "files": dict(hashes), "notes": list(plan.notes), "layers": layers}
    return {"moe_lab": __version__, "family": model, **told}


def model_files(folder: Path) -> list[Path]:
    """Returns the files that a model consists of: its config, its index and its tensors."""
    opened = Folder(folder)
    index = [opened.index_name] if opened.index else []
    return [folder / name for name in (CONFIG, *index, *sorted(opened.metadata))]


def hashed(paths: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """Yields the SHA-256 of each file."""
    for path in paths:
        with path.open("rb") as file:
            yield path, hashlib.file_digest(file, "sha256").hexdigest()
