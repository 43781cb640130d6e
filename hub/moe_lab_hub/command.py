"""`moe-lab prune`: prunes a checkpoint folder, with a table of its layers, a progress bar and a file of its choice."""

from __future__ import annotations

import json
import math
from itertools import takewhile
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn
from rich.table import Table

from moe_lab.core.console import PlainColumn, PlainConsole
from moe_lab.core.errors import InputError
from moe_lab.core.files import check_new_folder, writable_folder, write_whole
from moe_lab.core.saliency import NEED_BEFORE, NEED_TOKENS
from moe_lab.core.sentences import brief
from moe_lab_hub.checkpoint import CheckpointPlan, plan_file, planned
from moe_lab_hub.folder import check_checkpoint
from moe_lab_hub.record import hashed, model_files, record
from moe_lab_hub.scores import CRITERIA
from moe_lab_hub.survey import Layer
from moe_lab_hub.texts import read_texts


def run(
    folder: Path,
    out: Path,
    *,
    before: Path | None,
    criterion: str,
    share: float,
    calibrate: Path | None,
    seed: int,
    dry_run: bool,
) -> None:
    """Prunes a checkpoint, or only prints what would be pruned; what was chosen stands in OUT.plan.json either way."""
    if not dry_run:
        check_new_folder(out)
    for home in (folder, *([before] if before else [])):
        check_checkpoint(home)
    if criterion not in CRITERIA:
        raise InputError(f"--criterion must be one of {', '.join(CRITERIA)}: got --criterion {brief(criterion)}")
    if criterion in NEED_TOKENS and calibrate is None:
        raise InputError(f"{criterion} needs tokens: add --calibrate FILE, or choose another --criterion")
    rule = f"{criterion} needs the model before fine-tuning: add --before FOLDER, or choose another --criterion"
    if criterion in NEED_BEFORE and before is None:
        raise InputError(rule)
    if not 0 <= share < 1:
        raise InputError(f"--share must be at least 0 and less than 1: got --share {share:g}")
    console = PlainConsole()
    written = plan_file(out)
    writable_folder(written.absolute().parent)
    with console.status("scoring experts"):
        texts = read_texts(calibrate, folder) if calibrate is not None and criterion in NEED_TOKENS else None
        plan = planned(folder, before, criterion, share, seed=seed, texts=texts)
    console.print(layers_table(plan, criterion))
    console.print(costs_table(plan))
    console.print(
        "Rerouted: tokens choose among the experts left, which saves memory, not operations or time. Measure the model "
        "before you use it: `moe-lab compare` says on your texts whether the choice is better than chance."
    )
    for note in plan.notes:
        console.print(f"Note: {note}.", soft_wrap=True)
    for name in plan.left_out:
        console.print(f"Not copied, as it may hold unpruned weights, is hidden or is a link: {name}", soft_wrap=True)
    given = {"folder": folder, "out": out, "before": before, "calibrate": calibrate}
    options: dict[str, Any] = {name: None if path is None else str(path) for name, path in given.items()}
    write_plan(written, plan, {**options, "criterion": criterion, "share": share, "seed": seed}, console)
    told = f"The plan, with scores, experts kept and hashes of the model's files, is in {written}."
    console.print(told, soft_wrap=True)
    if dry_run:
        console.print("Nothing else was written.")
        return
    columns = (PlainColumn("writing"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=plan.bytes)
        for done in plan.write(out):
            progress.update(task, completed=done)
    console.print(f"The pruned model is in {out}.", soft_wrap=True)


def layers_table(plan: CheckpointPlan, criterion: str) -> Table:
    """Returns each layer's experts, those kept, the scores of both, and its parameters before and after."""
    columns = zip(*(layer.name.split(".") for layer in plan.source.layers), strict=False)
    same = [column[0] for column in takewhile(lambda column: len(set(column)) == 1, columns)]
    shared = ".".join(same) if len(plan.source.layers) > 1 else ""  # long, and the same in each row
    below = f"\nlayers in {shared}" if shared else ""
    table = Table(title=f"{plan.source.family.name}, {criterion}{below}")
    table.add_column("layer", overflow="fold")
    for title in ("kept", "scores kept", "scores pruned", "parameters", "after"):
        table.add_column(title, justify="right", overflow="fold")
    for layer in plan.source.layers:
        kept, scores = plan.kept[layer.name], plan.scores[layer.name].tolist()
        away = [score for expert, score in enumerate(scores) if expert not in kept]
        before, after = parameters(plan, layer)
        table.add_row(
            layer.name.removeprefix(f"{shared}."),
            f"{len(kept)} of {layer.experts}",
            _span([scores[expert] for expert in kept]),
            _span(away),
            f"{before:,}",
            f"{after:,}",
        )
    return table


def write_plan(path: Path, plan: CheckpointPlan, options: dict[str, Any], console: PlainConsole) -> None:
    """Writes the plan to a file; reading a large model for its hashes takes minutes."""
    hashes = {}
    for name in ("folder", "before"):
        if options[name]:
            home = Path(options[name])
            with console.status(f"hashing {home}"):
                digests = hashed(model_files(home))
                hashes[name] = {file.relative_to(home).as_posix(): digest for file, digest in digests}
    if options["calibrate"]:
        hashes["calibrate"] = {path.name: digest for path, digest in hashed([Path(options["calibrate"])])}
    write_whole(path, (json.dumps(record(plan, options, hashes), indent=1) + "\n").encode())


def costs_table(plan: CheckpointPlan) -> Table:
    """Returns the costs of the whole model, rerouted and silent."""
    table = Table(title="the whole model")
    table.add_column("")
    for way in plan.costs["way"].values:
        table.add_column(str(way), justify="right")
    for name, values in plan.costs.data_vars.items():
        table.add_row(str(name).replace("_", " "), *(f"{int(value):,}" for value in values))
    return table


def parameters(plan: CheckpointPlan, layer: Layer) -> tuple[int, int]:
    """Returns the number of parameters of a block before and after pruning."""
    before = after = 0
    for name, role in layer.roles.items():
        size = math.prod(plan.folder.shape(name))
        kept = plan.kept[layer.name]
        before += size
        if role.kind == "listed":
            after += size if role.expert in kept else 0
        else:
            after += size if role.kind == "shared" else size * len(kept) // layer.experts
    return before, after


def _span(scores: list[float]) -> str:
    return f"{min(scores):.3g} to {max(scores):.3g}" if scores else "-"
