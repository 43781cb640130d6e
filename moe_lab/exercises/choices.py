"""Checks of notebook 11: places, normalised sigmoid gates, and the inputs of soft slots."""

from __future__ import annotations

import numpy as np
import torch

from moe_lab.exercises.cases import Case, one_only
from moe_lab.exercises.verdict import Verdict, judge
from moe_lab.routers.choices import soft_weights, top_gates, within_capacity


def check_served(served: object) -> Verdict:
    """Checks `served(scores, places)`: which tokens find a place at the expert that they score highest.

    scores is (tokens, experts); tokens are served in the order of their rows.
    """
    generator = np.random.default_rng(11)
    small = np.array([[1.0, 0], [3, 0], [0, 1], [2, 0], [2.5, 0]])
    cases = [
        _served_case("for five tokens, four of which want expert 1, and two places each", small, 2),
        _served_case("for 12 tokens, 3 experts and 3 places", generator.normal(size=(12, 3)), 3),
        _served_case("for 12 tokens, 3 experts and one place", generator.normal(size=(12, 3)), 1),
    ]
    praise = "Order of arrival knows nothing of scores: whoever stands last is lost, however much it matters."
    formula = "token i is served if fewer than `places` tokens before it have the same largest expert"
    return judge("served", served, cases, praise, formula)


def _served_case(about: str, scores: np.ndarray, places: int) -> Case:
    given = torch.from_numpy(scores)
    mask, _ = top_gates(given, 1)
    orders = ("arrival", "priority")
    right, priority = (within_capacity(mask, given, places, order).any(1).numpy() for order in orders)
    backwards = within_capacity(mask.flip(0), given.flip(0), places).flip(0).any(1).numpy()
    mistakes = {
        "You serve the highest scores first: that is priority, here tokens are served as they stand.": priority,
        "You serve the last rows first.": backwards,
        "You serve everybody: an expert has no more than `places`.": np.ones(len(scores), dtype=bool),
        "You let the first tokens in, whichever expert they want: every expert has places of its own.": (
            np.arange(len(scores)) < places
        ),
        "You return who is turned away: True is for a token with a place.": ~right,
        "You count one place too many: an expert has `places` of them, no more.": (
            within_capacity(mask, given, min(places + 1, len(scores))).any(1).numpy()
        ),
        "You give every expert one place: it has `places` of them.": within_capacity(mask, given, 1).any(1).numpy(),
        "You send tokens to the expert that they score lowest.": (
            within_capacity(top_gates(-given, 1)[0], given, places).any(1).numpy()
        ),
    }
    return Case((scores, places), right, about, mistakes)


def check_sigmoid_gates(sigmoid_gates: object) -> Verdict:
    """Checks `sigmoid_gates(scores, count)`: normalised sigmoids (tokens, experts) of each token's `count` best."""
    generator = np.random.default_rng(12)
    cases = [
        _gates_case("for scores (log 3, 0, -log 3) and two experts", np.log([[3.0, 1.0, 1 / 3]]), 2),
        _gates_case("for 5 tokens, 5 experts, of which each picks 3", generator.normal(size=(5, 5)), 3),
    ]
    praise = "Nobody's sigmoid depends on another's score; only the sum that they are divided by does."
    formula = "g_m = s(h_m) / sum of s(h) over the chosen, with s(h) = 1 / (1 + exp(-h)), and 0 elsewhere"
    return judge("sigmoid_gates", sigmoid_gates, cases, praise, formula)


def _gates_case(about: str, scores: np.ndarray, count: int) -> Case:
    given = torch.from_numpy(scores)
    right = top_gates(given, count, "sigmoid-normalised")[1].numpy()
    plain, low = 1 / (1 + np.exp(-scores)), top_gates(-given, count)[0].numpy()
    mistakes = {
        "You took the softmax over the chosen: sigmoids first, then divide by their sum.": (
            top_gates(given, count, "softmax")[1].numpy()
        ),
        "You did not divide: the chosen gates must sum to 1.": top_gates(given, count, "sigmoid")[1].numpy(),
        "You divide by the sum over all experts: only the chosen ones count.": (
            np.where(right > 0, plain, 0) / plain.sum(1, keepdims=True)
        ),
        "You left nobody out: gates of experts that are not chosen are 0.": plain / plain.sum(1, keepdims=True),
        "You chose the smallest scores.": np.where(low, plain, 0) / np.where(low, plain, 0).sum(1, keepdims=True),
        "You chose the largest score alone: choose `count` of them.": (
            top_gates(given, 1, "sigmoid-normalised")[1].numpy()
        ),
        "Your gates are all equal: a higher score has a larger gate.": (right > 0) / count,
        "Your gates sum to 1 over the tokens: divide by each token's own sum.": (
            np.where(right > 0, plain, 0) / np.maximum(np.where(right > 0, plain, 0).sum(0), 1e-300)
        ),
    }
    return Case((scores, count), right, about, mistakes)


def check_slot_inputs(slot_inputs: object) -> Verdict:
    """Checks `slot_inputs(scores, tokens)`: the inputs of soft MoE's slots, (slots, d).

    scores is (tokens, slots), tokens (tokens, d).
    """
    generator = np.random.default_rng(13)
    small = np.log([[1.0, 3.0], [1.0, 1.0]]), np.array([[4.0, 0.0], [0.0, 8.0]])
    cases = [
        _slots_case("for two tokens (4, 0), (0, 8) and two slots", *small),
        _slots_case(
            "for 5 tokens of 3 numbers and 4 slots", generator.normal(size=(5, 4)), generator.normal(size=(5, 3))
        ),
    ]
    praise = "No token is ever left out, so the gradient reaches all of them, and every slot costs one product."
    formula = "slot p = sum over i of D_ip x_i, with D_ip = exp(h_ip) / sum over i' of exp(h_i'p)"
    return judge("slot_inputs", slot_inputs, cases, praise, formula)


def _slots_case(about: str, scores: np.ndarray, tokens: np.ndarray) -> Case:
    dispatch, combine = (part.numpy() for part in soft_weights(torch.from_numpy(scores)))
    best = np.eye(len(tokens))[scores.argmax(0)]
    mistakes = {
        "You took the softmax over the slots: that is combine, for the outputs. A slot's weights sum to 1 over the "
        "tokens.": combine.T @ tokens,
        "You left out the softmax: scores are no weights.": scores.T @ tokens,
        "You left out the division: the weights of a slot must sum to 1.": np.exp(scores).T @ tokens,
        "You gave each slot its best token alone: all tokens go in, with their weights.": best @ tokens,
        "You gave each slot the plain mean: weigh the tokens by their scores.": (
            np.broadcast_to(tokens.mean(0), (scores.shape[1], tokens.shape[1]))
        ),
        "You divide by the number of tokens: the weights of a slot sum to 1 already.": (
            dispatch.T @ tokens / len(tokens)
        ),
        **one_only("token", *(dispatch[i][:, None] * tokens[i] for i in (0, -1))),
    }
    return Case((scores, tokens), dispatch.T @ tokens, about, mistakes)
