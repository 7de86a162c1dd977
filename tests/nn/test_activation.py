from __future__ import annotations

import pytest
import torch

from equigeo.nn import Activation, NormalizedActivation
from equigeo.testing import assert_equivariant, tolerance


@pytest.mark.parametrize("layout", ["mul_ir", "ir_mul"])
def test_terms_are_acted_on_one_by_one(layout):
    activation = Activation(
        "2x0e+2x1o+2x0o+1x0o", [torch.exp, None, torch.tanh, torch.abs], layout=layout
    )
    assert str(activation.irreps_out) == "2x0e+2x1o+2x0o+1x0e"
    x = torch.randn(4, 11, generator=torch.Generator().manual_seed(0))
    z = activation(x)
    assert z[:, 2:8].equal(x[:, 2:8])
    torch.testing.assert_close(z[:, 10], x[:, 10].abs(), **tolerance(x.dtype))
    assert_equivariant(activation, inputs=[x])


def test_empty_irreps_make_empty_features():
    assert Activation("", [])(torch.zeros(3, 0)).shape == (3, 0)


BAD = {
    "number": ("2x0e+1x0o", [torch.tanh], "one entry per term of 2x0e[+]1x0o, 2, got 1"),
    "vector": ("2x1o", [torch.tanh], "scalars only, got tanh for 2x1o"),
    "parity": ("2x0o", [torch.exp], "2x0o needs an even or odd function, exp is neither"),
    "scaled": ("2x0o", [NormalizedActivation(torch.exp)], "exp is neither"),
    "text": ("2z", [None], "irreps_in: irreps '2z' cannot be read"),
}


@pytest.mark.parametrize(("irreps", "acts", "message"), BAD.values(), ids=BAD.keys())
def test_bad_arguments_are_named(irreps, acts, message):
    with pytest.raises(ValueError, match=message):
        Activation(irreps, acts)


def test_wrong_features_are_refused():
    with pytest.raises(ValueError, match=r"features of .* are \(\.\.\., 2\), got \(3,\)"):
        Activation("2x0e", [torch.tanh])(torch.zeros(3))
