"""Texts on which a language model is measured: one JSON object a line, with the loss of each text as a number."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from moe_lab.core.errors import InputError, MissingFileError
from moe_lab.core.sentences import brief
from moe_lab_hub.families import transformers

LENGTH, BATCH = 512, 8
"""Tokens of a text that are read at most; texts that go through a model at once."""
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")


@dataclass(frozen=True)
class Text:
    """A text as a model reads it.

    Attributes:
      tokens: at least two; each but the first is predicted.
      topic: what it is about; "" where that is not said.
    """

    tokens: tuple[int, ...]
    topic: str = ""


def read_texts(path: Path, model: Path, length: int = LENGTH) -> list[Text]:
    """Reads texts from a file with one JSON object a line.

    An object has `text`, which the model's own tokenizer reads, or `tokens`, a list of whole numbers; `topic` if it is
    known. Of a longer text the first `length` tokens are read.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: a line is no such object, or the model's folder has no tokenizer for a `text`.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        raise MissingFileError(f"there must be a file of texts: got {path}") from None
    except UnicodeDecodeError:
        raise InputError(f"a file of texts must be UTF-8, one JSON object a line: got {path}") from None
    tokenizer: Any = None
    texts = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        about = _object(line, path, number)
        tokens = about.get("tokens")
        if tokens is None:
            tokenizer = tokenizer or _tokenizer(model, path)
            tokens = tokenizer(about["text"])["input_ids"]
        if len(tokens) < 2:
            raise InputError(f"a text must have at least two tokens, since each but the first is predicted: "
                             f"got {len(tokens)} in line {number} of {path}")  # fmt: skip
        texts.append(Text(tuple(tokens[:length]), str(about.get("topic", ""))))
    if len(texts) < 2:
        raise InputError(
            f"a file of texts must have at least two, to tell how sure a loss is: got {len(texts)} in {path}"
        )
    return texts


def _object(line: str, path: Path, number: int) -> dict[str, Any]:
    """Reads a line."""
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    tokens = found.get("tokens") if isinstance(found, dict) else None
    whole = isinstance(tokens, list) and all(isinstance(one, int) and one >= 0 for one in tokens)
    if not whole and not (isinstance(found, dict) and tokens is None and isinstance(found.get("text"), str)):
        rule = 'a line must be a JSON object with "text", or with "tokens" as a list of whole numbers'
        raise InputError(f"{rule}: got {brief(line, 60)!r} in line {number} of {path}")
    return dict(found)


def _tokenizer(model: Path, path: Path) -> Any:
    if not any((model / name).exists() for name in _TOKENIZERS):  # or transformers makes one that knows no word
        raise InputError(
            f'the model\'s folder must hold its tokenizer to read a "text": got none of {", ".join(_TOKENIZERS)} in '
            f'{model}; give "tokens" in {path} instead'
        )
    return transformers().AutoTokenizer.from_pretrained(model, trust_remote_code=False, local_files_only=True)


def check_apart(texts: Sequence[Text], calibration: Sequence[Text]) -> None:
    """Checks that no text is in both.

    Raises:
      ValueError: one is: a criterion that has seen a text would be judged on it.
    """
    both = {text.tokens for text in texts} & {text.tokens for text in calibration}
    if both:
        raise InputError(f"--calibrate must hold other texts than --text: got {len(both)} that are in both")


def check_tokens(texts: Sequence[Text], size: int) -> None:
    """Checks that a model has an embedding for each token.

    Raises:
      ValueError: there is a token that it does not have.
    """
    most = max(max(text.tokens) for text in texts)
    if most >= size:
        raise InputError(f"tokens must be less than {size}, the size of the model's vocabulary: got {most}")


def batches_of(texts: Sequence[Text], size: int = BATCH) -> Iterator[dict[str, Tensor]]:
    """Yields the inputs of a model for texts, in their order; shorter ones of a batch are padded at their end."""
    for first in range(0, len(texts), size):
        some = [text.tokens for text in texts[first : first + size]]
        longest = max(map(len, some))
        ids = torch.tensor([[*tokens, *[0] * (longest - len(tokens))] for tokens in some])
        mask = torch.tensor([[1] * len(tokens) + [0] * (longest - len(tokens)) for tokens in some])
        yield {"input_ids": ids, "attention_mask": mask}


def losses_by_batch(model: nn.Module, texts: Sequence[Text]) -> Iterator[Float[np.ndarray, " b"]]:
    """Yields the mean cross-entropy of each text's tokens but the first, in nats, batch by batch."""
    device = next(model.parameters()).device
    for batch in batches_of(texts):
        with torch.no_grad():
            batch = {name: value.to(device) for name, value in batch.items()}
            logits = model(**batch, use_cache=False).logits[:, :-1].float()
            ids, counts = batch["input_ids"][:, 1:], batch["attention_mask"][:, 1:]
            each = nn.functional.cross_entropy(logits.transpose(1, 2), ids, reduction="none") * counts
            yield (each.double().sum(1) / counts.sum(1)).cpu().numpy()
