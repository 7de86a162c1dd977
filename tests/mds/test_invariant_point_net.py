"""PointNet behind an embedding: invariant, rebuilt from its configuration, clear about errors."""

from __future__ import annotations

import pytest
import torch

from equigeo.groups import Affine, O
from equigeo.mds import InvariantPointNet, PointNet
from equigeo.reps import Points, Trivial
from equigeo.testing import assert_equivariant, equivariance_error


def cloud() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(1, 40, 3, dtype=torch.float64, generator=generator)
    return x.square() * torch.tensor([3.0, 2.0, 1.0])


def test_rigid_motions_change_nothing() -> None:
    torch.manual_seed(0)
    model = InvariantPointNet.preset("pointnet", 5).double().eval()
    assert_equivariant(
        lambda x: model(x).detach(),
        Points(Affine(O(3))),
        Trivial(Affine(O(3)), 5),
        inputs=[cloud()],
    )


def test_the_plain_network_is_not_invariant() -> None:
    torch.manual_seed(0)
    model = PointNet(5).double().eval()
    error = equivariance_error(
        lambda x: model(x).detach(),
        Points(Affine(O(3))),
        Trivial(Affine(O(3)), 5),
        inputs=[cloud()],
    )
    assert error > 0.01


def test_scale_and_order_change_nothing() -> None:
    torch.manual_seed(0)
    model, x = InvariantPointNet.preset("pointnet", 5).double().eval(), cloud()
    torch.testing.assert_close(model(7 * x), model(x), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(model(x.flip(1)), model(x), rtol=1e-10, atol=1e-10)


def test_configuration_rebuilds_the_network() -> None:
    model = InvariantPointNet.preset("default", num_classes=4).eval()
    again = InvariantPointNet.from_config(model.config).eval()
    again.load_state_dict(model.state_dict())
    x = cloud().float()
    assert torch.equal(again(x), model(x))


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match="preset must be one of default, pointnet"):
        InvariantPointNet.preset("large", 4)
    with pytest.raises(ValueError, match="unknown are"):
        InvariantPointNet.from_config({"num_classes": 4, "colour": 1})
    with pytest.raises(ValueError, match="must be positive"):
        PointNet(0)
