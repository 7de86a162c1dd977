"""Layers on images and points with one argument wrong."""

import pytest
import torch

from equigeo import affine
from equigeo.groups import SO, Similarity, equidistant_rotations, finite_rotations
from equigeo.points import pad_clouds
from equigeo.reps import Points, TensorRep
from tests.affine.test_kernels import sl2
from tests.wrong_inputs import Wrong, refused, wrong_calls

EIGHT, TURNS = equidistant_rotations(8), finite_rotations("dihedral")
IMAGE, FIELD = torch.rand(2, 1, 9, 9), torch.rand(2, 4, 8, 9, 9)
CLOUD = torch.randn(2, 20, 3, generator=torch.Generator().manual_seed(0))
SPEC = affine.KernelSpec(3)
# Kernels take the dtype of features; any batch and any size of images will do.
FREE = {f"x: {kind}" for kind in ("other dtype", "wider", "longer", "meta", "complex")}
FREE |= {"outputs: None"}
CONV, SEPARABLE = affine.GroupConv(SO(2), 4, 6, SPEC), affine.SeparableGroupConv(SO(2), 4, 6, SPEC)
NAMES = {"x": "features", "inputs": "samples", "outputs": "samples"}
OPTIONAL = {"centers: None", "mask: None", "outputs: None"}
PLACES = {
    f"{name}: {kind}" for name in ("positions", "centers") for kind in ("other dtype", "meta")
}

CALLS: list[Wrong] = [
    *(
        wrong
        for layer, given in (
            (affine.LiftConv(SO(2), 1, 4, SPEC), {"x": IMAGE, "samples": EIGHT}),
            (CONV, {"x": FIELD, "inputs": EIGHT, "outputs": EIGHT}),
            (SEPARABLE, {"x": FIELD, "inputs": EIGHT}),
            (affine.ProjectConv(SO(2), 4, 6, SPEC), {"x": FIELD, "inputs": EIGHT}),
        )
        for wrong in wrong_calls(layer, given, names=NAMES, fine=FREE - {"x: complex"})
    ),
    *wrong_calls(
        affine.GroupPool(), {"x": FIELD, "samples": EIGHT}, names=NAMES, fine=FREE | {"x: integers"}
    ),
    *wrong_calls(
        affine.TensorReadout(TensorRep(SO(2), up=1)),
        {"x": FIELD, "samples": EIGHT},
        names=NAMES,
        fine=FREE | {"x: integers"},
    ),
    *wrong_calls(
        affine.MomentFrame(9),
        {"image": IMAGE},
        names={"image": "images"},
        fine={f"image: {kind}" for kind in ("other dtype", "wider", "longer", "meta")},
    ),
    *wrong_calls(
        affine.PointFrame(Similarity(3)),
        {"points": CLOUD},
        fine={"points: other dtype", "points: longer", "points: meta"},
    ),
    *wrong_calls(
        affine.PointLiftConv(SO(3), 4, 5),
        {
            "x": torch.rand(2, 4, 20),
            "positions": CLOUD,
            "samples": TURNS,
            "centers": CLOUD[:, :6],
            "mask": torch.ones(2, 20, dtype=torch.bool),
        },
        names={"x": "features", "positions": "positions|features"},
        fine=OPTIONAL | PLACES | {"x: other dtype", "x: meta", "mask: meta"},
    ),
    *wrong_calls(
        affine.PointGroupConv(SO(3), 4, 5),
        {"x": torch.rand(2, 4, 4, 20), "positions": CLOUD, "inputs": TURNS},
        names=NAMES | {"positions": "positions|features"},
        fine=OPTIONAL | PLACES | {"x: other dtype", "x: meta"},
    ),
    *wrong_calls(
        affine.AffinePointNet.preset("default", 3).eval(),
        {"points": CLOUD},
        fine={"points: longer"},
    ),
    *wrong_calls(
        affine.AffineResNet.preset("default", 3).eval(),
        {"images": torch.rand(2, 1, 40, 40)},
        fine={"images: wider", "images: longer"},
    ),
]


