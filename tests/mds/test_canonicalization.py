from functools import partial

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from equigeo.affine import KernelSpec, LiftConv
from equigeo.groups import SO, Affine, GLPlus, GroupSamples, O, equidistant_rotations
from equigeo.mds import Canonicalized, embed, pose_loss
from equigeo.reps import Field, Irreps, Points, TensorRep, Trivial
from equigeo.testing import assert_equivariant, tolerance
from tests.mds.clouds import CUBE, generator, generic, motions
from tests.tier import FULL, tier
from tests.wrong_inputs import refused

CLOSE = tolerance(torch.float64, terms=9 * 16)  # nine points, sixteen features of each
DIFFERENCE = CLOSE["atol"] / 1e-6  # the step of gradcheck


class Pooled(nn.Module):
    """A smooth function of clouds that knows all directions."""

    def __init__(self, dim, out=None, seed=0, activation=torch.tanh):
        super().__init__()
        g = generator(seed)
        self.activation, self.out = activation, out
        self.first, self.shift, self.last = (
            nn.Parameter(scale * torch.randn(*shape, generator=g, dtype=torch.float64))
            for shape, scale in (((dim, 16), 0.5), ((16,), 1.0), ((16, out or 1), 1.0))
        )

    def forward(self, x):
        found = self.activation(x @ self.first + self.shift).mean(-2) @ self.last
        return found if self.out else found[..., 0]


class Bounded(Pooled):
    """An energy that grows along the orbits of translations and stretches."""

    def forward(self, x):
        centre = x.mean(-2, keepdim=True)
        scatter = (x - centre).mT @ (x - centre) / x.shape[-2]
        spread = torch.linalg.matrix_norm(scatter).square() - torch.linalg.slogdet(scatter)[1]
        return super().forward(x) / 4 + centre.square().sum((-1, -2)) + spread


def clouds(dim, count=3):
    return generic(9, dim, batch=(count,)) - 1.5


CASES = {
    "SO(2)": (Points(SO(2)), Pooled(2), 8),
    "O(2)": (Points(O(2)), Pooled(2), 16),
    "SO(3)": (Points(SO(3)), Pooled(3), 24),
    "rigid motions": (Points(Affine(SO(2))), Bounded(2), 16),
    "GL+(2)": (Points(GLPlus(2)), Bounded(2), 16),
}


@pytest.mark.parametrize("name", tier(["SO(3)", "GL+(2)"], [*CASES]))
def test_a_frozen_network_becomes_invariant(name):
    rep, energy, starts = CASES[name]
    network = Pooled(rep.dim, out=4, seed=1).requires_grad_(False)
    model = Canonicalized(network, energy, rep, starts=starts)
    x = clouds(rep.dim, count=3 if FULL else 1)
    elements = rep.group.sample(4 if FULL else 2, radius=0.5, generator=generator(2))
    moved = [rep.act(g, x) for g in elements]
    want, *found = model(torch.cat([x, *moved])).split(len(x))
    for y, value in zip(moved, found, strict=True):
        assert_close(value, want, **CLOSE)
        assert float((network(y) - network(x)).abs().max()) > 1e-2


def test_what_comes_out_turns_back():
    network = Pooled(3, out=6, seed=1)
    rep_out = Irreps("2x1o").restrict(SO(3))
    model = Canonicalized(network, Pooled(3), Points(SO(3)), rep_out, starts=24)
    # Rounding of slopes moves minima by its ratio to the curvature.
    elements = None if FULL else SO(3).haar(3, generator=generator(2))
    assert_equivariant(
        model, inputs=[clouds(3, 3 if FULL else 1)], elements=elements, condition=100
    )


def test_features_of_other_representations_are_moved():
    rep = TensorRep(GLPlus(2), up=1, down=1)

    class Size(nn.Module):
        def forward(self, x):
            return x.square().sum(-1) + 0.1 * x[..., 1]

    model = Canonicalized(nn.Identity(), Size(), rep, starts=8)
    x = torch.randn(5, 4, generator=generator(), dtype=torch.float64)
    moved = [rep.act(g, x) for g in GLPlus(2).sample(3, radius=0.3, generator=generator(1))]
    want, *found = Size()(model(torch.cat([x, *moved]))).split(len(x))
    for value in found:
        assert_close(value, want, **CLOSE)


