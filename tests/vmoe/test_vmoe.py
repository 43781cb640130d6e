"""V-MoE and E3 against a plain transformer, plain loops and numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from moe_lab.core.config import ConfigError
from moe_lab_papers.pruning2024 import vmoe
from moe_lab_papers.pruning2024.vmoe import VMoE, VMoEConfig, released_config, routing
from moe_lab_papers.pruning2024.vmoe.mixture import Moe

SMALL = VMoEConfig(
    num_classes=4,
    patch_size=(2, 2),
    hidden_size=8,
    positions=5,
    num_layers=3,
    num_heads=2,
    mlp_dim=12,
    layers=(0, 2),
    num_experts=6,
    group_size=10,
    capacity_factor=0.8,
    capacity_multiple_of=1,
    bfloat16=False,
    split_rngs=True,
)
E3 = SMALL.replace(ensemble_size=2, group_size=20)


def model_of(config: VMoEConfig, seed: int = 0) -> VMoE:
    """A model in float64 whose head and biases are not 0."""
    model = VMoE(config, seed).double()
    generator = torch.Generator().manual_seed(seed + 1)
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn(parameter.shape, generator=generator)
    return model


def images_of(count: int, seed: int = 0) -> Tensor:
    return torch.randn(count, 4, 4, 3, generator=torch.Generator().manual_seed(seed)).double()


@torch.no_grad()
def logits(model: VMoE, images: Tensor) -> Tensor:
    return model(images)


# --- the whole model ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("classifier", ["token", "gap", "map", "0"])
def test_one_expert_with_room_for_all_is_a_plain_transformer(classifier: str) -> None:
    positions = 5 if classifier == "token" else 4
    one = SMALL.replace(num_experts=1, num_selected_experts=1, classifier=classifier, positions=positions)
    one = one.replace(capacity_factor=1.0, group_size=2 * positions, representation_size=7)
    mixture, plain = model_of(one), VMoE(one.replace(layers=())).double()
    weights = {name.replace(".Moe.Mlp.", ".Mlp."): value for name, value in mixture.state_dict().items()}
    experts = [name for name in weights if name not in mixture.state_dict()]
    weights |= {name: weights[name][0] for name in experts}
    plain.load_state_dict({name: value for name, value in weights.items() if "Router" not in name})
    assert len(experts) == 8
    assert torch.allclose(logits(mixture, images_of(4)), logits(plain, images_of(4)), rtol=0, atol=1e-12)


def test_parameters_of_the_released_sizes() -> None:
    with torch.device("meta"):
        whole, ensemble = VMoE("b16"), VMoE("e3-s32")
        kept = {count: dict.fromkeys(whole.config.layers, tuple(range(count))) for count in (4, 2)}
        silent = {count: vmoe.without_others(whole, kept[count], "silent") for count in kept}
        rerouted = vmoe.without_others(whole, kept[4], "rerouted")
    assert vmoe.costs(whole).parameters == 284_083_978
    assert {count: vmoe.costs(model).parameters for count, model in silent.items()} == {4: 170_745_610, 2: 114_076_426}
    assert vmoe.costs(rerouted).parameters == 170_745_610 - 6 * 768 * 4
    assert vmoe.costs(ensemble).parameters == 56_520_804
    gigas = [vmoe.costs(model).operations / 1e9 for model in (whole, silent[4], silent[2], rerouted)]
    assert gigas == pytest.approx([18.70, 13.15, 10.37, 18.69], abs=0.005)


@pytest.mark.parametrize(
    "config",
    [SMALL, E3, SMALL.replace(classifier="map", positions=4, group_size=8, representation_size=9)],
    ids=["v-moe", "e3", "map"],
)
def test_operations_are_those_that_torch_counts(config: VMoEConfig) -> None:
    kept = {config.layers[-1]: (0, 1, 3, 4)}
    with torch.device("meta"):
        for model in (VMoE(config), *(vmoe.without_others(VMoE(config), kept, mode) for mode in vmoe.MODES)):
            with FlopCounterMode(display=False) as counter:
                model(torch.empty(config.images_per_batch, 4, 4, 3))
            assert vmoe.operations(model) == pytest.approx(counter.get_total_flops() / config.images_per_batch)


def test_logits_depend_on_the_batch_within_a_group_alone() -> None:
    model, images = model_of(SMALL), images_of(4)
    alone = torch.cat([logits(model, images[:2]), logits(model, images[2:])])
    # groups of 2 images do not depend on each other
    assert torch.allclose(logits(model, images), alone, rtol=0, atol=1e-12)
    other = images.clone()
    other[0] = images_of(1, seed=5)[0]
    assert not torch.allclose(logits(model, other)[1], alone[1], atol=1e-3)  # image 1 shares the group of image 0
    roomy = VMoE(SMALL.replace(capacity_factor=3.0)).double()
    roomy.load_state_dict(model.state_dict())
    assert torch.allclose(logits(roomy, other)[1], logits(roomy, images)[1], rtol=0, atol=1e-12)  # nothing is dropped


def test_members_of_an_ensemble_are_models_of_their_own() -> None:
    """With room for all, member m of an E3 is the V-MoE of its experts."""
    config = E3.replace(capacity_factor=3.0)
    ensemble, images = model_of(config), images_of(4)
    found = logits(ensemble, images).view(4, 2, -1)
    for member in range(2):
        own = VMoE(config.replace(ensemble_size=None, num_experts=3, group_size=10)).double()
        weights = ensemble.state_dict()
        for name in weights:
            if ".Moe.Mlp." in name:
                weights[name] = weights[name][3 * member : 3 * member + 3]
            if "Router" in name:
                weights[name] = weights[name][:, member]
        own.load_state_dict(weights)
        assert torch.allclose(found[:, member], logits(own, images), rtol=0, atol=1e-12)


@pytest.mark.parametrize("config", [SMALL, E3, E3.replace(batch_priority=True)], ids=["v-moe", "e3", "priority"])
def test_the_mixture_is_what_plain_loops_compute(config: VMoEConfig) -> None:
    mixture = model_of(config).mixtures()[0]
    x = torch.randn(4, 5, 8, generator=torch.Generator().manual_seed(3)).double()
    with torch.no_grad():
        found = mixture(x)[0]
        assert torch.allclose(found, by_loops(mixture, x), atol=1e-12)


def by_loops(mixture: Moe, x: Tensor) -> Tensor:
    """A mixture, token by token. Images of an ensemble come as member 0, member 1, member 0, ..."""
    config, kernel = mixture.config, mixture.Router.dense.kernel
    members, own = config.members, config.num_experts // config.members
    count, tokens, _ = x.shape
    order = [(i * members + m, t) for i in range(count // members) for t in range(tokens) for m in range(members)]
    result = torch.zeros_like(x)
    capacity = math.ceil(config.group_size * config.num_selected_experts * config.capacity_factor / config.num_experts)
    for begin in range(0, len(order), config.group_size):
        group = order[begin : begin + config.group_size]
        gates = {}
        for image, token in group:
            member = image % members
            router = kernel[:, member] if members > 1 else kernel
            gate = torch.softmax(x[image, token] @ router, 0)
            gates[image, token] = [(float(gate[e]), member * own + e) for e in range(own)]
        ranked = {place: sorted(found, key=lambda pair: (-pair[0], pair[1])) for place, found in gates.items()}
        queue = sorted(group, key=lambda place: -ranked[place][0][0]) if config.batch_priority else group
        taken = [0] * config.num_experts
        for choice in range(config.num_selected_experts):
            for place in queue:
                gate, expert = ranked[place][choice]
                taken[expert] += 1
                if taken[expert] <= capacity:
                    first, second = mixture.Mlp.Dense_0, mixture.Mlp.Dense_1
                    h = x[place] @ first.kernel[expert] + first.bias[expert]
                    h = 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
                    result[place] += gate * (h @ second.kernel[expert] + second.bias[expert])
    return result


def test_experts_may_change_places() -> None:
    model, images = model_of(SMALL), images_of(4)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    weights = model.state_dict()
    for name, value in weights.items():
        if ".Moe.Mlp." in name:
            weights[name] = value[order]
        if "Router" in name:
            weights[name] = value[:, order]
    other = VMoE(SMALL).double()
    other.load_state_dict(weights)
    assert torch.allclose(logits(other, images), logits(model, images), rtol=0, atol=1e-12)


# --- routing --------------------------------------------------------------------------------------------------------


def test_capacity_by_hand() -> None:
    assert routing.capacity_of(1040, 8, 1.5) == 196  # 195 rounded up to a multiple of 4
    assert routing.capacity_of(1040, 8, 1.5, multiple_of=None) == 195
    assert routing.capacity_of(10, 4, 1.0, multiple_of=None) == 3  # ceil(2.5)
    assert routing.capacity_of(10, 4, 1.0, "round", None) == 2  # Python rounds 2.5 to the even number
    with pytest.raises(ValueError, match="capacity must be at least 1: got tokens=1, experts=8"):
        routing.capacity_of(1, 8, 1.0, "round")


def test_places_overflow_and_priority_by_hand() -> None:
    """Four tokens, two choices of three experts, two places: first choices come first, then the order of tokens."""
    gates = torch.tensor([[[0.5, 0.4, 0.1], [0.6, 0.3, 0.1], [0.7, 0.1, 0.2], [0.1, 0.45, 0.45]]])
    found = routing.assign(gates, 2, 2)
    assert found.experts[0].tolist() == [[0, 1], [0, 1], [0, 2], [1, 2]]  # a tie goes to the lower number
    assert found.places[0].tolist() == [[0, 1], [1, 2], [2, 0], [0, 1]]
    assert found.served[0].tolist() == [[True, True], [True, False], [False, True], [True, True]]
    first = routing.assign(gates, 2, 2, batch_priority=True)  # tokens in the order 2, 1, 0, 3
    assert first.places[0].tolist() == [[2, 2], [1, 1], [0, 0], [0, 1]]
    assert first.gates[0].tolist() == found.gates[0].tolist()


def test_balancing_losses_by_hand() -> None:
    gates = torch.tensor([[0.75, 0.25], [0.75, 0.25]], dtype=torch.float64)
    assert float(routing.importance_loss(gates)) == pytest.approx((0.5 / 1) ** 2)  # sums 1.5 and .5: mean 1, std .5
    values = torch.tensor([[2.0, 0.0]], dtype=torch.float64)
    half, above = 0.5, 0.5 * math.erfc(2 / math.sqrt(2))  # chances that N(0, 1) exceeds 0, and 2
    expected = (np.std([half, above]) / np.mean([half, above])) ** 2
    assert float(routing.load_loss(values, values, 1.0, 1)) == pytest.approx(expected)


def test_noise_is_for_training_alone() -> None:
    model, images = model_of(SMALL), images_of(4)
    assert torch.equal(model.run(images).logits, model(images))
    noisy = [model.run(images, model.noise(4, torch.Generator().manual_seed(seed))) for seed in (0, 0, 1)]
    assert torch.equal(noisy[0].logits, noisy[1].logits) and not torch.equal(noisy[0].logits, noisy[2].logits)
    noisy[0].loss.backward()
    assert float(model.mixtures()[0].Router.dense.kernel.grad.abs().sum()) > 0


# --- refusals -------------------------------------------------------------------------------------------------------

LAYOUT = {
    "name": "VisionTransformerMoe",
    "num_classes": 4,
    "patch_size": [2, 2],
    "hidden_size": 8,
    "image_size": 4,
    "encoder": {
        "num_layers": 2,
        "num_heads": 2,
        "mlp_dim": 12,
        "moe": {
            "num_experts": 4,
            "group_size": 10,
            "layers": [1],
            "router": {"num_selected_experts": 2, "dispatcher": {"name": "einsum", "capacity_factor": 1.0}},
        },
    },
}


def test_a_config_in_the_released_layout() -> None:
    config = released_config(LAYOUT)
    assert (config.positions, config.layers, config.num_selected_experts, config.bfloat16) == (5, (1,), 2, False)
    assert config.importance_loss_weight == 1.0  # what the reference takes where a config says nothing
    with pytest.raises(ConfigError, match="needs the image_size"):
        released_config({key: value for key, value in LAYOUT.items() if key != "image_size"})
    with pytest.raises(ConfigError, match="ensemble_size belongs to a VisionTransformerMoeEnsemble"):
        released_config(LAYOUT | {"name": "VisionTransformerMoeEnsemble"})
    with pytest.raises(
        ConfigError, match=r"encoder.dtype is supported at None or 'float32' only: got value='bfloat16'"
    ):
        released_config(LAYOUT | {"encoder": LAYOUT["encoder"] | {"dtype": "bfloat16"}})
    with pytest.raises(ValueError, match="must be one of b16, e3-s32"):
        VMoE("h14")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"num_heads": 3}, "hidden_size .* multiple of num_heads"),
        ({"layers": (0, 3)}, "layers must be different blocks"),
        ({"ensemble_size": 4}, "multiples of ensemble_size"),
        ({"num_selected_experts": 7}, "at most the experts of a member"),
        ({"capacity": 3}, "either capacity_factor or capacity"),
        ({"kept": ((0, 1),)}, "list the experts of each of the layers"),
        ({"kept": ((0,), (0, 1))}, "keep at least K experts"),
        ({"kept": ((1, 0), (0, 1))}, "ascending numbers"),
    ],
)
def test_configs_that_do_not_fit_are_refused(changes: dict, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        SMALL.replace(**changes)


def test_images_that_do_not_fit_are_refused() -> None:
    model = model_of(SMALL)
    with pytest.raises(ValueError, match=r"fill whole groups.*got images=3, tokens=15, S=10"):
        model(images_of(3))
    with pytest.raises(ValueError, match=r"size of the model's position embedding: got shape=\(2, 6, 4, 3\), T=5"):
        model(torch.zeros(2, 6, 4, 3).double())
    with pytest.raises(ValueError, match=r"channels of the model: got shape=\(2, 4, 4, 1\)"):
        model(torch.zeros(2, 4, 4, 1))
