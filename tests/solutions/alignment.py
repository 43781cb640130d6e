"""Solutions of notebook 02, and the wrong answers that its hints are for."""

from __future__ import annotations

import numpy as np

from tests.solutions.routing import gates, softmax, top_l


def alignment(routers, signals):
    lengths = np.outer(np.linalg.norm(routers, axis=1), np.linalg.norm(signals, axis=1))
    return routers @ signals.T / lengths


def coverage(kept, signal, labels):
    caught = kept[:, np.arange(len(labels)), signal]
    return np.stack([caught[:, labels == label].mean(1) for label in np.unique(labels)], axis=1).max(0)


def router_gradient(patches, router, neurons, outputs, count, y, v):
    scores = patches @ router
    kept = np.argsort(-scores, kind="stable")[:count]
    gates = np.exp(scores[kept] - scores[kept].max())
    gates = gates / gates.sum()
    says = np.maximum(patches[kept] @ neurons.T, 0) @ outputs / count  # S_j
    pull = y * v * (gates * (says - gates @ says)) @ patches[kept]
    return -pull


def _plain_mean(patches, router, neurons, outputs, count, y, v):
    kept = top_l(patches @ router, count)
    g, s = gates(patches @ router, kept), np.maximum(patches @ neurons.T, 0) @ outputs / count
    return -y * v * (g * (s - s[kept].mean())) @ patches


def _gradient(patches, router, neurons, outputs, count, y, v, *, all_gates=False, inner=True, fixed=False):
    scores = patches @ router
    kept = top_l(scores, count)
    g = softmax(scores) if all_gates else gates(scores, kept)
    total = np.zeros(len(router))
    places = np.arange(len(patches)) if all_gates else np.flatnonzero(kept)
    for j in places:
        s = outputs @ np.maximum(neurons @ patches[j], 0) / count
        if fixed:
            total += s * g[j] * patches[j]
            continue
        for i in places:
            total += s * g[j] * (g[i] if inner else 1) * (patches[j] - patches[i])
    return -y * v * total


def _pull_of(patches, router, neurons, outputs, count, y, v, *, active=lambda z: np.maximum(z, 0), part=None):
    kept = top_l(patches @ router, count)
    g, s = gates(patches @ router, kept), active(patches @ neurons.T) @ outputs / count
    each = -y * v * (g * (s - g @ s))[:, None] * patches
    return each.sum(0) if part is None else each[kept][part]


def _caught(kept, signal, labels):
    return kept[:, np.arange(len(labels)), signal]


def _by_class(values, labels):
    return np.stack([values[..., labels == label].mean(-1) for label in np.unique(labels)], axis=-1)


def _same_expert(kept, signal, labels):
    shares = _by_class(_caught(kept, signal, labels), labels)
    return shares[shares.mean(1).argmax()]


WRONG = {
    "alignment": {
        "inner products": lambda w, o: w @ o.T,
        "patterns only": lambda w, o: w @ o.T / np.linalg.norm(o, axis=1),
        "routers only": lambda w, o: w @ o.T / np.linalg.norm(w, axis=1)[:, None],
        "transposed": lambda w, o: alignment(w, o).T,
        "lost the sign": lambda w, o: np.abs(alignment(w, o)),
        "squared lengths": lambda w, o: w @ o.T / np.outer((w**2).sum(1), (o**2).sum(1)),
        "whole matrix": lambda w, o: w @ o.T / np.linalg.norm(w) / np.linalg.norm(o),
        "lengths of columns": lambda w, o: w @ o.T / np.linalg.norm(w, axis=0)[:, None] / np.linalg.norm(o, axis=0),
        "wrong axis": lambda w, o: w @ o.T / np.linalg.norm(w, axis=0) / np.linalg.norm(o, axis=0),
    },
    "coverage": {
        "any expert": lambda kept, signal, labels: _by_class(_caught(kept, signal, labels).any(0), labels),
        "average over the experts": lambda *all: _by_class(_caught(*all), all[2]).mean(0),
        "every expert's share": lambda *all: _by_class(_caught(*all), all[2]),
        "divide by all samples": lambda kept, signal, labels: [
            (_caught(kept, signal, labels) & (labels == label)).mean(1).max() for label in (0, 1)
        ],
        "number of samples of the class": lambda kept, signal, labels: [
            (_caught(kept, signal, labels) & (labels == label)).sum(1).max() for label in (0, 1)
        ],
        "separate the classes": lambda *all: _caught(*all).mean(1).max(),
        "place of o only": lambda kept, signal, labels: [kept[:, labels == c].mean((1, 2)).max() for c in (0, 1)],
        "one expert for all": _same_expert,
        "add up the experts": lambda *all: _by_class(_caught(*all), all[2]).sum(0),
        "worst expert": lambda *all: _by_class(_caught(*all), all[2]).min(0),
        "first expert alone": lambda kept, signal, labels: coverage(kept[:1], signal, labels),
        "last expert alone": lambda kept, signal, labels: coverage(kept[-1:], signal, labels),
    },
    "router_gradient": {
        "sign is wrong": lambda *model: -_gradient(*model),
        "left out y": lambda x, w, n, a, count, y, v: _gradient(x, w, n, a, count, 1, v),
        "left out v": lambda x, w, n, a, count, y, v: _gradient(x, w, n, a, count, y, 1),
        "left out 1/l": lambda x, w, n, a, count, y, v: count * _gradient(x, w, n, a, count, y, v),
        "plain mean": _plain_mean,
        "gates of the other patches": lambda *model: _gradient(*model, inner=False),
        "softmax is over all patches": lambda *model: _gradient(*model, all_gates=True),
        "hold the gates fixed": lambda *model: _gradient(*model, fixed=True),
        "output weights": lambda x, w, n, a, count, y, v: _gradient(x, w, n, np.ones_like(a), count, y, v),
        "left out the ReLU": lambda *model: _pull_of(*model, active=lambda z: z),
        "mean over the patches": lambda *model: router_gradient(*model) / model[4],
        "first kept patch alone": lambda *model: _pull_of(*model, part=0),
        "last kept patch alone": lambda *model: _pull_of(*model, part=-1),
    },
}
