import pytest
import torch
from torch.testing import assert_close

from equigeo.groups import SO
from equigeo.ops.edges.rotate_edges import edge_frames, rotate_edges, rotate_edges_back
from equigeo.reps import Irreps
from equigeo.testing import tolerance
from tests.ops.edges.test_frames import directions
from tests.wrong_inputs import refused

pytestmark = pytest.mark.kernels

F64 = torch.float64


def features(lmax: int, edges: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(lmax)
    return torch.randn(edges, (lmax + 1) ** 2, 2, dtype=F64, generator=generator)


def test_components_are_sorted_by_order():
    vectors = torch.tensor([[0.0, 1.0, 0.0]], dtype=F64)  # whose frame changes nothing
    x = torch.arange(9, dtype=F64).view(1, 9, 1)
    assert rotate_edges(x, vectors).flatten().tolist() == [0, 2, 6, 3, 7, 1, 5, 8, 4]
    assert rotate_edges(x, vectors, mmax=1).flatten().tolist() == [0, 2, 6, 3, 7, 1, 5]


@pytest.mark.parametrize("mmax", [None, 5, 1, 0])
def test_the_way_back_is_the_transpose_and_the_inverse_of_what_is_kept(mmax):
    vectors = directions()
    x = features(3, len(vectors))
    z = rotate_edges(x, vectors, mmax)
    back = rotate_edges_back(z, vectors, 3, mmax)
    assert_close((back * x).sum(), z.square().sum())
    assert_close(rotate_edges(back, vectors, mmax), z)
    if mmax is None:
        assert_close(back, x)


def test_functions_that_commute_with_rolls_are_equivariant():
    vectors, rep = directions(), Irreps("2x0e+2x1o+2x2e", "ir_mul").restrict(SO(3))
    x = features(2, len(vectors))
    g = edge_frames(torch.tensor([0.3, -0.5, 0.8], dtype=F64))
    turned = rep.act(g, x.flatten(1)).view_as(x)

    def gated(x, vectors):
        z = rotate_edges(x, vectors)
        return rotate_edges_back(z * z[:, :1].sigmoid(), vectors, 2)

    def pointwise(x, vectors):
        return rotate_edges_back(rotate_edges(x, vectors).relu(), vectors, 2)

    for function, holds in ((gated, True), (pointwise, False)):
        got = function(turned, vectors @ g.mT)
        want = rep.act(g, function(x, vectors).flatten(1)).view_as(x)
        assert torch.allclose(got, want, **tolerance(F64, 9)) == holds


def test_gradients_are_exact_at_the_poles():
    vectors = directions()[-5:].requires_grad_()
    x = features(2, 5).requires_grad_()

    def gated(x, vectors):
        z = rotate_edges(x, vectors, 1)
        return rotate_edges_back(z * z[:, :1].sigmoid(), vectors, 2, 1)

    poles = vectors[:2].detach().requires_grad_()
    assert torch.autograd.gradcheck(gated, (x[:2], poles))
    assert torch.autograd.gradgradcheck(gated, (x[:2], poles))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_is_rounded_once(dtype):
    x, vectors = (torch.randn(20, *shape).to(dtype) for shape in ((121, 2), (3,)))
    for rotate in (rotate_edges, lambda z, vectors: rotate_edges_back(z, vectors, 10)):
        found, want = rotate(x, vectors), rotate(x.float(), vectors.float())
        # One rounding; the last bit is decided otherwise where float32 itself rounds otherwise.
        torch.testing.assert_close(found.float(), want, rtol=torch.finfo(dtype).eps, atol=1e-5)
        with torch.autocast("cpu", dtype):
            assert rotate(x, vectors).equal(want)


def test_wrong_arguments_are_named():
    x, vectors = torch.zeros(2, 9, 1), torch.ones(2, 3)
    refused(r"\(lmax \+ 1\)\^2 components, got 8", rotate_edges, x[:, :8], vectors)
    refused(r"vectors must be \(2, 3\), got \(3, 3\)", rotate_edges, x, torch.ones(3, 3))
    refused(r"x must be \(edges, components, channels\)", rotate_edges, x[0], vectors)
    refused("dtype of x", rotate_edges, x, vectors.double(), error=TypeError)
    refused("must not be negative, got -1", rotate_edges, x, vectors, -1)
    with pytest.raises(ValueError, match="z must have 7 components for lmax 2 and mmax 1, got 9"):
        rotate_edges_back(x, vectors, 2, 1)
    refused("lmax must be from 0 to 10, got 11", rotate_edges_back, x, vectors, 11)
