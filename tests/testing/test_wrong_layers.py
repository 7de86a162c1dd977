"""Wrong layers that are refused and right ones that are accepted, in every precision."""

import pytest
import torch
from torch import Tensor

from equigeo.groups import SO, Affine, GLPlus, O, Similarity
from equigeo.reps import Irreps, Points, TensorRep, Trivial
from equigeo.testing import assert_equivariant

V, A, M = Irreps("1o"), Irreps("1e"), Affine(O(3))
P, PG = Points(M), Points(Affine(GLPlus(3)))
S, O1, T = Trivial(O(3), 1), Irreps("0o"), TensorRep(O(3), up=2)
SP, SIM = Trivial(M, 1), Affine(Similarity(3))
R, SR = TensorRep(SO(3)), Trivial(SO(3), 1)
G, GD = TensorRep(GLPlus(3)), TensorRep(GLPlus(3), up=0, down=1)
FLIP, EVEN = torch.tensor([1.0, 1.0, -1.0]), torch.tensor([0.0, 1.0, 1.0])


def norm(x: Tensor) -> Tensor:
    return x.norm(dim=-1, keepdim=True)


def outer(x: Tensor, y: Tensor) -> Tensor:
    return (x[..., None] * y[..., None, :]).flatten(-2)


def cross(x: Tensor, y: Tensor) -> Tensor:
    return torch.stack([x[:, k - 2] * y[:, k - 1] - x[:, k - 1] * y[:, k - 2] for k in range(3)], 1)


def det(x: Tensor, y: Tensor) -> Tensor:
    return (cross(x, y) * x.roll(1, 0)).sum(-1, keepdim=True)


def dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum(-1, keepdim=True)


def centred(x: Tensor) -> Tensor:
    return x - x.mean(0)


