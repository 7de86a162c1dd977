"""What is told of samples that do not fit a layer."""

from __future__ import annotations

import pytest
import torch

from equigeo.affine import GroupConv, KernelSpec, WindowWarning
from equigeo.affine.samples.check_samples import check_group, check_window
from equigeo.groups import SL, SO, equidistant_rotations
from tests.affine.test_bad_input import sl2


def test_window_smaller_than_the_kernel_needs_is_told() -> None:
    layer = GroupConv(SL(2), 1, 1, KernelSpec(3, stretch_reach=0.9))
    samples = sl2(0.5)
    x = torch.rand(1, 1, len(samples), 5, 5)
    with pytest.warns(WindowWarning) as caught:
        layer(x, samples)
    warning = caught[0].message
    assert isinstance(warning, WindowWarning)
    assert warning.missing == pytest.approx(0.9)
    assert warning.inputs == pytest.approx(samples.radius)


def test_window_that_is_large_enough_is_silent() -> None:
    inputs, outputs = sl2(1.5), sl2(0.3)
    layer = GroupConv(SL(2), 1, 1, KernelSpec(3, stretch_reach=0.5))
    layer(torch.rand(1, 1, len(inputs), 5, 5), inputs, outputs)


def test_samples_of_another_group_are_named() -> None:
    check_group(sl2(1.0), SL(2))
    with pytest.raises(ValueError, match=r"samples must be of SO\(2\), got SL\(2\)"):
        check_group(sl2(1.0), SO(2))


def test_groups_without_stretches_have_no_window() -> None:
    rotations = equidistant_rotations(4)
    assert check_window(rotations, rotations, float("inf")) is None
    assert check_window(sl2(1.0), sl2(1.0), 0.0) is None
