from dataclasses import dataclass

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves

from equigeo._core.tensors import (
    arrives_at,
    autocasts,
    below_autograd,
    check_in_program,
    computes_in_float32,
    disable_compiler,
    forward_mode_active,
    has_kernel,
    parameters_replaced,
    plain_tensors,
    record_program,
    recorder,
    register_structure,
    transforms_active,
    values_readable,
    without_autocast,
    without_transforms,
)
from equigeo.ops import kernels_info
from tests.wrong_inputs import refused


def test_calls_below_autograd_are_not_recorded():
    x = torch.ones(2, requires_grad=True)
    with below_autograd():
        assert not (2 * x).requires_grad
    assert (2 * x).requires_grad


def test_programs_hold_gradients_and_checks_for_any_size():
    weight = torch.tensor([2.0, 3.0], requires_grad=True)

    def slope(x: torch.Tensor) -> torch.Tensor:
        check_in_program((x > 0).all(), "x must be positive")
        x = x.detach().requires_grad_(True)
        (found,) = torch.autograd.grad((x.square() @ weight).sum() / x.shape[0], x)
        return found

    program = record_program(slope, (torch.ones(5, 2),))
    assert torch.equal(program(torch.ones(7, 2)), slope(torch.ones(7, 2)))
    refused("x must be positive", program, torch.zeros(7, 2), error=RuntimeError)


def test_compiler_skips_disabled_functions():
    @torch.compile(backend="eager")
    def call(function, x):
        return function(x)

    def is_compiled(x):
        return x + torch.compiler.is_compiling()

    x = torch.zeros(())
    assert call(is_compiled, x) == 1
    assert call(disable_compiler(is_compiled), x) == 0


def test_parameters_are_replaced_for_a_while_and_get_their_gradients():
    layer, calls = torch.nn.Linear(2, 1, bias=False).bfloat16(), []
    layer.register_forward_hook(lambda *_: calls.append(1))
    with parameters_replaced(layer, {"weight": layer.weight.float()}):
        layer.forward(torch.ones(1, 2)).sum().backward()
    assert not calls
    assert layer.weight.dtype == torch.bfloat16
    assert layer.weight.grad.tolist() == [[1.0, 1.0]]


def test_tensors_of_a_registered_structure_are_found():
    @dataclass
    class Pair:
        first: torch.Tensor
        second: torch.Tensor | None = None

    pair = Pair(torch.ones(2))
    assert tree_leaves(pair) == [pair]
    register_structure(Pair, "tests.Pair", {})
    assert tree_leaves(pair)[0] is pair.first


@pytest.mark.parametrize("transform", [torch.func.vmap, torch.func.jacrev])
def test_transforms_are_active_inside_of_them_alone(transform):
    seen = []

    def function(x: torch.Tensor) -> torch.Tensor:
        seen.append(transforms_active())
        return 2 * x

    transform(function)(torch.ones(2))
    assert seen == [True]
    assert not transforms_active()


def test_forward_mode_is_active_inside_of_levels_and_transforms_alone():
    seen = []

    def function(x: torch.Tensor) -> torch.Tensor:
        seen.append(forward_mode_active())
        return 2 * x

    torch.func.jvp(function, (torch.ones(2),), (torch.ones(2),))
    function(torch.ones(2))
    with forward_ad.dual_level():
        function(torch.ones(2))
    function(torch.ones(2))
    assert seen == [True, False, True, False]


def test_a_pass_arrives_at_what_it_differentiates_by():
    seen = []

    class Watched(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            return sum(inputs)

        @staticmethod
        def backward(ctx, grad):
            seen.append([arrives_at(node) for node, _ in ctx.next_functions])
            return grad, grad

    x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)

    def value(*inputs):
        return Watched.apply(*inputs).sum()

    torch.autograd.grad(value(x, y), y)
    torch.autograd.grad(value(2 * x, 2 * y), x)
    torch.autograd.grad(value(x, 2 * y), [x, y])
    value(x, 2 * y).backward()
    value(x, 2 * y).backward(inputs=[y])
    assert seen == [[False, True], [True, False], [True, True], [True, True], [False, True]]
    assert arrives_at(value(x, y).grad_fn)  # no pass runs


def test_a_call_is_recorded_as_apply_does_it():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return factor * x

        @staticmethod
        def backward(ctx, grad):
            return ctx.factor * grad, None

    x = torch.ones(2, requires_grad=True)
    found, want = recorder(Double)(x, 3.0), Double.apply(x, 3.0)
    assert type(found.grad_fn) is type(want.grad_fn)
    assert torch.equal(torch.autograd.grad(found.sum(), x)[0], torch.full((2,), 3.0))


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


def test_values_are_given_without_their_transforms():
    found = []

    def function(x: torch.Tensor) -> torch.Tensor:
        with plain_tensors():
            found.append(without_transforms(x).numpy().copy())
        return x.square().sum()

    x = torch.arange(3.0)
    torch.func.grad(function)(x)
    torch.func.jvp(torch.func.grad(function), (x,), (x,))
    function(x.requires_grad_())
    assert [values.tolist() for values in found] == [[0.0, 1.0, 2.0]] * 3


def test_tensors_are_plain_inside_of_any_mode():
    found = []

    def function(x: torch.Tensor) -> torch.Tensor:
        with plain_tensors():
            found.append(torch.ones(2) + 1)
        return 2 * x

    with torch.device("meta"):
        function(torch.ones(2))
        assert torch.ones(2).is_meta
    with FakeTensorMode():
        assert type(function(torch.ones(2))) is FakeTensor
    with torch.inference_mode():
        assert function(torch.ones(2)).is_inference()
    torch.func.vmap(function)(torch.ones(2))
    torch.func.jacrev(function)(torch.ones(2))
    make_fx(function)(torch.ones(2))
    assert len(found) == 6
    for x in found:
        assert type(x) is torch.Tensor
        assert not x.is_inference()
        assert x.tolist() == [2.0, 2.0]


@computes_in_float32
def product(x, y, label="", *, z=None):
    return x @ y if z is None else x @ y + z


def test_halves_alone_are_cast_and_under_autocast_alone():
    half, single = torch.ones(2, 2, dtype=torch.bfloat16), torch.ones(2, 2)
    assert product(half, half).dtype == torch.bfloat16
    with pytest.raises(RuntimeError):
        product(half, single)

    @computes_in_float32
    def first(pair):
        return pair[0]

    with torch.autocast("cpu", torch.bfloat16):
        assert product(half, single, "named", z=half).dtype == torch.float32
        assert (half @ half).dtype == torch.bfloat16
        assert product(single.double(), single.double()).dtype == torch.float64
        assert product(half.to("meta"), half.to("meta")).dtype == torch.bfloat16  # of no autocast
        assert first((half, None)).dtype == first([half, None]).dtype == torch.float32
        product(half.requires_grad_(), single).sum().backward()
    assert half.grad.dtype == torch.bfloat16


def test_autocast_is_asked_of_a_device_and_turned_off_for_it():
    half = torch.ones(2, 2, dtype=torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        assert autocasts("cpu")
        assert not autocasts("meta")
        with without_autocast("cpu"):
            assert not autocasts("cpu")
            assert (half.float() @ half.float()).dtype == torch.float32
    assert not autocasts("cpu")