# fn, representations of one or two inputs, of the output
WRONG = {
    "absolute values": (torch.abs, V, V),
    "relu": (torch.relu, V, V),
    "tanh": (torch.tanh, V, V),
    "constant": (torch.ones_like, V, V),
    "shift": (lambda x: x + 0.5, V, V),
    "swap": (lambda x: x[:, [1, 2, 0]], V, V),
    "sign": (lambda x: x * FLIP.to(x), V, V),
    "mask": (lambda x: x * EVEN.to(x), V, V),
    "scaled axes": (lambda x: x * (1 + EVEN.to(x)), V, V),
    "square": (torch.square, V, V),
    "clamp": (lambda x: x.clamp(-0.5, 0.5), V, V),
    "sort": (lambda x: x.sort(-1).values, V, V),
    "softmax": (lambda x: x.softmax(-1), V, V),
    "norm by largest": (lambda x: x / x.abs().amax(-1, keepdim=True), V, V),
    "standardised": (lambda x: x - x.mean(-1, keepdim=True), V, V),
    "first": (lambda x: x[:, :1], V, S),
    "sum": (lambda x: x.sum(-1, keepdim=True), V, S),
    "l1": (lambda x: x.abs().sum(-1, keepdim=True), V, S),
    "largest": (lambda x: x.abs().amax(-1, keepdim=True), V, S),
    "norm as pseudoscalar": (norm, V, O1),
    "vector as pseudovector": (lambda x: 2 * x, V, A),
    "cross as vector": (cross, [V, V], V),
    "determinant as scalar": (det, [V, V], S),
    "dot as pseudoscalar": (dot, [V, V], O1),
    "products": (torch.mul, [V, V], V),
    "outer of one side": (lambda x, y: outer(x, y.abs()), [V, V], T),
    "triangle of outer": (lambda x, y: outer(x, y).view(-1, 3, 3).triu().flatten(1), [V, V], T),
    "uncentred norm": (norm, P, SP),
    "point as vector": (lambda x: x, P, V),
    "difference as point": (centred, P, P),
    "origin": (lambda x: x / norm(x), P, P),
    "size under scalings": (lambda x: norm(centred(x)), Points(SIM), Trivial(SIM, 1)),
    "length under stretches": (norm, G, Trivial(GLPlus(3), 1)),
    "vector as covector": (lambda x: x, G, GD),
    "rotation of the plane": (lambda x: x[:, [1, 0, 2]] * FLIP.to(x), R, R),
}
RIGHT = {
    "identity": (lambda x: x, V, V),
    "twice": (lambda x: 2 * x, V, V),
    "minus": (lambda x: -x, V, V),
    "mean": (lambda x: x.mean(0), V, V),
    "sum of points": (lambda x: x.sum(0), V, V),
    "unit": (lambda x: x / norm(x), V, V),
    "gate": (lambda x: x * norm(x).sigmoid(), V, V),
    "soft": (lambda x: x * norm(x).tanh(), V, V),
    "mix of points": (lambda x: x + 0.5 * x.flip(0), V, V),
    "weights": (lambda x: norm(x).softmax(0) * x, V, V),
    "norm": (norm, V, S),
    "squared norm": (lambda x: x.square().sum(-1, keepdim=True), V, S),
    "log": (lambda x: norm(x).log1p(), V, S),
    "largest norm": (lambda x: norm(x).amax(0), V, S),
    "dot": (dot, [V, V], S),
    "cross": (cross, [V, V], A),
    "cross of rotations": (cross, [R, R], R),
    "determinant": (det, [V, V], O1),
    "determinant of rotations": (det, [R, R], SR),
    "outer": (outer, [V, V], T),
    "sum of vectors": (torch.add, [V, V], V),
    "scalar times vector": (lambda x, y: dot(x, y) * x, [V, V], V),
    "projection": (lambda x, y: y - dot(x, y) / dot(x, x) * x, [V, V], V),
    "centroid": (lambda x: x.mean(0), P, P),
    "middle": (lambda x: (x + x.flip(0)) / 2, P, P),
    "offset": (lambda x: x - x.roll(1, 0), P, V),
    "distance": (lambda x: norm(x - x.roll(1, 0)), P, SP),
    "point plus vector": (torch.add, [P, V], P),
    "ratio": (
        lambda x: norm(x - x.roll(1, 0)) / norm(x - x.roll(2, 0)),
        Points(SIM),
        Trivial(SIM, 1),
    ),
    "linear": (lambda x: x - 3 * x.flip(0), G, G),
    "affine centroid": (lambda x: x.mean(0), PG, PG),
    "pseudovector": (lambda x, y: x * norm(y), [A, V], A),
}
DTYPES = pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str
)


def judged(row, dtype: torch.dtype) -> str:
    """What is wrong with a layer, or nothing."""
    fn, rep_in, rep_out = row
    count = len(rep_in) if isinstance(rep_in, list) else 1
    generator = torch.Generator().manual_seed(1)
    draws = (torch.randn(12, 3, dtype=torch.float64, generator=generator) for _ in range(count))
    try:
        assert_equivariant(fn, rep_in, rep_out, inputs=[x.to(dtype) for x in draws])
    except AssertionError as error:
        return str(error)
    return ""


@DTYPES
def test_wrong_layers_are_refused(dtype) -> None:
    assert len(WRONG) >= 30
    for name, row in WRONG.items():
        assert "not equivariant" in judged(row, dtype), f"{name} passes in {dtype}"


@DTYPES
def test_right_layers_are_accepted(dtype) -> None:
    assert len(RIGHT) >= 30
    # In half precision an error may be rounding, and the message must state that.
    excuse = "test in a finer dtype" if dtype.itemsize == 2 else "\n"
    for name, row in RIGHT.items():
        found = judged(row, dtype)
        assert not found or excuse in found, f"{name} is refused in {dtype}: {found}"


def test_an_error_that_may_be_rounding_says_so() -> None:
    x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0)).bfloat16()
    with pytest.raises(AssertionError, match=r"rounding of torch\.bfloat16: test in a finer"):
        assert_equivariant(lambda x: x + 0.5, V, V, inputs=[x])
    with pytest.raises(AssertionError, match=r"\]\]$"):  # nothing of rounding
        assert_equivariant(lambda x: x + 0.5, V, V, inputs=[x.float()])
