from __future__ import annotations

import pytest
import torch
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

from equigeo.ops import kernels_info
from equigeo.ops.runtime.torch_internals import (
    below_autograd,
    forward_mode_active,
    has_kernel,
    transforms_active,
    values_readable,
)


def test_calls_below_autograd_are_not_recorded():
    x = torch.ones(2, requires_grad=True)
    with below_autograd():
        assert not (2 * x).requires_grad
    assert (2 * x).requires_grad


@pytest.mark.parametrize("transform", [torch.func.vmap, torch.func.jacrev])
def test_transforms_are_active_inside_of_them_alone(transform):
    seen = []

    def function(x: torch.Tensor) -> torch.Tensor:
        seen.append(transforms_active())
        return 2 * x

    transform(function)(torch.ones(2))
    assert seen == [True]
    assert not transforms_active()


def test_forward_mode_is_active_inside_of_a_level_alone():
    assert not forward_mode_active()
    with forward_ad.dual_level():
        assert forward_mode_active()
    assert not forward_mode_active()


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch's own
def test_forward_mode_is_active_under_its_transform():
    seen = []

    def function(x: torch.Tensor) -> torch.Tensor:
        seen.append(forward_mode_active())
        return 2 * x

    torch.func.jvp(function, (torch.ones(2),), (torch.ones(2),))
    assert seen == [True]


def test_a_reference_is_no_kernel():
    assert has_kernel("gather_sum", "CPU") == (kernels_info()["cpu"] is not None)
    assert not has_kernel("principal_axes_nd", "CPU")  # written for no device
    assert not has_kernel("gather_sum", "PrivateUse1")


def test_values_can_be_read_but_in_batches_programs_and_on_meta():
    x, seen = torch.ones(2, 3), []

    def function(x: torch.Tensor) -> torch.Tensor:
        seen.append(values_readable(x))
        return x.square().sum()

    function(x)
    torch.func.grad(function)(x)
    torch.func.vmap(function)(x)
    torch.func.vmap(torch.func.grad(function))(x)
    make_fx(function)(x)
    function(x.to("meta"))
    assert seen == [True, True, False, False, False, False]
