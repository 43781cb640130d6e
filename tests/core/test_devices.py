"""Where runs compute: one rule for "auto", and a GPU that torch cannot use is found out before anything runs there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from moe_lab import patch_routing
from moe_lab.core import devices, trials
from moe_lab.core.config import RunConfig
from moe_lab.core.devices import WORTH_A_GPU, choose, device_label, device_names, label_of, no_gpu
from moe_lab.core.trials import device_and_dtype, device_labels
from moe_lab.patch_routing import JointMoE, PatternTask, SeparateMoE
from moe_lab.patch_routing.batch import device_and_dtype_of
from moe_lab.patch_routing.grid_points import device_of
from moe_lab.patch_routing.run import PatchRun
from moe_lab.pruning import TokenMoE, TokenRun, TokenTask
from moe_lab.recovery import MixtureTask, gridlock
from moe_lab.recovery.landscape.run import PAPER_TASK, L4Loss, LossRun
from moe_lab.specialization import ClusterRun, ClusterTask, SwitchMoE
from moe_lab.vision import PatchWRN, QuadrantTask
from moe_lab.vision.patches import PatchImageRun

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
NO_KERNELS = "CUDA error: no kernel image is available for execution on the device"


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    devices._launch.cache_clear()
    devices.warn_once.cache_clear()
    yield
    devices._launch.cache_clear()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU that torch can use, as far as anybody asks before a run."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device=None: "NVIDIA H100")
    monkeypatch.setattr(devices, "refusal", lambda device: "")


@pytest.fixture
def useless_gpu(gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU that this torch has no kernels for."""

    def ones(*size: int, device: torch.device) -> torch.Tensor:
        raise RuntimeError(f"{NO_KERNELS}\nCUDA kernel errors might be reported later")

    monkeypatch.undo()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch, "ones", ones)


@pytest.mark.usefixtures("gpu")
def test_auto_is_the_gpu_where_a_step_touches_enough_numbers() -> None:
    assert [choose("auto", numbers) for numbers in (0, WORTH_A_GPU - 1, WORTH_A_GPU)] == [CPU, CPU, CUDA]
    assert choose() == CUDA and label_of("auto") == "cuda (NVIDIA H100) for large steps, else cpu"
    assert choose("cpu", 1e12) == CPU and choose("cuda", 1) == CUDA and choose("cuda:0") == torch.device("cuda:0")
    assert device_names() == ("cpu", "cuda") and device_label(CUDA) == label_of("cuda") == "cuda (NVIDIA H100)"


@pytest.mark.usefixtures("gpu")
def test_a_gpu_by_its_number() -> None:
    run = PatchRun(model=JointMoE(), task=PatternTask(), device="cuda:1")
    assert device_and_dtype(run)[0] == torch.device("cuda:1") and device_labels([run]) == "cuda:1 (NVIDIA H100)"
    with pytest.raises(RuntimeError, match=r"^device 'cuda:2' is not present on this machine; 'auto' chooses one"):
        choose("cuda:2")


def test_without_a_gpu_auto_is_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose() == choose("auto", 1e12) == CPU and device_names() == ("cpu",) and label_of("auto") == "cpu"
    for there, words in ((False, "no GPU that torch can use"), (True, "(MPS) is not offered")):
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda there=there: there)
        assert words in no_gpu() and choose("auto", 1e12) == CPU, "an Apple GPU must be named"
    for name in ("cuda", "cuda:0"):
        with pytest.raises(RuntimeError, match=f"^device '{name}' is not present on this machine; 'auto' chooses one"):
            choose(name)


@pytest.mark.usefixtures("useless_gpu")
def test_a_gpu_that_torch_cannot_use_is_found_out_by_a_launch() -> None:
    with pytest.warns(UserWarning, match="^torch cannot use this machine's GPU .*, so that 'auto' is the CPU$") as told:
        assert choose("auto", 1e12) == choose("auto", 1e12) == choose() == CPU and device_names() == ("cpu",)
    assert len(told) == 1 and choose("auto", 1) == CPU
    assert no_gpu() == f"torch cannot use this machine's GPU ({NO_KERNELS})"
    with pytest.raises(RuntimeError, match=f"^device 'cuda' must run torch's kernels, .*: got '{NO_KERNELS}'$"):
        choose("cuda")
    with pytest.raises(RuntimeError, match=r"^device 'cuda' must run torch's kernels"):
        patch_routing.train(JointMoE(), PatternTask(), device="cuda")