@pytest.mark.full
def test_energies_of_kinks_descend_too():
    energy = Pooled(2, activation=torch.relu)
    rep, x = Points(SO(2)), clouds(2)
    found = Canonicalized(nn.Identity(), energy, rep, starts=8, steps=60).elements(x)
    angles = torch.linspace(0, 2 * torch.pi, 2000, dtype=torch.float64)
    turns = SO(2).exp(angles[:, None, None] * SO(2).generators())
    least = torch.stack([energy(x @ turn.mT) for turn in turns]).amin(0)
    assert bool((energy(rep.act(found[:, None], x)) < least + 1e-3).all())


@pytest.mark.full
def test_gradients_know_that_the_minimum_moves():
    model = Canonicalized(Pooled(2, out=2, seed=1), Pooled(2), Points(SO(2)), starts=2, steps=12)
    x = clouds(2, count=1)[:, :4].clone().requires_grad_()
    assert torch.autograd.gradcheck(model, x, atol=DIFFERENCE, fast_mode=True)
    assert torch.autograd.gradgradcheck(model, x, atol=DIFFERENCE, fast_mode=True)
    weight = model.energy.first
    weight.requires_grad_()

    def with_weight(value):
        return torch.func.functional_call(model, {"energy.first": value}, (x.detach(),))

    assert torch.autograd.gradcheck(with_weight, weight, atol=DIFFERENCE, fast_mode=True)
    model(x).sum().backward()
    # Along the orbit nothing changes: the torque of an invariant is zero.
    y = x.detach()
    (torque,) = (y[..., 0] * x.grad[..., 1] - y[..., 1] * x.grad[..., 0]).sum(-1)
    assert abs(float(torque)) < CLOSE["atol"]


def test_single_precision_empty_batches_and_unwanted_gradients():
    model = Canonicalized(nn.Identity(), Pooled(2).float(), Points(SO(2)), starts=8)
    x = clouds(2).float()
    turned = model((x.double() @ motions(1, 2, proper=True)[0].mT).float())
    assert_close(turned, model(x), **tolerance(torch.float32, terms=9 * 16))
    assert model(x[:0]).shape == (0, 9, 2)
    with torch.no_grad():
        assert not model(x).requires_grad
    model.energy.requires_grad_(False)
    assert not model(x).requires_grad


def test_bad_arguments_raise():
    rep = Points(SO(2))
    make = partial(Canonicalized, nn.Identity(), Pooled(2))
    refused("rep_in must be a Representation, got str", make, "1o", error=TypeError)
    refused(r"one group, got SO\(2\) and SO\(3\)", make, rep, Irreps("1o").restrict(SO(3)))
    refused("starts must be at least 1, got 0", make, rep, starts=0)
    refused("steps must not be negative, got -1", make, rep, steps=-1)
    refused("drawn at random need steps, got 0", make, rep, steps=0)
    refused("starts must be an integer, samples or 'frames'", make, rep, starts="axes")
    refused(r"needs Points of O\(n\), SO\(n\)", make, Points(GLPlus(2)), starts="frames")
    refused(r"starts must be samples of SO\(2\)", make, rep, starts=MIRRORED)
    refused("steps must be 0, got 20", make, IMAGES, starts=MIRRORED)
    in_one_pass = partial(Canonicalized, nn.Identity(), OnGroup(O(2)), IMAGES, steps=0)
    refused("an energy with an argument 'samples' needs them", in_one_pass, starts=4)
    refused(r"inputs must be \(batch", in_one_pass(starts=MIRRORED), torch.zeros(1, 4, 4))
    few = Canonicalized(nn.Identity(), PerImage(), IMAGES, starts=MIRRORED, steps=0)
    refused(r"energies must be \(2, 16\), one for each input and sample", few, images(2))
    for x in (torch.zeros(2), torch.zeros(4, 5, 3), torch.zeros(4, 2, dtype=torch.long)):
        refused(r"inputs must be \(batch, ..., 2\) and floating", make(rep), x)
    nan = torch.full((2, 3, 2), torch.nan, dtype=torch.float64)
    refused("finite at none of the starts", make(rep), nan)
    refused("^clouds must be finite$", make(rep, starts="frames"), nan)
    refused("'frames' or None, got int", pose_loss, Pooled(2), rep, nan, starts=16, error=TypeError)
    pointwise = Canonicalized(nn.Identity(), nn.Identity(), rep)
    refused(r"energies must be \(32,\), one for each input", pointwise, clouds(2, count=2))