@pytest.mark.parametrize("wrong", CALLS, ids=lambda wrong: wrong.label)
def test_a_wrong_argument_gives_one_sentence_that_names_it(wrong: Wrong) -> None:
    wrong.check()


def test_rows_of_a_batch_are_told_to_be_padded():
    layer = affine.PointLiftConv(SO(3), 1, 2)
    rows, batch = CLOUD[0], torch.tensor([0] * 8 + [1] * 12)
    with pytest.raises(ValueError, match=r"positions must be .* got \(20, 3\): put clouds .*pad_c"):
        layer(torch.ones(1, 1, 20), rows, TURNS)
    with pytest.raises(ValueError, match="a batch vector is none, see pad_clouds"):
        layer(torch.ones(1, 1, 20), rows[None], TURNS, mask=batch)
    positions, mask = pad_clouds(rows, batch=batch)
    found = layer(mask[:, None].float(), positions, TURNS, mask=mask)[0]
    for cloud, there, out in zip(positions, mask, found, strict=True):
        alone = layer(torch.ones(1, 1, int(there.sum())), cloud[there][None], TURNS)[0]
        torch.testing.assert_close(out[..., there], alone[0])


def test_arrays_are_positions():
    layer = affine.PointLiftConv(SO(3), 1, 2)
    ones = torch.ones(2, 1, 20)
    want = layer(ones, CLOUD, TURNS, CLOUD[:, :5])[0]
    found = layer(ones, CLOUD.double().numpy(), TURNS, CLOUD[:, :5].numpy())[0]
    torch.testing.assert_close(found, want)
    frame = affine.PointFrame(SO(3))
    torch.testing.assert_close(frame(CLOUD.numpy()), frame(CLOUD))
    model = affine.AffinePointNet.preset("default", 3).eval()
    torch.testing.assert_close(model(CLOUD.double().numpy()), model(CLOUD))


def test_layers_and_samples_are_on_one_device():
    lift = affine.LiftConv(SO(2), 1, 4, SPEC), IMAGE
    kinds = (affine.GroupConv, affine.SeparableGroupConv, affine.ProjectConv)
    for layer, x in (lift, *((kind(SO(2), 4, 6, SPEC), FIELD) for kind in kinds)):
        with pytest.raises(ValueError, match="must be on meta as the layer is, got cpu: use sa"):
            layer.to("meta")(x.to("meta"), EIGHT)


LIFT, PROJECT = affine.LiftConv(SO(2), 1, 2), affine.ProjectConv(SO(2), 4, 2)
VECTORS = affine.TensorReadout(TensorRep(SO(2), up=1))
FEATURES, OF_SO2 = "features must be", r"samples must be of SO\(2\), got SL\(2\)"


def test_arguments_that_do_not_fit_together_raise():
    refused("channels must be positive", affine.GroupConv, SO(2), 0, 1)
    refused("channels must be positive, got 1 and 0", affine.LiftConv, SO(2), 1, 0)
    refused("stride must be at least 1, got 0", affine.LiftConv, SO(2), 1, 1, stride=0)
    refused("channels must be positive, got 0 and 1", affine.ProjectConv, SO(2), 0, 1)
    for conv in (CONV, SEPARABLE):
        refused(rf"{FEATURES} \(batch, 4, 8, size, size\)", conv, FIELD[:, :, 1:], EIGHT)
        refused(FEATURES, conv, FIELD[:, 1:], EIGHT)
        refused(OF_SO2, conv, FIELD, sl2(1.0))
        refused(OF_SO2, conv, FIELD, EIGHT, sl2(1.0))
    refused(OF_SO2, LIFT, IMAGE, sl2(1.0))
    refused(FEATURES, LIFT, torch.rand(1, 2, 9, 9), EIGHT)
    refused(FEATURES, PROJECT, FIELD[:, :, 1:], EIGHT)
    refused("for 8 samples", affine.GroupPool(), FIELD[:, :, 1:], EIGHT)
    refused("'max' or 'mean'", affine.GroupPool, "median")
    refused(r"C \* 2", VECTORS, FIELD[:, 1:], EIGHT)
    refused("samples must be of", VECTORS, FIELD, sl2(1.0))
    refused("linear representation", affine.TensorReadout, Points(SO(2)))
