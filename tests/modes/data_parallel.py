"""Every layer with parameters under ``DistributedDataParallel``, in two processes.

``python -m tests.modes.data_parallel RANK PORT FILE`` is one of them; the file gets what failed.
"""

import json
import sys
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.testing import assert_close

from tests.modes.derivatives import SAME, like
from tests.modes.row import Bound, Row
from tests.modes.table import ROWS
from tests.potentials.systems import MOLECULE, batch_of, potential

RANKS = 2


def layers() -> list[Row]:
    """Rows with something to train."""
    return [row for row in ROWS if any(True for _ in row.bound().parameters())]


def check(row: Row, rank: int) -> None:
    """Gradients are the mean of those that both processes have alone."""
    alone = [gradients(row.bound(), row, other) for other in range(RANKS)]
    bound = row.bound()
    # Weights of some layers take no part in some problems.
    parallel = nn.parallel.DistributedDataParallel(bound, find_unused_parameters=True)
    found = gradients(parallel, row, rank)
    assert_close(found, [(a + b) / RANKS for a, b in zip(*alone, strict=True)], **SAME)


def gradients(model: nn.Module, row: Row, rank: int) -> list[Tensor]:
    """Gradients of all parameters for the inputs of one process."""
    inputs = row.inputs()
    moved = [x + 0.05 * rank * d for x, d in zip(inputs, like(inputs, 3), strict=True)]
    results = model(*moved)
    targets = like(results, seed=2)
    total = sum((r * t).sum() for r, t in zip(results, targets, strict=True))
    assert isinstance(total, Tensor)
    total.backward()
    inner = model.module if isinstance(model, nn.parallel.DistributedDataParallel) else model
    assert isinstance(inner, Bound)
    return [torch.zeros_like(p) if p.grad is None else p.grad for p in inner.parameters()]


def check_structure(static: bool, rank: int) -> None:
    """Gradients of what a layer returns as a structure, whose tensors PyTorch must find."""

    def found(model: nn.Module, rank: int) -> list[Tensor]:
        numbers, positions, cell, pbc = MOLECULE
        out = model(batch_of((numbers, positions + 0.05 * rank * positions.sin(), cell, pbc)))
        (out.energy.sum() + out.forces.square().sum()).backward()
        return [p.grad for p in model.parameters() if p.grad is not None]

    alone = [found(potential().train(), other) for other in range(RANKS)]
    settings = {"static_graph": True} if static else {"find_unused_parameters": True}
    parallel = nn.parallel.DistributedDataParallel(potential().train(), **settings)
    got = found(parallel, rank)
    assert_close(got, [(a + b) / RANKS for a, b in zip(*alone, strict=True)], **SAME)


def main(rank: int, port: str, output: Path) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=RANKS)
    failures = {}
    for row in layers():
        try:
            check(row, rank)
        except Exception as error:
            failures[row.name] = f"{type(error).__name__}: {error}"
        dist.barrier()
    for static in (False, True):
        try:
            check_structure(static, rank)
        except Exception as error:
            failures[f"potential, static: {static}"] = f"{type(error).__name__}: {error}"
        dist.barrier()
    dist.destroy_process_group()
    output.write_text(json.dumps(failures))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