@pytest.mark.parametrize(
    "error, words",
    [(RuntimeError("out of memory\non line 2"), "out of memory"), (AssertionError(), "AssertionError")],
)
def test_any_error_of_the_launch_is_a_refusal_and_it_is_tried_again(
    error: Exception, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU whose memory is full may have some later."""
    device, errors, zeros = torch.device("meta"), [error], torch.zeros

    def ones(size: int, device: torch.device) -> torch.Tensor:
        if errors:
            raise errors.pop()
        return zeros(size)

    monkeypatch.setattr(torch, "ones", ones)
    assert [devices.refusal(device) for _ in range(3)] == [words, "", ""]


@pytest.mark.parametrize("name", ["gpu", "tpu", "", "meta", "cuda:x", "cpu:-1", "CPU "])
def test_an_unknown_device(name: str) -> None:
    with pytest.raises(ValueError, match=r"^device must be 'auto', 'cpu', 'cuda', 'cuda:N' or 'mps': got device="):
        choose(name)


RUNS: dict[str, RunConfig] = {
    "patches": PatchRun(model=JointMoE(), task=PatternTask()),
    "clusters": ClusterRun(model=SwitchMoE(), task=ClusterTask()),
    "tokens": TokenRun(model=TokenMoE(), task=TokenTask()),
    "mixture": gridlock.MixtureRun(model=gridlock.JointEM(), task=MixtureTask()),
    "descent": LossRun(model=L4Loss(), task=PAPER_TASK, device="auto"),
}


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("name", RUNS)
def test_every_room_stays_on_the_cpu_by_default_and_leaves_it_for_a_thousand_trials(name: str) -> None:
    """Trials step together: the numbers of a step grow with them, and with what a step reads."""
    run = RUNS[name]
    assert device_and_dtype(run)[0] == CPU and 1e4 < run.numbers_per_step < WORTH_A_GPU
    many = run.replace(trials=1000)
    assert device_and_dtype(many)[0] == CUDA and many.numbers_per_step > 0.3 * 1000 / run.trials * run.numbers_per_step
    assert (
        device_and_dtype(many.replace(device="cpu"))[0] == CPU
        and device_and_dtype(run.replace(device="cuda"))[0] == CUDA
    )
    assert device_labels([run, many]) == "cpu and cuda (NVIDIA H100)" and device_labels([run]) == "cpu"


@pytest.mark.usefixtures("gpu")
def test_trials_of_images_step_one_after_another() -> None:
    run = PatchImageRun(model=PatchWRN(trunk="plain"), task=QuadrantTask())
    assert run.numbers_per_step == run.replace(trials=100).numbers_per_step > run.replace(samples=20).numbers_per_step
    wide = run.replace(model=PatchWRN(trunk="plain", width=8))
    assert wide.numbers_per_step > 5 * run.numbers_per_step


@pytest.mark.usefixtures("gpu")
def test_the_rows_of_a_batch_and_of_a_grid_are_counted_together() -> None:
    runs = [
        PatchRun(model=SeparateMoE(patches_per_expert=kept), task=PatternTask(), trials=20) for kept in (1, 2, 4, 8)
    ]
    assert device_and_dtype(runs[0])[0] == device_and_dtype_of(runs)[0] == device_of(runs) == CPU
    grid = [run.replace(trials=100) for run in runs] * 10
    assert device_and_dtype_of(grid)[0] == device_of(grid) == CUDA and device_of([]) == CPU


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_the_launch_on_a_real_gpu() -> None:
    assert devices.refusal(CUDA) == "" and choose() == CUDA == trials.choose("cuda")
