"""Layers around a product against those of e3nn."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.interop import accelerate, from_e3nn
from equigeo.interop.optional import require_e3nn
from equigeo.nn import Activation, Linear, NormalizedActivation, RadialMLP
from equigeo.nn.module import allow_unreached
from equigeo.reps import Irreps
from equigeo.testing import tolerance
from tests.interop.e3nn_modules import float64, o3, random

require_e3nn()  # before the import below: e3nn 0.4.4 imports in no other way
from e3nn import nn as e3nn_nn  # noqa: E402
from e3nn.math import normalize2mom  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit"),
    # Random irreps and lists of paths leave terms that nothing arrives at.
    pytest.mark.filterwarnings("ignore:.* has no path to .*:UserWarning"),
    pytest.mark.filterwarnings("ignore:.* needs a path to its output:UserWarning"),
]

EXACT = tolerance(torch.float64, terms=16)  # channels of the widest layer
TANH, SILU, ABS = torch.tanh, torch.nn.functional.silu, torch.abs


def as_e3nn(function):
    """With the scale that e3nn estimates from random numbers."""
    if function is None:
        return None
    estimate = normalize2mom(function)
    return NormalizedActivation(function, 1.0 if estimate._is_id else estimate.cst)


@pytest.mark.parametrize("function", [TANH, SILU, torch.sigmoid, torch.relu, torch.exp])
def test_scales_agree_with_the_estimate_of_e3nn(function):
    estimate = normalize2mom(function).cst
    # A million samples: half of the relative error of a mean square, sqrt(E f^4 / (E f^2)^2 - 1) in
    # thousands, which is sqrt(e^4 - 1) = 7.3 for the exponential; five of them.
    assert NormalizedActivation(function).scale == pytest.approx(estimate, rel=0.02)
    if function is not torch.exp:
        # At most 2.5 / 2 thousandths, of the SiLU; one and a half of them.
        assert NormalizedActivation(function).scale == pytest.approx(estimate, rel=2e-3)


GATES = {
    "odd gates": ("16x0o", [TANH], "32x0o", [TANH], "16x1e+16x1o"),
    "mixed": (
        "4x0e+3x0o+2x0e",
        [SILU, ABS, None],
        "2x0e+3x0o+1x0o",
        [SILU, TANH, ABS],
        "3x1o+1x2e+2x1o",
    ),
    "scalars only": ("2x0e", [SILU], "", [], ""),
    "gated only": ("", [], "3x0e", [SILU], "3x1o"),
    "nothing at 0": ("0x0e+2x0o", [SILU, TANH], "3x0e", [SILU], "0x0e+1x1o+2x2e"),
}


@pytest.mark.parametrize("problem", GATES.values(), ids=GATES.keys())
def test_gates_and_activations_are_converted_with_the_constants_of_e3nn(problem):
    with float64():
        gate = e3nn_nn.Gate(*problem)
        vectors = e3nn_nn.Activation("2x0e+2x1o+2x0o+1x0o", [torch.exp, None, TANH, ABS])
    for theirs in (gate, gate.act_scalars, vectors):
        x = random(5, theirs.irreps_in.dim)
        expected = theirs(x)
        ours = from_e3nn(theirs)
        assert type(ours).__module__.startswith("equigeo.")
        assert str(ours.irreps_in) == str(theirs.irreps_in)
        assert str(ours.irreps_out) == str(theirs.irreps_out)
        torch.testing.assert_close(ours(x), expected, **EXACT)
        columns = from_e3nn(theirs, layout="ir_mul")
        moved = columns(ours.irreps_in.to_layout(x, "ir_mul"))
        torch.testing.assert_close(moved, ours.irreps_out.to_layout(expected, "ir_mul"), **EXACT)
        exact = from_e3nn(theirs, constants="exact")(x)
        torch.testing.assert_close(exact, expected, rtol=1e-2, atol=1e-2)  # twice 2e-3
        accelerate(theirs)
        torch.testing.assert_close(from_e3nn(theirs)(x), expected, **EXACT)


def test_exact_constants_are_those_of_this_library():
    theirs = e3nn_nn.Activation("3x0e", [SILU])
    x = random(5, 3)
    exact = from_e3nn(theirs, constants="exact")(x)
    assert torch.equal(exact, Activation("3x0e", [SILU])(x))
    assert not torch.allclose(exact, from_e3nn(theirs)(x), rtol=1e-4)  # e3nn is off by 1.6e-3
    with pytest.raises(ValueError, match='constants must be "e3nn" or "exact", got \'sampled\''):
        from_e3nn(theirs, constants="sampled")


@pytest.mark.parametrize("out_act", [False, True])
def test_radial_networks_agree_and_exchange_states(out_act):
    options = dict(variance_in=2, variance_out=3, out_act=out_act)
    theirs = e3nn_nn.FullyConnectedNet([4, 8, 8, 5], SILU, **options).double()
    ours = RadialMLP([4, 8, 8, 5], as_e3nn(SILU), **options).double()
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    x = random(6, 4)
    torch.testing.assert_close(ours(x), theirs(x), **EXACT)


terms = st.tuples(st.integers(0, 3), st.tuples(st.integers(0, 2), st.sampled_from([1, -1])))
irreps = st.lists(terms, max_size=4).map(Irreps)


@given(irreps, irreps, st.booleans(), st.sampled_from(["element", "path"]))
def test_linear_agrees_and_exchanges_states(irreps_in, irreps_out, shared, normalization):
    options = dict(shared_weights=shared, path_normalization=normalization)
    with float64():
        theirs = o3.Linear(str(irreps_in), str(irreps_out), **options)
    with allow_unreached():  # e3nn takes irreps between which there is no path
        ours = Linear(str(irreps_in), str(irreps_out), **options).double()
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    assert [tuple(ins) for ins in ours.instructions] == [tuple(ins) for ins in theirs.instructions]
    weight = None if shared else random(6, ours.weight_numel, seed=1)
    x = random(6, irreps_in.dim)
    torch.testing.assert_close(ours(x, weight), theirs(x, weight), **EXACT)