@pytest.mark.parametrize("group", [O(3), Affine(SO(3))], ids=str)
@pytest.mark.parametrize("steps", [0, 12])
def test_frames_are_starts_that_move_with_clouds(group, steps):
    network = Pooled(3, out=4, seed=1).requires_grad_(False)
    energy = Pooled(3) if steps == 0 else Bounded(3)
    model = Canonicalized(network, energy, Points(group), starts="frames", steps=steps)
    x = clouds(3, count=2)
    # Errors of frames grow with the inverse gaps of eigenvalues, of minima with the curvature.
    assert_equivariant(model, rep_out=Trivial(group, 4), inputs=[x], condition=1e3)
    assert not model.flagged(x).any()
    assert len(model.elements(x[:0])) == 0


def test_what_comes_out_of_frames_turns_back():
    network, rep_out = Pooled(3, out=6, seed=1), Irreps("2x1o")
    model = Canonicalized(network, Pooled(3), Points(O(3)), rep_out, starts="frames", steps=0)
    assert_equivariant(model, inputs=[clouds(3)], condition=1e3)  # as above
    x = clouds(3, count=1)[:, :5].clone().requires_grad_()
    assert torch.autograd.gradcheck(model, x, atol=DIFFERENCE, fast_mode=True)


def test_poses_that_rounding_may_exchange_are_flagged():
    model = Canonicalized(nn.Identity(), Pooled(3), Points(O(3)), starts="frames", steps=0)
    x = generic(8, 3) - 1.5
    mirrored = torch.cat([x, x * torch.tensor([-1.0, 1, 1]).double()])
    x = torch.cat([x, generic(8, 3, seed=2) - 1.5])
    cube = torch.cat([CUBE, CUBE])
    assert model.flagged(torch.stack([x, mirrored, cube])).tolist() == [False, True, True]
    descent = Canonicalized(nn.Identity(), Pooled(2), Points(SO(2)), starts=8)
    assert not descent.flagged(clouds(2)).any()  # several starts lead to one minimum


class OnGroup(nn.Module):
    """Energies of images in all poses in one pass."""

    def __init__(self, group):
        super().__init__()
        torch.manual_seed(0)
        self.lift = LiftConv(group, 1, 6, KernelSpec(7, network="rbf"), padding=3)
        self.last = nn.Linear(6, 1)

    def forward(self, x, samples):
        features = self.lift(x, samples)[0].square().flatten(3).mean(3)
        return self.last(features.mT)[..., 0]


