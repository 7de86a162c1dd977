import pytest
import torch
from torch.testing import assert_close

from equigeo import mds
from equigeo.mds.frames import KINDS
from equigeo.testing import tolerance
from tests.mds.clouds import CUBE, OCTAHEDRON, QUIET, generator, generic, motions, turned

EXACT = {"rtol": 1e-11, "atol": 1e-12}
SCALES = ["none", "rms", "max", "lambda1", "rms_dist"]


def loss_of(y, seed=0):
    """A function of coordinates that knows all directions."""
    weights = torch.randn(y.shape, generator=generator(seed), dtype=torch.float64)
    return (weights * (y + 0.3 * y.square())).sum()


def plain(x, weights=None):
    """Embedding that PyTorch differentiates, for unflagged clouds."""
    w = torch.ones(len(x)).double() if weights is None else weights
    c = x - (w[:, None] * x).sum(0) / w.sum()
    values, vectors = torch.linalg.eigh(c.mT @ (w[:, None] * c))
    y = c @ vectors.flip(-1)
    sign = (w[:, None] * y**3).sum(0).sign().detach()
    return y * sign, values.flip(-1), vectors.flip(-1) * sign


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dim", [2, 3, 5])
def test_the_closed_form_is_the_gradient(dim, weighted):
    x = generic(30, dim).requires_grad_()
    weights = torch.rand(30, generator=generator(), dtype=torch.float64) if weighted else None
    result = mds.embed(x, weights=weights)
    values = (result.y, result.eigvals, result.frame)
    (got,) = torch.autograd.grad(sum(loss_of(v) for v in values), x)
    (want,) = torch.autograd.grad(sum(loss_of(v) for v in plain(x, weights)), x)
    assert_close(got, want, **EXACT)


def test_detached_gradients_turn_with_the_cloud():
    x = generic(30)
    options = mds.EmbedOptions(grad="detach")

    def force(x):
        x = x.clone().requires_grad_()
        return torch.autograd.grad(loss_of(mds.embed(x, scale="rms", options=options).y), x)[0]

    for g in motions(5):
        assert_close(force(x @ g.mT + 1), force(x) @ g.mT, **tolerance(torch.float64, 30))
    y = mds.embed(x)
    weights = torch.randn(30, 3, generator=generator(), dtype=torch.float64)
    moved = x.clone().requires_grad_()
    (got,) = torch.autograd.grad((mds.embed(moved, options=options).y * weights).sum(), moved)
    want = weights @ y.frame.mT
    assert_close(got, want - want.mean(0), **EXACT)


def distance_loss(y):
    i, j = torch.triu_indices(len(y), len(y), 1)
    return (y[i] - y[j]).square().sum(-1).sin().sum()


def test_distances_have_their_own_gradient_on_symmetric_clouds():
    for solid in (CUBE, OCTAHEDRON, generic(12)):
        x = turned(solid).requires_grad_()
        (want,) = torch.autograd.grad(distance_loss(x), x)
        (got,) = torch.autograd.grad(distance_loss(mds.embed(x, options=QUIET).y), x)
        assert_close(got, want, **EXACT)
    x = CUBE.clone().requires_grad_()
    y = plain(x - 0.0)[0]
    (through_eigh,) = torch.autograd.grad(distance_loss(y), x)
    assert not torch.allclose(through_eigh, torch.autograd.grad(distance_loss(x), x)[0])


def test_gradients_are_finite_on_cubes_and_spheres():
    sphere = torch.randn(500, 3, generator=generator(), dtype=torch.float64)
    sphere = torch.cat([sphere, -sphere, sphere.roll(1, -1), -sphere.roll(1, -1)])
    sphere = torch.cat([sphere, sphere.roll(2, -1)[:2000]]) / 10
    for cloud in (CUBE, OCTAHEDRON, sphere / sphere.norm(dim=-1, keepdim=True)):
        for dtype in (torch.float32, torch.float64):
            for group in ("O", "SO"):
                x = turned(cloud).to(dtype).requires_grad_()
                y = mds.embed(x, group=group, scale="rms", options=QUIET).y
                weights = torch.linspace(-1, 1, y.numel(), dtype=dtype).view_as(y)
                (grad,) = torch.autograd.grad((weights * y).sum(), x, create_graph=True)
                assert grad.isfinite().all()
                (second,) = torch.autograd.grad(grad.square().sum(), x)
                assert second.isfinite().all()


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("group", ["O", "SO", None])
def test_two_orders_of_gradients(scale, group):
    x = generic(7).requires_grad_()

    def outputs(x):
        result = mds.embed(x, group=group, scale=scale)
        return result.y, result.scale, result.centroid

    assert torch.autograd.gradcheck(outputs, [x], fast_mode=True)
    assert torch.autograd.gradgradcheck(outputs, [x], fast_mode=True)


@pytest.mark.parametrize("dim", [1, 2, 3, 4])
def test_two_orders_of_gradients_of_batches(dim):
    x = torch.cat([generic(9, dim), generic(12, dim, seed=5)]).requires_grad_()
    weights = torch.rand(21, generator=generator(), dtype=torch.float64)
    weights[3] = 0

    def outputs(x):
        result = mds.embed(x, ptr=torch.tensor([0, 9, 9, 21]), weights=weights, options=QUIET)
        return result.y, result.frame, result.spread

    assert torch.autograd.gradcheck(outputs, [x], fast_mode=True)
    assert torch.autograd.gradgradcheck(outputs, [x], fast_mode=True)


def test_frames_pass_gradients_on():
    x = generic(8).requires_grad_()
    for kind in KINDS:

        def average(x, kind=kind):
            found = mds.frames(x, kind=kind, scale="rms")
            return mds.frame_average(lambda y: (y + 0.2).pow(3).sum(-2), found)

        assert torch.autograd.gradcheck(average, [x], fast_mode=True)
