"""Ops declared for these tests alone; those of the package are tested in ``test_ops.py``."""

from collections.abc import Iterator
from itertools import count

import pytest
import torch
from torch import Tensor

from equigeo.ops.runtime.batching import blocks
from equigeo.ops.runtime.declare import SCHEMAS, declare, like

_numbers = count()


@pytest.fixture
def name() -> Iterator[str]:
    """Name of an op that is not yet declared; it is no part of the package afterwards."""
    name = f"declared_in_a_test_{next(_numbers)}"
    yield name
    SCHEMAS.pop(name, None)


def scale(x: Tensor, factor: float) -> Tensor:
    return factor * x


def declare_scale(name: str, **options):
    arguments = {
        "reference": scale,
        "fake": like("x"),
        "batch": blocks(["x"]),
        "backward": lambda grad, *, factor: {"x": factor * grad},
    }
    return declare(f"{name}(Tensor x, float factor) -> Tensor", **(arguments | options))


def test_gradients_are_matched_by_name(name):
    op = declare_scale(name)
    x = torch.ones(3, requires_grad=True)
    (slope,) = torch.autograd.grad(op(x, 2.0).sum(), x)
    assert slope.tolist() == [2, 2, 2]
    assert SCHEMAS[name] == f"{name}(Tensor x, float factor) -> Tensor"


def test_a_reference_may_name_its_arguments_in_another_order(name):
    op = declare_scale(name, reference=lambda factor, x: factor * x)
    assert op(torch.ones(1), 3.0).item() == 3


def test_a_gradient_that_is_missing_is_none(name):
    op = declare(
        f"{name}(Tensor x, Tensor y) -> Tensor",
        reference=lambda x, y: x * y,
        fake=like("x"),
        batch=blocks(["x"]),
        backward=lambda grad, *, x: {"y": grad * x},
    )
    x, y = torch.tensor(3.0, requires_grad=True), torch.tensor(5.0, requires_grad=True)
    slopes = torch.autograd.grad(op(x, y), (x, y), allow_unused=True)
    assert slopes == (None, torch.tensor(3.0))


def test_a_gradient_of_no_argument_is_refused(name):
    op = declare_scale(name, backward=lambda grad, *, factor: {"z": grad})
    out = op(torch.ones(1, requires_grad=True), 2.0)
    with pytest.raises(ValueError, match="must return gradients of x, factor, got z"):
        out.sum().backward()


def test_a_backward_gets_arguments_results_and_what_is_needed(name):
    seen = {}

    def backward(grad_double, grad_square, *, square, needed, differentiable, **rest):
        seen.update(square=square, needed=needed, differentiable=differentiable, rest=rest)
        return {"x": 2 * grad_double + 2 * rest["x"] * grad_square}

    op = declare(
        f"{name}(Tensor x, Tensor? weight, int[] dims, bool flag) -> (Tensor, Tensor)",
        reference=lambda x, weight, dims, flag: (2 * x, x * x),
        fake=like("x", "x"),
        batch=blocks(["x"]),
        backward=backward,
        results=("double", "square"),
    )
    x = torch.tensor([3.0], requires_grad=True)
    double, square = op(x, None, [4, 5], True)
    assert torch.autograd.grad((double + square).sum(), x)[0].item() == 8
    assert torch.equal(seen["square"], square)
    assert seen["needed"] == seen["differentiable"] == {"x"}
    assert list(seen["rest"].items()) == [
        ("x", x),
        ("weight", None),
        ("dims", [4, 5]),
        ("flag", True),
    ]


@pytest.mark.parametrize("optional", [False, True])
def test_a_gradient_that_does_not_arrive_is_zeros_or_none(name, optional):
    seen = []

    def both(a, b, *, x):
        seen.append(b)
        return {"x": 2 * a}

    def one(a=None, b=None, *, x):
        return both(a, b, x=x)

    op = declare(
        f"{name}(Tensor x) -> (Tensor, Tensor)",
        reference=lambda x: (2 * x, 3 * x),
        fake=like("x", "x"),
        batch=blocks(["x"]),
        backward=one if optional else both,
    )
    first, _ = op(torch.ones(2, requires_grad=True))
    first.sum().backward()
    assert seen == [None] if optional else seen[0].tolist() == [0, 0]


def test_constant_results_are_not_differentiable(name):
    op = declare(
        f"{name}(Tensor x) -> (Tensor, Tensor)",
        reference=lambda x: (2 * x, 3 * x),
        fake=like("x", "x"),
        batch=blocks(["x"]),
        backward=lambda grad, _: {"x": 2 * grad},
        results=("double", "triple"),
        constant_results=("triple",),
    )
    double, triple = op(torch.ones(2, requires_grad=True))
    assert double.requires_grad
    assert not triple.requires_grad


def test_pytorch_differentiates_the_reference_where_names_stand_for_a_backward(name):
    op = declare(
        f"{name}(Tensor x, int[] n, Tensor y, Tensor z) -> Tensor",
        reference=lambda x, n, y, z: n[0] * x * x * y * z,
        fake=like("x"),
        batch=blocks(["x"]),
        backward=("x", "y"),
    )
    x, y, z = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (2.0, 3.0, 5.0))
    slopes = torch.autograd.grad(op(x, [7], y, z), (x, y, z), create_graph=True, allow_unused=True)
    assert [s if s is None else s.item() for s in slopes] == [420, 140, None]
    assert torch.autograd.gradgradcheck(lambda x, y: op(x, [7], y, z.detach()), (x, y))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"backward": lambda grad, *, fctor: {}},
            "takes fctor, which is none of x, factor, needed, differentiable",
        ),
        ({"backward": lambda: {}}, "must take 1 gradients by position, got 0"),
        ({"backward": lambda a, b: {}}, "must take 1 gradients by position, got 2"),
        ({"backward": ("factor",)}, "takes no tensor factor"),
        ({"reference": lambda x, fctor: x}, "takes fctor"),
        ({"fake": lambda y: y}, "takes y"),
        ({"results": ("a", "b")}, "has 1 results"),
        ({"results": ("x",)}, "must not be named x"),
        ({"constant_results": ("a",)}, "no results a"),
    ],
)
def test_names_that_do_not_fit_the_schema_are_refused(name, options, message):
    with pytest.raises(ValueError, match=message):
        declare_scale(name, **options)
    assert name not in SCHEMAS


def test_a_missing_body_is_refused(name):
    with pytest.raises(TypeError, match="backward"):
        declare(
            f"{name}(Tensor x) -> Tensor", reference=lambda x: x, fake=like("x"), batch=blocks([])
        )


def test_an_op_declared_so_is_registered_as_pytorch_demands(name):
    declare_scale(name)
    op = getattr(torch.ops.equigeo, name).default
    torch.library.opcheck(op, (torch.ones(3, requires_grad=True), 2.0))


def test_opcheck_sees_a_wrong_fake(name):
    declare_scale(name, fake=lambda x: x.new_empty(len(x) + 1))
    op = getattr(torch.ops.equigeo, name).default
    with pytest.raises(Exception, match="test_faketensor"):
        torch.library.opcheck(op, (torch.ones(3, requires_grad=True), 2.0))
