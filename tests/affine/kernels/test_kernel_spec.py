"""What kernels are made of: names, numbers, grids."""

from __future__ import annotations

import pytest
import torch

from equigeo.affine import KernelSpec, kernel_grid


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="network must be"):
        KernelSpec(network="mlp")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="window must be"):
        KernelSpec(window="box")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="extent must be positive"):
        KernelSpec(extent=0.0)


def test_cells_of_the_grid_fill_the_cube() -> None:
    spec = KernelSpec(7, extent=1.4)
    assert torch.equal(spec.grid(3), kernel_grid(7, 3, 1.4))
    assert len(spec.grid(3)) * spec.pixel_volume(3) == pytest.approx(2.8**3)


def test_only_compact_windows_end() -> None:
    assert KernelSpec(stretch_reach=0.4).reach == 0.4
    assert KernelSpec(window="disc").reach == float("inf")
