"""The published tables say what the paper says, in places chosen from every row and column."""

from __future__ import annotations

import numpy as np
import pytest

from moe_lab.routers.balance import dispatch_entropy
from moe_lab.specialization import figures
from moe_lab.specialization.published import ERRATA, PLACES, published
from moe_lab.specialization.recipes import model_of


class TestTables1And3:
    @pytest.mark.parametrize(
        ("setting", "model", "accuracy", "spread", "entropy", "entropy_spread"),
        [
            (1, "moe-cubic", 99.46, 0.55, 0.098, 0.087),
            (1, "moe-linear", 92.99, 2.11, 1.300, 0.044),
            (2, "moe-cubic", 98.09, 1.27, 0.171, 0.103),
            (2, "moe-linear", 88.48, 1.96, 1.294, 0.036),
            (3, "moe-cubic", 99.99, 0.02, 0.008, 0.011),
            (3, "moe-linear", 95.93, 1.34, 1.160, 0.100),
            (4, "moe-cubic", 98.92, 1.18, 0.089, 0.120),
            (4, "moe-linear", 93.30, 1.48, 1.160, 0.155),
        ],
    )
    def test_mixtures(self, setting, model, accuracy, spread, entropy, entropy_spread):
        here = published("table 3").sel(setting=setting, model=model)
        assert 100 * float(here.test_accuracy) == pytest.approx(accuracy)
        assert 100 * float(here.test_accuracy_std) == pytest.approx(spread)
        assert float(here.dispatch_entropy) == entropy
        assert float(here.dispatch_entropy_std) == entropy_spread

    @pytest.mark.parametrize(
        ("model", "accuracies"),
        [
            ("single-linear", [68.71, 60.59, 74.81, 74.63]),
            ("single-linear-512", [67.63, 63.04, 74.54, 72.98]),
            ("single-cubic", [79.48, 72.29, 72.69, 68.60]),
            ("single-cubic-512", [78.18, 52.09, 67.78, 61.65]),
        ],
    )
    def test_single_experts(self, model, accuracies):
        here = published("table 3").sel(model=model)
        np.testing.assert_allclose(100 * here.test_accuracy, accuracies)
        for name in ("test_accuracy_std", "dispatch_entropy", "dispatch_entropy_std"):
            assert here[name].isnull().all()

    def test_table_1_is_the_part_with_128_filters(self):
        one, three = published("table 1"), published("table 3")
        assert one.setting.values.tolist() == [1, 2]
        assert one.model.values.tolist() == ["moe-cubic", "moe-linear", "single-cubic", "single-linear"]
        assert one.test_accuracy.equals(three.test_accuracy.sel(setting=[1, 2], model=one.model))

    def test_models_are_those_that_the_figures_train(self):
        for name in published("table 3").model.values:
            assert model_of(str(name), "paper")
        assert set(figures.ALL) <= set(published("table 3").model.values)


class TestOtherTables:
    def test_table_7(self):
        whole = published("table 7")
        assert whole.setting.values.tolist() == [3]
        here = whole.sel(setting=3)
        found = {str(name): round(100 * float(here.test_accuracy.sel(model=name)), 2) for name in here.model.values}
        expected = {"linear": 74.81, "cubic": 72.69, "relu": 73.45, "celu": 76.91, "gelu": 74.01, "tanh": 74.76}
        assert found == {f"single-{name}": value for name, value in expected.items()}
        assert "its linear expert is table 3's" in whole.attrs["errata"]

    def test_table_7_shares_two_numbers_with_table_3_as_the_erratum_says(self):
        for name in ("single-linear", "single-cubic"):
            seven, three = (
                published(place).test_accuracy.sel(setting=3, model=name) for place in ("table 7", "table 3")
            )
            assert float(seven) == float(three)

    def test_table_8(self):
        here = published("table 8").test_accuracy.transpose("setting", "model")
        np.testing.assert_allclose(100 * here.sel(setting=1), [68.71, 79.48, 72.28, 81.75, 79.04, 81.72])
        np.testing.assert_allclose(100 * here.sel(setting=2), [60.59, 72.29, 80.12, 78.99, 82.01, 81.03])
        assert here.model.values.tolist()[:3] == ["single-linear", "single-cubic", "single-relu"]

    def test_table_9(self):
        here = published("table 9")
        linear, cubic = here.sel(model="moe-linear"), here.sel(model="moe-cubic")
        np.testing.assert_allclose(100 * linear.test_accuracy, [93.81, 89.20, 95.12, 92.50])
        np.testing.assert_allclose(100 * linear.test_accuracy_std, [1.02, 2.20, 0.58, 1.55])
        three = published("table 3").sel(model="moe-cubic")
        np.testing.assert_array_equal(cubic.test_accuracy, three.test_accuracy)
        np.testing.assert_array_equal(cubic.test_accuracy_std, three.test_accuracy_std)

    @pytest.mark.parametrize(
        ("place", "accuracy", "loads"),
        [
            ("table 4", 1.0, [0, 3979, 4009, 0, 0, 3971, 0, 4041]),
            ("table 5", 0.9995, [3987, 4, 3975, 6, 0, 1308, 4009, 2711]),
            ("table 6", 0.9061, [136, 2708, 6969, 5311, 27, 87, 4, 758]),
        ],
    )
    def test_dispatch_adds_up_to_the_rows_above_it(self, place, accuracy, loads):
        here = published(place)
        assert float(here.test_accuracy) == accuracy
        assert here.final_dispatch.dims == ("cluster", "expert")
        assert here.final_dispatch.sum("cluster").values.tolist() == loads
        assert int(here.initial_dispatch.sum()) == int(here.final_dispatch.sum()) == 16000

    def test_dispatch_entropies_are_0_and_high(self):
        import torch

        entropy = [
            float(dispatch_entropy(torch.as_tensor(published(place).final_dispatch.values, dtype=torch.float64)))
            for place in ("table 4", "table 5", "table 6")
        ]
        assert abs(entropy[0]) < 1e-12
        assert entropy[1] < 0.02
        assert entropy[2] > 1.2


class TestAll:
    @pytest.mark.parametrize("place", PLACES)
    def test_says_where_it_stands(self, place):
        assert published(place).attrs["paper"] == f"chen2022, {place}"
        assert published(place) is not published(place)  # a caller may change it

    def test_accuracies_are_shares(self):
        for place in PLACES:
            accuracy = published(place).test_accuracy
            assert ((accuracy > 0.5) & (accuracy <= 1)).all()

    def test_every_erratum_is_a_sentence(self):
        assert set(ERRATA) >= {"table 7", "table 8", "single models", "initial scale"}
        assert all(len(words.split()) > 3 for words in ERRATA.values())
