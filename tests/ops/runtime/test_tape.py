"""Derivatives of ops declared for these tests alone, in both modes."""

from collections.abc import Iterator
from itertools import count

import pytest
import torch
from torch.autograd import forward_ad
from torch.testing import assert_close

from equigeo.ops.runtime.batching import blocks
from equigeo.ops.runtime.declare import SCHEMAS, declare, like
from equigeo.ops.runtime.tape import Signature, Tape

_numbers = count()

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch's own


@pytest.fixture
def name() -> Iterator[str]:
    """Name of an op that is not yet declared; it is no part of the package afterwards."""
    name = f"taped_in_a_test_{next(_numbers)}"
    yield name
    SCHEMAS.pop(name, None)


def cube(name, **options):
    """The cube of one argument times another, whose gradient is not linear in them."""
    return declare(
        f"{name}(Tensor x, Tensor y, float factor) -> (Tensor, Tensor)",
        reference=lambda x, y, factor: (factor * x**3 * y, x > 0),
        fake=lambda x: (x.new_empty(x.shape), x.new_empty(x.shape, dtype=torch.bool)),
        backward=lambda grad, _, *, x, y, factor: {
            "x": 3 * factor * grad * x**2 * y,
            "y": factor * grad * x**3,
        },
        batch=blocks(["x", "y"]),
        **options,
    )


def point():
    x, y, dx, dy = torch.randn(
        4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    return (x, y), (dx, dy)


def change(inputs, tangents):
    (x, y), (dx, dy) = inputs, tangents
    return 2 * (3 * x**2 * y * dx + x**3 * dy)


def test_forward_mode_is_the_transpose_of_reverse_mode(name):
    op, (inputs, tangents) = cube(name), point()
    (_, flags), (found, _) = torch.func.jvp(lambda x, y: op(x, y, 2.0), inputs, tangents)
    assert flags.dtype == torch.bool
    assert_close(found, change(inputs, tangents))


def test_dual_numbers_pass_through(name):
    op, (inputs, tangents) = cube(name), point()
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(*pair) for pair in zip(inputs, tangents, strict=True)]
        result, _ = op(*duals, 2.0)
        assert_close(forward_ad.unpack_dual(result).tangent, change(inputs, tangents))


def test_calls_of_the_dispatcher_keep_tangents_too(name):
    cube(name)
    op, (inputs, tangents) = getattr(torch.ops.equigeo, name), point()
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(*pair) for pair in zip(inputs, tangents, strict=True)]
        result, _ = op(*duals, 2.0)
        assert_close(forward_ad.unpack_dual(result).tangent, change(inputs, tangents))


def test_a_call_of_the_dispatcher_does_not_lose_tangents_silently(name):
    cube(name)
    op, (inputs, tangents) = getattr(torch.ops.equigeo, name), point()
    with pytest.raises(NotImplementedError, match="has no forward mode under"):
        torch.func.jvp(lambda x, y: op(x, y, 2.0)[0], inputs, tangents)


def test_a_call_of_the_dispatcher_refuses_gradients_by_transforms(name):
    cube(name)
    op, (inputs, _) = getattr(torch.ops.equigeo, name), point()
    with pytest.raises(RuntimeError, match=r"no gradient by torch\.func .* torch\.autograd\.grad"):
        torch.func.grad(lambda x: op(x, inputs[1], 2.0)[0].sum())(inputs[0])


def test_a_rule_of_its_own_is_taken(name):
    seen = []

    def forward(tangents, *, factor):
        seen.append(sorted(tangents))
        return 7 * factor * tangents["x"], None

    op, (inputs, tangents) = cube(name, forward=forward), point()
    _, found = torch.func.jvp(lambda x: op(x, inputs[1], 2.0)[0], inputs[:1], tangents[:1])
    assert_close(found, 14 * tangents[0])
    assert seen == [["x", "y"]]  # zeros where nothing moves


def test_forward_over_forward_is_not_zero(name):
    # PyTorch alone loses the second tangent of an autograd.Function with a jvp.
    op, (inputs, _) = cube(name), point()
    x, ones = inputs[0], torch.ones(5, dtype=torch.float64)

    def slope(x):
        return torch.func.jvp(lambda x: op(x, ones, 1.0)[0], (x,), (ones,))[1]

    assert_close(torch.func.jvp(slope, (x,), (ones,))[1], 6 * x)


def test_a_hessian_by_every_pair_of_modes(name):
    op, (inputs, _) = cube(name), point()

    def total(x):
        return op(x, inputs[1], 1.0)[0].sum()

    want = torch.diag(6 * inputs[0] * inputs[1])
    modes = (torch.func.jacfwd, torch.func.jacrev)
    for outer in modes:
        for inner in modes:
            assert_close(outer(inner(total))(inputs[0]), want)


def test_gradients_are_not_computed_in_half_precision(name):
    seen = []
    op = declare(
        f"{name}(Tensor x) -> Tensor",
        reference=lambda x: 2 * x,
        fake=like("x"),
        backward=lambda grad: {"x": seen.append((grad @ grad).dtype) or 2 * grad},
        batch=blocks(["x"]),
    )
    x = torch.ones(2, 2, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        op(x).sum().backward()
    assert seen == [torch.float32]


def test_rules_must_fit_the_schema():
    signature = Signature.parse("f(Tensor x) -> Tensor")
    with pytest.raises(ValueError, match="takes y, which is none of x"):
        Tape(signature, lambda grad: {}, lambda tangents, *, y: None, (), ())
