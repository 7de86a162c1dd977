"""Nonlinearities by lengths: their law for groups of all kinds, and the values of e3nn."""

import pytest
import torch
from e3nn import nn as e3nn_nn
from e3nn import o3

from equigeo.groups import SL, SO, O, Similarity, point_group
from equigeo.nn import NormActivation
from equigeo.reps import Irreps, PlanarIrrep, Points, Regular, TensorRep, Trivial
from equigeo.testing import assert_equivariant, tolerance
from tests.groups.own_groups import Lorentz, Masses, Motions, Quarters

CLOSE = tolerance(torch.float64, terms=16)
VECTOR = TensorRep(O(3))
REPS = [
    2 * VECTOR + VECTOR @ VECTOR + Trivial(O(3), 3) + VECTOR,
    PlanarIrrep(O(2), 2) + 2 * TensorRep(O(2)),
    TensorRep(SO(3), up=2) + TensorRep(SO(3)).dual(),
    3 * TensorRep(Quarters()) + Trivial(Quarters(), 1),
    2 * TensorRep(Motions()) + Trivial(Motions(), 1),
    Irreps("2x0o + 3x1e + 2x2o", "ir_mul"),
]


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def layer_of(rep: object, function: object = torch.tanh, **options: object) -> NormActivation:
    """A layer whose biases are not zero."""
    layer = NormActivation(rep, function, bias=True, **options).double()
    torch.nn.init.uniform_(layer.biases)
    return layer


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("rep", REPS, ids=str)
def test_commutes_with_all_elements(rep, normalize):
    layer = layer_of(rep, torch.sigmoid, normalize=normalize)
    assert_equivariant(layer, inputs=[random(6, rep.dim)])


def test_commutes_with_point_groups():
    samples = point_group("T_d")
    layer = layer_of(2 * Regular(samples))
    assert_equivariant(layer, inputs=[random(6, 48)], elements=samples.h)


def test_lengths_of_parts_of_a_copy_are_not_invariant():
    layer = layer_of("6x0e")
    with pytest.raises(AssertionError, match="not equivariant"):
        assert_equivariant(layer, *[Irreps("2x1o")] * 2, inputs=[random(6, 6)])


def test_values_of_irreps_are_those_of_e3nn():
    irreps = o3.Irreps("4x0e + 2x1o + 2x2e")
    # e3nn clamps lengths at epsilon, here they are smooth there
    ours = layer_of(irreps, torch.sigmoid, epsilon=1e-12)
    theirs = e3nn_nn.NormActivation(irreps, torch.sigmoid, epsilon=1e-12, bias=True).double()
    theirs.load_state_dict(ours.state_dict(), strict=False)
    x = random(5, irreps.dim)
    torch.testing.assert_close(ours(x), theirs(x), **CLOSE)
    gate = layer_of("2x0e + 1o", torch.sigmoid, normalize=False, epsilon=1e-12)
    lengths = torch.stack([x[:, 0].abs(), x[:, 1].abs(), x[:, 2:5].norm(dim=1)], 1)
    factors = torch.sigmoid(lengths + gate.biases)[:, [0, 1, 2, 2, 2]]
    torch.testing.assert_close(gate(x[:, :5]), factors * x[:, :5], **CLOSE)


def test_a_function_of_one_is_the_identity_and_zero_stays_zero():
    x = random(4, 9)
    x[0] = 0.0
    x.requires_grad_()
    rep = TensorRep(O(3), up=2)
    same = NormActivation(rep, torch.nn.ReLU(inplace=True))
    torch.testing.assert_close(same(x), x, **CLOSE)
    torch.testing.assert_close(NormActivation(rep, torch.ones_like, False)(x), x, **CLOSE)
    (grad,) = torch.autograd.grad(layer_of(rep)(x).sum(), x)
    assert bool(grad.isfinite().all())
    assert NormActivation(Trivial(O(3), 0), torch.tanh)(x[:, :0]).shape == (4, 0)


def test_half_precision_is_rounded_once():
    layer = NormActivation("2x1o", torch.tanh)
    x = random(8, 6).float() * 300  # squares overflow in float16
    torch.testing.assert_close(layer(x.half()), layer(x.half().float()).half(), rtol=0, atol=0)


@pytest.mark.parametrize(
    "rep", [TensorRep(SL(2)), TensorRep(Similarity(3)), TensorRep(Lorentz()), Masses()], ids=str
)
def test_representations_that_stretch_are_refused(rep):
    with pytest.raises(ValueError, match="lengths of features need an orthogonal representation"):
        NormActivation(rep, torch.tanh)


def test_bad_arguments_are_refused():
    with pytest.raises(TypeError, match="rep_in must be linear"):
        NormActivation(Points(O(3)), torch.tanh)
    with pytest.raises(ValueError, match="epsilon must be positive and finite, got 0"):
        NormActivation("1o", torch.tanh, epsilon=0.0)
    with pytest.raises(ValueError, match=r"are \(\.\.\., 3\), got"):
        NormActivation("1o", torch.tanh)(torch.zeros(4))
