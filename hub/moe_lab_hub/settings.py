"""The config.json of a pruned checkpoint: its number of experts, and new numbers where it names them.

What is quantised, and what is not, is told by names of modules, there or in a file beside it.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from moe_lab.core.errors import InputError
from moe_lab_hub.families import Family
from moe_lab_hub.scores import Source

FIELDS = ("quantization_config", "compression_config")
"""What config.json says of quantisation is in one of these."""
BESIDE = ("hf_quant_config.json", "quantize_config.json")
"""Files that say it as well: ModelOpt's and GPTQ's."""
_PATTERN = re.compile(r"re:|[-+]:")
"""How compressed-tensors marks a regular expression, and GPTQModel one of modules that it treats otherwise."""
_NUMBERED = re.compile(r"experts?[._](expert_)?[\[(]?\d")


class Renumbered:
    """The names of modules after pruning.

    Args:
      family: the model's.
      kept: the experts that stay, by block.
      tensors: the names of all tensors of the checkpoint.
    """

    def __init__(self, family: Family, kept: Mapping[str, Sequence[int]], tensors: Iterable[str]) -> None:
        self._family, self._kept = family, kept
        names = {name.rpartition(".")[0] for name in tensors}
        self._experts = sorted(name for name in names if self._expert(name) is not None)

    def settings(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the content of config.json with new names of modules.

        Raises:
          ValueError: it names experts in a way that is not known, so that wrong ones would be meant after pruning.
        """
        return {
            name: self._changed(value)
            if name in FIELDS
            else self.settings(value)  # of a text model within that of the whole
            if isinstance(value, dict)
            else value
            for name, value in settings.items()
        }

    def beside(self, content: Any) -> Any:
        """Returns the content of a file of `BESIDE` with new names of modules.

        Raises:
          ValueError: as for config.json.
        """
        return self._changed(content)

    def _changed(self, value: Any) -> Any:
        """A value of any depth with new names in its lists and keys."""
        if isinstance(value, dict):
            return {key: self._changed(one) for old, one in value.items() for key in self._names(old)}
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            return list(dict.fromkeys(name for one in value for name in self._names(one)))
        if isinstance(value, list):
            return [self._changed(one) for one in value]
        if isinstance(value, str):
            names = self._names(value)
            return names[0] if len(names) == 1 else names
        return value

    def _names(self, text: str) -> list[str]:
        """What a name or pattern of modules becomes: itself, others, or nothing where the expert is pruned."""
        if mark := _PATTERN.match(text):
            return self._of_pattern(text, mark[0])
        found = self._expert(text)
        if found is not None:
            return list(self._new(text, *found))
        if _NUMBERED.search(text.replace("\\", "")):
            rule = "the quantisation's config must name experts in full, or by a regular expression after 're:'"
            raise InputError(f"{rule}, so that they can be given their new numbers: got {text!r}")
        return [text]

    def _of_pattern(self, text: str, mark: str) -> list[str]:
        """A pattern that means all experts of a block alike, or none, stays; of others every name is written out."""
        try:
            pattern = re.compile(text.removeprefix(mark))
        except re.error as error:
            raise InputError(f"a pattern of the quantisation's config must be valid: got {text!r} ({error})") from error
        meant = [name for name in self._experts if pattern.match(name)]
        places = {self._place(name) for name in meant}
        if meant == [name for name in self._experts if self._place(name) in places]:
            return [text]
        names = [new for name in meant for found in [self._expert(name)] if found for new in self._new(name, *found)]
        return names if mark == "re:" else [f"{mark}{re.escape(name)}$" for name in names]

    def _expert(self, name: str) -> tuple[str, str, int] | None:
        """The block of a module of one expert, its name there and the expert's number; None for other modules."""
        place = self._family.split(name)
        found = re.match(self._family.listed, f"{place[1]}.") if place and place[0] in self._kept else None
        return (place[0], place[1], int(found[1])) if place and found else None

    def _place(self, name: str) -> tuple[str, str]:
        """A module's block, and its name in the expert."""
        found = self._expert(name)
        assert found is not None
        return found[0], re.sub(self._family.listed, "", f"{found[1]}.")

    def _new(self, name: str, block: str, rest: str, expert: int) -> Iterator[str]:
        if expert in self._kept[block]:
            number = list(self._kept[block]).index(expert)
            yield name.removesuffix(rest) + self._family.renumbered(f"{rest}.", number).removesuffix(".")


def with_count(settings: Mapping[str, Any], source: Source, left: int) -> dict[str, Any]:
    """Returns the content of config.json with another number of experts, under each name that it has there."""
    changed = copy.deepcopy(dict(settings))
    *parents, field = source.family.count.split(".")
    inner, config = changed, source.config
    for parent in parents:
        inner, config = inner.setdefault(parent, {}), getattr(config, parent)
    aliases = {name for name, real in config.attribute_map.items() if real == field} | {field}
    for name in (aliases & inner.keys()) or {field}:
        inner[name] = left
    return changed
