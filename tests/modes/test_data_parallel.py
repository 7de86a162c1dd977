"""Every layer with parameters under ``DistributedDataParallel``, in two processes."""

import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.testing import assert_close

from tests.modes.derivatives import SAME, like
from tests.modes.row import Row
from tests.modes.table import ROWS
from tests.potentials.systems import MOLECULE, batch_of, potential

RANKS = 2
PATIENCE = timedelta(seconds=300)
Step = Callable[[nn.Module, int], None]


def layer_step(row: Row) -> Step:
    """Return a backward pass for the inputs of one process."""

    def step(model: nn.Module, rank: int) -> None:
        inputs = row.inputs()
        moved = [x + 0.05 * rank * d for x, d in zip(inputs, like(inputs, 3), strict=True)]
        results = model(*moved)
        targets = like(results, seed=2)
        sum((r * t).sum() for r, t in zip(results, targets, strict=True)).backward()

    return step


def potential_step(model: nn.Module, rank: int) -> None:
    """Differentiate what a layer returns as a structure, whose tensors PyTorch must find."""
    numbers, positions, cell, pbc = MOLECULE
    out = model(batch_of((numbers, positions + 0.05 * rank * positions.sin(), cell, pbc)))
    (out.energy.sum() + out.forces.square().sum()).backward()


def gradients(make: Callable[[], nn.Module], step: Step, rank: int, **options: Any) -> list[Tensor]:
    """Return the gradients of all parameters, in parallel if there are options."""
    model = make()
    step(DistributedDataParallel(model, **options) if options else model, rank)
    return [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]


def work(rank: int, folder: Path) -> None:
    """Compare gradients with the mean of those that both processes have alone."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    meet = {"init_method": f"file://{folder}/meet", "timeout": PATIENCE}
    dist.init_process_group("gloo", rank=rank, world_size=RANKS, **meet)
    # Weights of some layers take no part in some problems.
    unused = {"find_unused_parameters": True}
    cases = [(row.name, row.bound, layer_step(row), unused) for row in layers()]
    for options in (unused, {"static_graph": True}):
        cases.append(
            (f"potential, {options}", lambda: potential().train(), potential_step, options)
        )
    for name, make, step, options in cases:
        alone = [gradients(make, step, other) for other in range(RANKS)]
        found = gradients(make, step, rank, **options)
        want = [(a + b) / RANKS for a, b in zip(*alone, strict=True)]
        assert_close(found, want, **SAME, msg=f"{name}: {{}}".format)
        dist.barrier()
    dist.destroy_process_group()


def layers() -> list[Row]:
    """Return rows with something to train."""
    return [row for row in ROWS if any(True for _ in row.bound().parameters())]


@pytest.mark.full  # the training loop averages over two processes in the fast tier
@pytest.mark.skipif(
    not dist.is_available() or not dist.is_gloo_available(),
    reason="this PyTorch was built without gloo",
)
def test_gradients_are_averages_over_two_processes(tmp_path):
    assert len(layers()) > 20
    torch.multiprocessing.spawn(work, (tmp_path,), RANKS)
