"""Every public layer says by which representations its inputs and outputs move."""

import pytest
import torch
from torch import nn

from equigeo.reps import Representation
from tests.modes.row import Row
from tests.modes.table import ROWS

FUNCTION = "a function of coordinates, which holds no features"
DISTANCES = "a function of distances, which holds no features"
VALUES = "treats every value alike, of any group and number of channels"
PLAIN = "a plain network, which is made invariant by mds.Invariant"
UNDECLARED = {
    "affine.AffineKernel": FUNCTION,
    "affine.GroupPool": VALUES,
    "affine.SampleBatchNorm": VALUES,
    "affine.SampleLayerNorm": VALUES,
    "affine.MomentFrame": "what it shows turns by an angle that depends on the image",
    "affine.PointFrame": "what it shows turns by a rotation that depends on the cloud",
    "points.DGCNN": PLAIN,
    "points.PointNet": PLAIN,
    "points.PointNetPlusPlus": PLAIN,
    "points.PointTransformer": PLAIN,
    "mds.AttentionModel": "gives tours, which are no features",
    "mesh.EdgePool": VALUES,
    "nn.NormalizedActivation": VALUES,
    "nn.BesselBasis": DISTANCES,
    "nn.GaussianBasis": DISTANCES,
    "nn.PolynomialCutoff": DISTANCES,
    "nn.RadialMLP": DISTANCES,
}
LAYERS = [row for row in ROWS if not row.is_function]


def declared(layer: nn.Module) -> list[Representation]:
    """All representations of its inputs and outputs; None is what has an act of its own."""
    found: list[Representation] = []
    for name in ("rep_in", "rep_out"):
        reps = getattr(layer, name)
        reps = reps if isinstance(reps, (tuple, list)) else (reps,)
        assert all(rep is None or isinstance(rep, Representation) for rep in reps)
        found += [rep for rep in reps if rep is not None]
    return found


@pytest.mark.parametrize("row", LAYERS, ids=str)
def test_layers_declare_representations(row: Row) -> None:
    torch.manual_seed(0)
    layer = row.make()
    if row.covers in UNDECLARED:
        assert not hasattr(layer, "rep_in") or not hasattr(layer, "rep_out")
        return
    reps = declared(layer)
    assert reps
    groups = [rep.group for rep in reps]
    assert any(all(a.maps_to(b) for b in groups) for a in groups)


def test_reasons_are_given_for_layers_that_exist() -> None:
    assert set(UNDECLARED) <= {row.covers for row in LAYERS}
