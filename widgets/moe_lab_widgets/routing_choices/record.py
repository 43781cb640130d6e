"""One record of the routing-choices Lab: the chosen routing and its rows of comparison at the same step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from moe_lab.patch_routing import RoutedMoE, Run, Samples, train_batch
from moe_lab_widgets.engine.several import Several, histories
from moe_lab_widgets.routing_choices.settings import MODELS, STUDY


@dataclass(frozen=True)
class Frame(Several):
    """See the module's text.

    Attributes:
      routing: of the chosen model.
      places: C, of every expert in a sample.
    """

    routing: str
    places: int

    models = MODELS


def frames(runs: Mapping[str, Run], samples: tuple[Samples, Samples]) -> Iterator[Frame]:
    """Yields runs with the same `record_every`, record by record, on the same samples.

    The first record has the chosen model alone, the next ones add its rows of comparison.
    """
    model, first = runs[STUDY].model, runs[STUDY]
    assert isinstance(model, RoutedMoE)
    total = first.epochs * -(-first.samples // model.batch_size)
    for shots in histories([{name: partial(train_batch, [run], samples)} for name, run in runs.items()]):
        yield Frame(shots, total, model.routing, model.places(first.task.patches))