class Template(nn.Module):
    """Energies of images, each one in the pose that it has."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 4, 5, bias=False)
        self.last = nn.Linear(4 * 64, 1)

    def forward(self, x):
        return self.last(self.first(x).square().flatten(1))[..., 0]


class PerImage(nn.Module):
    def forward(self, x, samples):
        return x.flatten(1).sum(1)


def images(count):
    return torch.rand(count, 1, 12, 12, generator=generator())


ROTATIONS = equidistant_rotations(8)
MIRRORED = GroupSamples.from_elements(
    O(2),
    torch.cat([ROTATIONS.h, ROTATIONS.h * torch.tensor([-1.0, 1.0]).double()]),
    torch.ones(16, dtype=torch.float64),
)
IMAGES = Field(Trivial(O(2), 1))


@pytest.mark.parametrize("energy", [OnGroup(O(2)), Template()], ids=lambda e: type(e).__name__)
def test_images_are_invariant_in_every_bit_under_symmetries_of_the_grid(energy):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(144, 5)).requires_grad_(False)
    model = Canonicalized(network, energy, IMAGES, starts=MIRRORED, steps=0)
    x = images(4)
    want = model(x)
    assert not model.flagged(x).any()
    assert model.flagged(torch.ones(1, 1, 12, 12)).all()
    for k in range(4):
        for moved in (x.rot90(k, (-2, -1)), x.flip(-1).rot90(k, (-2, -1))):
            assert torch.equal(model(moved), want)
    # Interpolated twice, an eighth of a turn there and back.
    place = torch.cartesian_prod(*[torch.arange(12) - 5.5] * 2)
    centers = torch.tensor([[2.5, 1.0], [-1.0, 2.0], [-1.0, 0.0]])
    smooth = torch.exp(-torch.cdist(place, centers).square() / 5).sum(1).view(1, 1, 12, 12)
    turned, model.network = IMAGES.act(ROTATIONS.h[1], smooth), nn.Identity()
    assert float((model(turned) - model(smooth)).norm()) < 0.1 * float(smooth.norm())
    assert float((turned - smooth).norm()) > 0.3 * float(smooth.norm())


def test_outputs_that_are_images_turn_back():
    blur = nn.Conv2d(1, 1, 3, padding=1)
    model = Canonicalized(blur, Template(), IMAGES, IMAGES, starts=MIRRORED, steps=0)
    grid = MIRRORED.h[::2]
    assert_equivariant(model, inputs=[images(3)], elements=grid)
    with pytest.raises(AssertionError, match="not equivariant"):
        assert_equivariant(blur, IMAGES, IMAGES, inputs=[images(3)], elements=grid)


def test_pose_loss_is_the_likelihood_of_the_upright_start():
    x = images(3)
    energy = OnGroup(O(2))
    scores = -energy(x, MIRRORED).double()
    want = nn.functional.cross_entropy(scores, torch.zeros(3, dtype=torch.long))
    assert_close(pose_loss(energy, IMAGES, x, starts=MIRRORED), want)
    # Of clouds in their principal axes, the identity.
    x = embed(clouds(3)).y
    found = pose_loss(Nearest(x), Points(O(3)), x, starts="frames")
    assert float(found) < 1e-6  # of the softmax of energies of a thousand


class Nearest(nn.Module):
    """The distance to given clouds."""

    def __init__(self, x):
        super().__init__()
        self.x = x

    def forward(self, y):
        return 1e3 * (y.unflatten(0, (-1, len(self.x))) - self.x).square().sum((-2, -1)).flatten()


def upright(count, seed):
    """Clouds that stand: tall, with a heavy foot."""
    x = torch.randn(count, 24, 2, generator=generator(seed), dtype=torch.float64)
    x = x * torch.tensor([0.3, 1.0]).double()
    x[..., 1] = x[..., 1] - 0.4 * x[..., 1].square()
    return x


class Energy(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.points = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh())
        self.pooled = nn.Linear(16, 1)
        self.double()

    def forward(self, x):
        return self.pooled(self.points(x).mean(-2))[..., 0]


def trained(steps, count):
    energy, draws, losses = Energy(), generator(1), []
    optimizer = torch.optim.Adam(energy.parameters(), 2e-2)
    for step in range(steps):
        loss = pose_loss(energy, Points(SO(2)), upright(count, step), generator=draws)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return energy, losses


def test_pose_loss_falls_in_a_few_steps():
    _, losses = trained(steps=25, count=16)
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.full
def test_a_learned_energy_brings_clouds_upright():
    rep, (energy, losses) = Points(SO(2)), trained(steps=150, count=64)
    assert losses[-1] < 0.5 * losses[0]
    model = Canonicalized(nn.Identity(), energy.requires_grad_(False), rep, starts=8)
    x = upright(50, 1000)
    turns = SO(2).haar(50, generator=generator(2))
    element = model.elements(rep.act(turns[:, None], x)) @ turns
    # What turns a turned cloud back turns the cloud hardly: a cosine of one.
    assert float(element[:, 0, 0].median()) > 0.95
    assert float((element[:, 0, 0] > 0.8).double().mean()) > 0.9
