"""Layers of fairchem-core without the rest of it: ``make test-fairchem``."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

LAYERS = "fairchem.core.models.uma"
MODULES = [
    *(f"nn.{name}" for name in ("so2_layers", "so3_layers", "activation", "layer_norm", "radial")),
    *(f"nn.{name}" for name in ("embedding", "mole", "execution_backends")),
    "common.so3",
    "common.rotation",
    "common.quaternion.wigner_d_hybrid",
    "common.quaternion.quaternion_wigner_utils",
]
REASON = "needs the layers of fairchem-core: make test-fairchem"


def installed() -> Path | None:
    """Folder of ``fairchem`` on the path, found without importing it."""
    folders = (Path(entry) / "fairchem" for entry in sys.path)
    return next((f for f in folders if (f / "core/models/uma/nn/so2_layers.py").exists()), None)


def fairchem() -> SimpleNamespace:
    """Modules of layers, by name; skips where they are not installed."""
    folder = installed()
    if folder is None:
        pytest.skip(REASON, allow_module_level=True)
    for name, path in (("fairchem", folder), ("fairchem.core", folder / "core")):
        if name not in sys.modules:
            stand_in: Any = ModuleType(name)
            stand_in.__path__ = [str(path)]
            sys.modules[name] = stand_in
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what PyTorch has deprecated since
        return SimpleNamespace(**{
            name.rpartition(".")[2]: import_module(f"{LAYERS}.{name}") for name in MODULES
        })  # fmt: skip


class Frames:
    """Rotations of edges as fairchem makes them, by quaternions, reduced to orders."""

    def __init__(self, library: SimpleNamespace, vectors: Tensor, lmax: int, mmax: int) -> None:
        w = library.quaternion_wigner_utils.create_wigner_data_module(lmax=lmax, lmin=5)
        d, _ = library.wigner_d_hybrid.axis_angle_wigner_hybrid(
            vectors,
            lmax,
            gamma=torch.zeros(len(vectors), dtype=vectors.dtype),
            coeffs=w.coeffs,
            U_blocks=w.U_blocks,
            custom_kernels=w.custom_kernels,
        )
        full = library.so3.CoefficientMapping(lmax, lmax)
        self.mapping = library.so3.CoefficientMapping(lmax, mmax)
        self.reduced = d[:, full.coefficient_idx(lmax, mmax)]
        self.to_orders = torch.einsum("ij,ejk->eik", self.mapping.to_m.to(d), self.reduced)


@contextmanager
def seeded(seed: int = 0) -> Iterator[None]:
    """Draw parameters without touching the global generator afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
