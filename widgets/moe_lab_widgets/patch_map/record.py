"""One record of the patch-map Lab: WRN-pMoE and its controls at the same step, with their histories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from moe_lab.vision.patches.run import Run
from moe_lab.vision.patches.training import train_run
from moe_lab_widgets.engine.several import Several, histories
from moe_lab_widgets.patch_map.settings import MODELS, NO_GATE, STUDY


@dataclass(frozen=True)
class Frame(Several):
    """See the module's text.

    Attributes:
      gates: of the model under study: "learned", "none", "random" or "soft".
    """

    gates: str

    models = MODELS

    @property
    def share(self) -> str:
        """The measure of what lies in the object: of kept patches, or of gates where all patches are kept."""
        return "gate_in_object" if self.gates == "soft" else "kept_in_object"

    def ahead(self) -> int:
        """Returns in how many trials the model under study is more accurate than the one without gates."""
        return int((self.latest(STUDY, "test_accuracy") > self.latest(NO_GATE, "test_accuracy")).sum())


def frames(runs: Mapping[str, Run], gates: str, total: int) -> Iterator[Frame]:
    """Yields runs with the same `record_every`, record by record, as `compare` takes them.

    The first record has the model under study alone, the next two add its controls.
    """
    for shots in histories([{name: partial(train_run, run)} for name, run in runs.items()]):
        yield Frame(shots, total, gates)
