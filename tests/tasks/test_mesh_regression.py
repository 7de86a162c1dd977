import csv
import json
import logging
from dataclasses import replace

import numpy as np
import pytest
import torch
import trimesh
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from equigeo.cli import main
from equigeo.datasets import MeshRegressionDataset, ellipsoids, load_regression_folder
from equigeo.mesh import (
    PrimalDualClassifier,
    PrimalDualGraph,
    PrimalDualSegmenter,
    TriangleMesh,
    load_mesh,
)
from equigeo.mesh.geometry.features import compute_features, log_sizes
from equigeo.mesh.geometry.orient import Surface
from equigeo.mesh.io.ply import format_ply
from equigeo.mesh.io.read_mesh_file import read_mesh_file
from equigeo.report import render_report
from equigeo.tasks import (
    TASKS,
    MeshClassification,
    MeshRegression,
    MeshSegmentation,
    find_task,
)
from equigeo.tasks.common.mesh_data import evaluated_config
from equigeo.tasks.mesh_classification.run import MeshConfig, mesh_digests
from equigeo.tasks.mesh_regression import (
    REGRESSION_RECIPES,
    MeshRegressionConfig,
    TrainedMeshRegressor,
    evaluate_mesh_regressor,
)
from equigeo.tasks.mesh_regression.task import (
    TargetError,
    _evaluate,
    summarize_regression,
    target_moments,
    warn_of_sizes,
)
from equigeo.tasks.mesh_segmentation import SegmentationConfig
from equigeo.tasks.pointcloud import PointConfig
from equigeo.training.data import LabelledBatch
from tests.datasets.segmentation.segmentation_files import write_obj
from tests.mesh import shapes

AT = pytest.mark.parametrize("at", ["mesh", "faces", "vertices"])


def config(epochs: int = 1, **options) -> MeshRegressionConfig:
    recipe = replace(REGRESSION_RECIPES["default"], epochs=epochs, batch_size=4)
    return MeshRegressionConfig("memory", recipe=recipe, **options)


def blobs(at: str = "mesh", number: int = 8) -> MeshRegressionDataset:
    return ellipsoids(at, number=number, subdivisions=1)


def small(at: str, outputs: int, **changes) -> PrimalDualClassifier | PrimalDualSegmenter:
    torch.manual_seed(0)
    changes = {"channels": (8, 8), "dropout": 0.0, **changes}
    if at == "mesh":
        return PrimalDualClassifier.preset(
            "default", outputs, keep=(0.7, None), hidden=8, **changes
        )
    return PrimalDualSegmenter.preset("default", outputs, outputs_at=at, keep=(0.7,), **changes)


def test_targets_of_ellipsoids_are_those_of_their_definitions():
    data = ellipsoids(number=3, subdivisions=3)
    for mesh, targets in zip(data.meshes, data.targets, strict=True):
        solid = trimesh.Trimesh(mesh.vertices.numpy(), mesh.faces.numpy())
        volume, area = abs(solid.volume), solid.area
        ball = 4 * np.pi * (3 * volume / (4 * np.pi)) ** (2 / 3)
        np.testing.assert_allclose(targets[0].tolist(), [ball / area, volume])
        for at in ("faces", "vertices"):
            (curvature,) = (
                ellipsoids(at, number=3, subdivisions=3).targets[data.meshes.index(mesh)].T
            )
            points = mesh.vertices if at == "vertices" else mesh.vertices[mesh.faces].mean(dim=1)
            # The quadric through the vertices, and half the divergence of its unit normal.
            x, y, z = mesh.vertices.T
            terms = torch.stack([x * x, y * y, z * z, 2 * x * y, 2 * y * z, 2 * x * z], dim=1)
            a, b, c, d, e, f = torch.linalg.lstsq(terms, torch.ones_like(x)[:, None]).solution[:, 0]
            form = torch.tensor([[a, d, f], [d, b, e], [f, e, c]])
            on = points / ((points @ form) * points).sum(dim=1, keepdim=True).sqrt()

            def normal(point, form=form):
                return nn.functional.normalize(form @ point, dim=0)

            turn = torch.func.vmap(torch.func.jacrev(normal))(on)
            expected = turn.diagonal(dim1=1, dim2=2).sum(dim=1) / 2 * area**0.5
            torch.testing.assert_close(curvature, expected)


@pytest.mark.parametrize("shape", [shapes.lumpy(shapes.icosphere(1)), shapes.bowl()])
def test_sizes_are_logarithms_that_only_scale_changes(shape):
    solid = trimesh.Trimesh(shape.vertices.numpy(), shape.faces.numpy())
    names = ("area", "volume", "length")
    (found,) = log_sizes(Surface.from_mesh(shape), names)
    points = trimesh.sample.sample_surface(solid, 200_000, seed=0)[0]
    assert found[0].item() == pytest.approx(np.log(solid.area))
    if solid.is_watertight:
        assert found[1].item() == pytest.approx(np.log(abs(solid.volume)))
    spread = np.sqrt(((points - points.mean(axis=0)) ** 2).sum(axis=1).mean())
    # of 200,000 samples, three standard errors
    assert found[2].item() == pytest.approx(np.log(spread), abs=3e-3)
    step = torch.tensor([2.0, 3.0, 1.0], dtype=torch.float64)
    for factor in (1e-100, 1e-3, 1e3, 1e100):
        (moved,) = log_sizes(Surface.from_mesh(shapes.scaled(shape, factor)), names)
        torch.testing.assert_close(moved, found + np.log(factor) * step)
    for moved in (shapes.turned(shape), shapes.mirrored(shape), shapes.moved(shape, (3, 4, 5))):
        torch.testing.assert_close(log_sizes(Surface.from_mesh(moved), names)[0], found)
    both = Surface.batch([Surface.from_mesh(x) for x in (shape, shapes.scaled(shape, 2))])
    torch.testing.assert_close(log_sizes(both, names)[1], found + np.log(2) * step)
    flat = Surface.from_mesh(shapes.triangle())
    assert bool(log_sizes(flat, names).isfinite().all())
    with pytest.raises(ValueError, match=r"sizes must be among .*got .'width'."):
        log_sizes(flat, ("width",))


@pytest.mark.parametrize("dual", ["single", "double_directed"])
def test_sizes_are_the_last_channels_of_every_face(dual):
    shape = shapes.lumpy(shapes.icosphere(1))
    model = small("mesh", 2, dual=dual, sizes=("length",))
    graph = model.graph(shape)
    plain = PrimalDualGraph.from_mesh(shape, graph.dual, "multiscale")
    assert torch.equal(graph.x_primal[:, :-1], plain.x_primal)
    assert torch.equal(graph.x_dual, plain.x_dual)
    length = log_sizes(graph.surface, ("length",)).float().item()
    assert {*graph.x_primal[:, -1].tolist()} == {length}
    with pytest.raises(ValueError, match=r"expects .* multiscale . length features, got .*multi"):
        model(plain)
    noisy = graph.deform(stretch=0.1, jitter=0.1, generator=torch.Generator().manual_seed(0))
    assert noisy.x_primal.shape == graph.x_primal.shape
    assert not torch.equal(noisy.x_primal[:, -1], graph.x_primal[:, -1])
    again = PrimalDualGraph.batch([noisy, graph])
    assert compute_features(again.surface, *again.kind)[0].shape == again.x_primal.shape
    with torch.no_grad():
        model.eval()
        assert not torch.equal(model(shape), model(shapes.scaled(shape, 2)))
        torch.testing.assert_close(model(shapes.mirrored(shape)), model(shape))


@pytest.mark.parametrize("loss", ["mse", "mae", "huber"])
def test_every_mesh_counts_alike_and_unknown_targets_do_not(loss):
    generator = torch.Generator().manual_seed(0)
    rows = [3 * torch.randn(n, 2, generator=generator, dtype=torch.float64) for n in (4, 1, 3)]
    rows[0][1, 0] = rows[1][0, 1] = rows[2][:] = torch.nan
    outputs = torch.randn(8, 2, generator=generator, dtype=torch.float64)
    padded = pad_sequence(rows, batch_first=True, padding_value=torch.inf)
    deviations = (2.0, 0.5)
    objective, batch = TargetError(loss, deviations), LabelledBatch(outputs, padded, 3)
    found, measure = objective.sums(nn.Identity(), batch)
    expected, distance = 0.0, 0.0
    for out, row in zip(outputs.split([4, 1, 3]), rows, strict=True):
        each = [
            abs(float(out[i, k] - row[i, k])) / deviations[k]
            for i in range(len(row)) for k in range(2) if not row[i, k].isnan()
        ]  # fmt: skip
        if each:
            losses = {
                "mse": [x * x for x in each], "mae": each,
                "huber": [x * x / 2 if x < 1 else x - 0.5 for x in each],
            }[loss]  # fmt: skip
            expected += sum(losses) / len(losses)
            distance += sum(each) / len(each)
    assert found.item() == pytest.approx(expected)
    assert measure.item() == pytest.approx(distance)
    assert objective.counted(batch) == 2


def test_targets_are_normalized_by_the_training_split_and_come_in_their_units():
    data = blobs()
    plan = MeshRegression().plan(config(), data)
    train = torch.cat(data.targets[:6])
    own = plan.model.config
    moments = torch.tensor([own.means, own.deviations], dtype=train.dtype)
    expected = torch.stack([train.mean(dim=0), train.std(dim=0, correction=0)])
    torch.testing.assert_close(moments, expected)
    plain = small("mesh", 2)
    model = small("mesh", 2, means=(5.0, -1.0), deviations=(2.0, 0.1))
    with torch.no_grad():
        for here, there in zip(model.parameters(), plain.parameters(), strict=True):
            here.copy_(there)
        expected = plain.eval()(data.meshes[0]) * torch.tensor([2.0, 0.1])
        torch.testing.assert_close(
            model.eval()(data.meshes[0]), expected + torch.tensor([5.0, -1.0])
        )
    with pytest.raises(ValueError, match=r"means and deviations must be of 2 outputs, got \(1, 0"):
        small("mesh", 2, means=(5.0,))
    for bad, message in ((2.0, "'b' is 2 in all training"), (torch.nan, "'b' is unknown in all")):
        rows = [torch.tensor([[float(k), bad]], dtype=torch.float64) for k in range(3)]
        with pytest.raises(ValueError, match=message):
            target_moments(rows, ("a", "b"))


def statistics(model) -> list[torch.Tensor]:
    return [x.clone() for name, x in model.named_buffers() if "running" in name]


@AT
def test_norms_are_fixed_so_that_training_and_evaluation_compute_the_same(at, tmp_path):
    data = blobs(at)
    options = target_moments(data.targets[:6], data.target_names)
    plan = MeshRegression().plan(config(at=at), data, small(at, len(data.target_names), **options))
    batch = plan.train.batch(range(6))
    before = statistics(plan.model)
    losses = [plan.objective.sums(plan.model.train(mode), batch)[0] for mode in (True, False)]
    assert torch.equal(*losses)
    assert all(map(torch.equal, statistics(plan.model), before))
    # With the statistics of all training meshes, the first norm gives mean 0 and variance 1.
    seen = []
    norm = next(m for m in plan.model.modules() if isinstance(m, nn.BatchNorm1d))
    norm.register_forward_hook(lambda *found: seen.append(found[2]))
    plan.model(batch.inputs)
    variance = seen[0].var(dim=0, correction=0)
    assert seen[0].mean(dim=0).abs().max() < 1e-5  # float32
    assert variance[variance > 0.5].sub(1).abs().max() < 1e-2  # of 480 rows, and epsilon
    trained = MeshRegression().train(config(2, at=at), tmp_path, data=data, model=plan.model)
    assert all(map(torch.equal, statistics(trained.model), before))


@AT
def test_a_checkpoint_gives_the_same_values_and_an_evaluation_their_errors(at, tmp_path, capsys):
    data = blobs(at)
    rows = list(data.targets)
    rows[7] = rows[7].clone()
    rows[7][0] = torch.nan
    data = replace(data, targets=tuple(rows))
    number = len(data.target_names)
    model = small(at, number, **target_moments(data.targets[:6], data.target_names))
    trained = MeshRegression().train(config(at=at), tmp_path, data=data, model=model)
    loaded = TrainedMeshRegressor.load(tmp_path / "model.ckpt")
    assert loaded.classes == data.target_names
    outputs = trained.outputs(data.meshes)
    for one, other, target in zip(outputs, loaded.outputs(data.meshes), rows, strict=True):
        assert torch.equal(one, other)
        assert one.shape == target.shape
    assert trained.outputs([]) == []
    found = evaluate_mesh_regressor(loaded, data, torch.tensor([6, 7]))
    error = torch.cat(outputs[6:]) - torch.cat(rows[6:])
    for k in range(number):
        known = error[~error[:, k].isnan(), k]
        value = torch.cat(rows[6:])[~error[:, k].isnan(), k]
        assert found.mae[k] == pytest.approx(known.abs().mean().item())
        assert found.rmse[k] == pytest.approx(known.square().mean().sqrt().item())
        r2 = 1 - known.square().sum() / (value - value.mean()).square().sum()
        assert len(value) == 1 or found.r2[k] == pytest.approx(r2.item())
    assert set(found.copies) == {"rotated", "reflected", "scaled", "translated"}
    assert max(found.copies.values()) < 1e-3  # float32 through a network of ten layers
    assert found.trained_on == 0
    measured = trained.history[-1]["test_error"]
    scale = torch.tensor(model.config.deviations)
    assert measured == pytest.approx((error.abs().nanmean(dim=0) / scale).mean().item())
    (line,) = MeshRegression().summarize(trained)
    assert line == f"test error {measured:.3f} deviations of the targets"
    page = render_report(summarize_regression(loaded, found, data, "equigeo evaluate"))
    assert "predictions do not depend on the scale" in page
    assert "R2" in page
    assert json.loads(json.dumps(found.to_dict()))["targets"] == list(data.target_names)
    other = replace(data, target_names=tuple(f"other {k}" for k in range(number)))
    with pytest.raises(ValueError, match=r"the data have other 0.* but the checkpoint predicts"):
        evaluate_mesh_regressor(loaded, other, torch.tensor([6]))


def test_nothing_known_is_measured_as_nothing():
    data = blobs("faces")
    unknown = replace(data, targets=tuple(x * torch.nan for x in data.targets))
    plan = MeshRegression().plan(config(at="faces"), data, small("faces", 1))
    test = replace(plan.train, labels=list(unknown.targets[:6]))
    assert _evaluate(test, "test_error", plan.model) == {}


def write_folder(root, data, part=lambda i: "train" if i < 6 else "test", suffix=".obj"):
    for i, mesh in enumerate(data.meshes):
        folder = root / part(i)
        folder.mkdir(parents=True, exist_ok=True)
        write_obj(folder / f"e{i}{suffix}", mesh.vertices.numpy(), mesh.faces.tolist())
    return root


def write_table(root, rows, header=("file", "volume", "note", "mass")):
    with (root / "targets.csv").open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def test_a_table_names_meshes_by_path_name_or_stem(tmp_path, caplog):
    data = blobs()
    write_folder(tmp_path, data, lambda i: ("train", "val", "test")[max(0, i - 5)])
    names = ["train/e0.obj", "e1.obj", *(f"e{i}" for i in range(2, 8)), "ghost"]
    rows = [[name, 2.5 * i, "text", "" if i == 3 else -i] for i, name in enumerate(names)]
    write_table(tmp_path, rows)
    found = load_regression_folder(tmp_path, ("mass", "volume"))
    assert found.target_names == ("mass", "volume")
    assert found.in_val.nonzero().flatten().tolist() == [6]
    expected = torch.tensor([[-float(i), 2.5 * i] for i in range(8)], dtype=torch.float64)
    expected[3, 0] = torch.nan
    order = [int(name.split("/e")[1].split(".")[0]) for name in found.names]
    torch.testing.assert_close(torch.cat(found.targets), expected[order], equal_nan=True)
    assert "1 rows of targets.csv belong to no mesh: ghost" in caplog.text
    with pytest.raises(ValueError, match="row 2: a target must be a finite number or empty, got"):
        load_regression_folder(tmp_path)


def test_parts_are_drawn_by_fractions_and_counted(tmp_path):
    write_folder(tmp_path, blobs(), lambda i: ".")
    write_table(tmp_path, [[f"e{i}", i, i] for i in range(8)], ("file", "mass", "volume"))
    given = MeshRegressionConfig(str(tmp_path), split="0.5,0.25,0.25", targets=("mass",))
    task, data = MeshRegression(), MeshRegression().load(given)
    assert "training + validation + test meshes of all: 4 + 2 + 2" in task.describe(given, data)
    assert "training + " not in task.describe(config(), data)
    for split in ("0.5", "0.5,0.6", "a,b", "folder,"):
        with pytest.raises(ValueError, match="split must be folder or positive fractions"):
            MeshRegressionConfig("x", split=split)
    for kind in (MeshConfig, MeshRegressionConfig, SegmentationConfig):
        with pytest.raises(ValueError, match="builtin has parts of its own"):
            kind("builtin", split="0.5,0.5")
    with pytest.raises(ValueError, match="cubes has parts of its own"):
        MeshConfig("cubes", split="0.5,0.5")
    assert MeshRegressionConfig("cubes", split="0.5,0.5").fractions == (0.5, 0.5)  # a folder
    assert SegmentationConfig("cubes", split="0.5,0.5").fractions == (0.5, 0.5)
    for kind in (MeshConfig, MeshRegressionConfig, SegmentationConfig, PointConfig):
        run, drawn = kind("mine", holdout=2), kind("mine", split="0.5,0.5")
        assert evaluated_config(run, "mine", None) == run
        assert evaluated_config(drawn, None, None) == drawn
        assert evaluated_config(drawn, "other", None) == kind("other")
        assert evaluated_config(run, "other", "0.5,0.5") == replace(drawn, data="other")
        assert evaluated_config(run, None, "0.5,0.5") == drawn
    for task in (MeshRegression(), MeshSegmentation(), MeshClassification()):
        assert "--split" in [argument.flag for argument in task.evaluate_arguments]


TABLES = [
    ([], ("file", "volume"), (), "2 of 2 meshes or their labels cannot be used.*e0.*has no row"),
    ([["e0", 1], ["e0", 2]], ("file", "volume"), (), "row 3 has 'e0' occurs twice"),
    ([["e0", 1], ["train/e0.obj", 2]], ("file", "volume"), (),
     "e0.obj: targets.csv has the rows 'train/e0.obj' and 'e0' for it; keep one"),
    ([["e0", 1, 2]], ("file", "volume"), (), "row 2 has 3 cells; the header has 2"),
    ([["e0", "inf"], ["e1", 1]], ("file", "volume"), (), "row 2: a target must be a finite"),
    ([["e0", "1_000"], ["e1", 1]], ("file", "volume"), (), "row 2: a target must be a finite"),
    ([["e0", 1], ["e1", 1]], ("file", "volume"), ("mass",), "asked for mass"),
    ([["e0", 1, 2], ["e1", 1, 2]], ("file", "volume", ""), (), "asked for a column without a name"),
    ([["e0"], ["e1"]], ("file",), (), "must have a column of files, then one column per target"),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "header", "targets", "message"), TABLES)
def test_an_unusable_table_is_one_error(rows, header, targets, message, tmp_path):
    write_folder(tmp_path, blobs(number=2))
    write_table(tmp_path, rows, header)
    with pytest.raises(ValueError, match=f"(?s){message}"):
        load_regression_folder(tmp_path, targets)


def test_a_missing_or_damaged_table_is_named(tmp_path):
    write_folder(tmp_path, blobs(number=2))
    with pytest.raises(ValueError, match=r"found no targets.csv"):
        load_regression_folder(tmp_path)
    (tmp_path / "targets.csv").write_bytes(b"\xff\xfe,\x00")
    with pytest.raises(ValueError, match="is no table of comma-separated values"):
        load_regression_folder(tmp_path)
    write_folder(tmp_path, blobs(number=2), lambda i: "test")
    write_table(tmp_path, [["e0", 1], ["e1", 2]], ("file", "volume"))
    with pytest.raises(ValueError, match=r"'e0' is several meshes; name it 'train/e0.obj'"):
        load_regression_folder(tmp_path)


QUADS = [
    [0, 1, 3, 2],
    [4, 6, 7, 5],
    [0, 4, 5, 1],
    [0, 0, 1],
    [2, 3, 7, 6],
    [0, 2, 6, 4],
    [1, 5, 7, 3],
]


@pytest.mark.parametrize("form", ["npy", "txt"])
def test_fields_follow_the_repair_of_their_mesh(form, tmp_path, caplog):
    corners = np.r_[shapes.cube().vertices.numpy(), [[9, 9, 9]]]  # the last is in no face
    for part, name in (("train", "a"), ("test", "b")):
        (tmp_path / part).mkdir()
        write_obj(tmp_path / part / f"{name}.obj", corners, QUADS)
    (tmp_path / "targets").mkdir()

    def write(rows):
        for name in "ab":
            path = tmp_path / "targets" / f"{name}.{form}"
            np.save(path, rows) if form == "npy" else np.savetxt(path, rows)

    rows = np.stack([np.arange(9.0), -np.arange(9.0)], axis=1)
    write(rows)
    found = load_regression_folder(tmp_path, targets_at="vertices")
    assert found.target_names == ("target 0", "target 1")
    assert found.targets[0][:, 0].tolist() == list(range(8))
    write(rows[:7])
    with pytest.raises(ValueError, match="a row for each of 9 vertices of the file and any number"):
        load_regression_folder(tmp_path, targets_at="vertices")
    found = load_regression_folder(tmp_path, ("heat", "flux"), "faces")
    assert found.targets[0][:, 0].tolist() == [0, 0, 1, 1, 2, 2, 4, 4, 5, 5, 6, 6]
    assert "belong to no mesh" not in caplog.text
    with pytest.raises(ValueError, match=r"targets/a.*and 1 columns, got \(7, 2\)"):
        load_regression_folder(tmp_path, ("heat",), "faces")
    (tmp_path / "test" / "b.obj").rename(tmp_path / "test" / "a.obj")
    with pytest.raises(ValueError, match=r"2 of 2.*\n.*another mesh has the same name, and so the"):
        load_regression_folder(tmp_path, targets_at="faces")
    assert f"1 target files belong to no mesh: b.{form}" in caplog.text


def test_fields_are_read_from_properties_of_ply_files(tmp_path):
    mesh = shapes.lumpy(shapes.cube())
    heat, load = torch.arange(8.0) ** 2, torch.arange(12.0)
    for part, name in (("train", "a"), ("test", "b")):
        (tmp_path / part).mkdir()
        text = format_ply(mesh, face_values={"load": load}, vertex_values={"heat": heat})
        (tmp_path / part / f"{name}.ply").write_bytes(text)
    found = load_regression_folder(tmp_path, ("heat", "load"), "faces")
    torch.testing.assert_close(found.targets[0][:, 0], heat[mesh.faces].mean(dim=1).double())
    assert found.targets[0][:, 1].tolist() == list(range(12))
    found = load_regression_folder(tmp_path, ("heat",), "vertices")
    assert torch.equal(found.targets[0][:, 0], heat.double())
    for targets, at, message in (
        (("load",), "vertices", "train/a.ply: has no property 'load' of its vertices; it has"),
        (("red",), "faces", "has no property 'red' of its faces or vertices; it has load, heat"),
        ((), "faces", "has no file targets/a.npy or .txt; to read properties"),
    ):
        with pytest.raises(ValueError, match=message):
            load_regression_folder(tmp_path, targets, at)


def test_vertices_that_are_merged_have_the_mean_of_their_targets(tmp_path):
    shape = shapes.lumpy(shapes.cube())
    soup = TriangleMesh(shape.vertices[shape.faces.flatten()], torch.arange(36).reshape(12, 3))
    heat = torch.arange(36.0).double() ** 2
    heat[::5] = torch.nan
    corner = shape.faces.flatten()
    expected = torch.stack([heat[corner == k].nanmean() for k in range(8)])
    for part, name in (("train", "a"), ("test", "b")):
        (tmp_path / part).mkdir()
        text = format_ply(soup, vertex_values={"heat": heat})
        (tmp_path / part / f"{name}.ply").write_bytes(text)
    for file in (False, True):
        if file:
            (tmp_path / "targets").mkdir()
            for name in "ab":
                np.save(tmp_path / "targets" / f"{name}.npy", heat.numpy())
        found = load_regression_folder(tmp_path, ("heat",), "vertices")
        at = torch.cdist(found.meshes[0].vertices, shape.vertices).argmin(dim=1)
        torch.testing.assert_close(found.targets[0][:, 0], expected[at], equal_nan=True)


def test_targets_of_no_use_are_told():
    data = blobs()
    far = [x + 1e6 for x in data.targets]
    with pytest.raises(ValueError, match=r"'sphericity' varies by .*subtract a constant"):
        target_moments(far, data.target_names)
    with pytest.raises(ValueError, match="targets must be finite, or NaN if unknown, got infinity"):
        replace(data, targets=tuple(x * torch.inf for x in data.targets))
    with pytest.raises(ValueError, match=r"targets_at must be one of .*, got 'edges'"):
        load_regression_folder("no/such/folder", targets_at="edges")


def test_a_target_that_follows_the_size_is_noted(caplog):
    data = ellipsoids(number=40, subdivisions=0)
    large = [torch.cat((x[:, :1], 7 * x[:, 1:]), dim=1) for x in data.targets]
    with caplog.at_level(logging.WARNING):
        warn_of_sizes(replace(data, targets=tuple(large)))
    assert "volume: values follow the size of the mesh" in caplog.text
    assert "sphericity" not in caplog.text
    assert "--sizes area,volume,length" in caplog.text
    caplog.clear()
    warn_of_sizes(replace(data, targets=tuple(x.flip(1) * 0 + x[:, :1] for x in data.targets)))
    assert not caplog.text


@pytest.mark.full
def test_the_size_of_a_mesh_is_learnt_only_with_it(tmp_path):
    data = ellipsoids(number=32, subdivisions=1)
    data = replace(
        data, target_names=("volume",), targets=tuple(x[:, 1:].log() for x in data.targets)
    )
    r2 = []
    for number, sizes in enumerate(((), ("volume",))):
        moments = target_moments(data.targets[:24], data.target_names)
        model = small("mesh", 1, sizes=sizes, norm="group", **moments)
        chosen = config(60, sizes=sizes)
        chosen = replace(chosen, recipe=replace(chosen.recipe, learning_rate=0.02))
        folder = tmp_path / str(number)
        trained = MeshRegression().train(chosen, folder, data=data, model=model)
        found = evaluate_mesh_regressor(trained, data, (~data.in_train).nonzero().flatten())
        assert ("scaled" in found.copies) == (not sizes)
        r2.append(found.r2[0])
    assert r2[1] > 0.8 > 0.5 > r2[0]


@AT
def test_the_command_line_trains_evaluates_and_predicts(at, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = blobs(at)
    folder = write_folder(tmp_path / "data", data)
    if at == "mesh":
        rows = [[f"e{i}", *row[0].tolist()] for i, row in enumerate(data.targets)]
        write_table(folder, rows, ("file", *data.target_names))
    else:
        (folder / "targets").mkdir()
        for i, row in enumerate(data.targets):
            np.save(folder / "targets" / f"e{i}.npy", row.numpy())
    options = ["--at", at, "--loss", "huber", "--sizes", "length", "--epochs", "1"]
    if at != "mesh":
        options += ["--targets", "mean curvature"]
    run = ["train", "mesh-regression", "--data", str(folder), *options]
    assert main([*run, "--dry-run"]) == 0
    assert "shape and length of a mesh" in capsys.readouterr().out
    assert main([*run, "--output", "run"]) == 0
    assert main(["evaluate", "run/model.ckpt"]) == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("MAE", "RMSE", "R2", "trained on: 0 of 2 meshes"))
    assert "scaled" not in shown
    if at == "mesh":  # other data, with more columns
        more = write_folder(tmp_path / "more", data)
        rows = [["note", *row.flip(1)[0].tolist(), f"e{i}"] for i, row in enumerate(data.targets)]
        write_table(
            more, [row[-1:] + row[:-1] for row in rows],
            ("file", "note", *data.target_names[::-1]),
        )  # fmt: skip
        assert main(["evaluate", "run/model.ckpt", "--data", str(more), "--allow-trained"]) == 0
        again = capsys.readouterr().out
        assert [x for x in again.splitlines() if "MAE" in x] == [
            x for x in shown.splitlines() if "MAE" in x
        ]
    file = folder / "test" / "e6.obj"
    assert main(["predict", "run/model.ckpt", str(file), "--results", "out.csv", "--view"]) == 0
    rows = list(csv.reader((tmp_path / "out.csv").read_text().splitlines()))
    trained = TrainedMeshRegressor.load(tmp_path / "run" / "model.ckpt")
    mesh, _ = load_mesh(file)
    (expected,) = trained.outputs([mesh])
    assert (tmp_path / "e6.values.html").exists()
    assert (tmp_path / "e6.values.ply").exists() == (at != "mesh")
    if at == "mesh":
        assert rows[0] == ["file", "sphericity", "volume", "remark"]
        assert list(map(float, rows[1][1:3])) == expected[0].tolist()
        return
    written = read_mesh_file(tmp_path / "e6.values.ply").attributes
    values = {"faces": written.faces, "vertices": written.vertices}[at]["mean_curvature"]
    np.testing.assert_allclose(values, expected[:, 0].numpy())
    again = ["--at", at, "--targets", "mean_curvature", "--epochs", "1"]
    for name in ("train/a.ply", "train/b.ply", "test/c.ply"):
        path = tmp_path / "again" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((tmp_path / "e6.values.ply").read_bytes())
    assert main(["train", "mesh-regression", "--data", "again", *again, "--output", "two"]) == 0


def test_values_are_those_of_the_polygons_and_vertices_of_the_file(tmp_path):
    corners = np.r_[shapes.lumpy(shapes.cube(), amount=0.2).vertices.numpy(), [[9, 9, 9]]]
    write_obj(tmp_path / "box.obj", corners, QUADS)
    mesh, _ = load_mesh(tmp_path / "box.obj")
    one, two, three = mesh.vertices[mesh.faces].unbind(1)
    area = torch.linalg.cross(two - one, three - one).norm(dim=1)
    for at in ("faces", "vertices"):
        model = small(at, 1)
        trained = TrainedMeshRegressor(model.eval(), ("x",), config(at=at), "0")
        found = MeshRegression().predict(trained, tmp_path / "box.obj")
        (tmp_path / "box.ply").write_bytes(found.files[".values.ply"])
        file = read_mesh_file(tmp_path / "box.ply")
        assert file.sizes.tolist() == list(map(len, QUADS))
        (rows,) = trained.outputs([mesh])
        if at == "vertices":
            values = file.attributes.vertices["x_"]
            np.testing.assert_allclose(values, [*rows[:, 0].tolist(), np.nan])
            continue
        pairs = (area * rows[:, 0].double()).reshape(6, 2).sum(1) / area.reshape(6, 2).sum(1)
        expected = pairs.tolist()
        np.testing.assert_allclose(
            file.attributes.faces["x_"], [*expected[:3], np.nan, *expected[3:]]
        )


def test_the_generated_data_have_the_named_targets():
    data = MeshRegression().load(MeshRegressionConfig("builtin", targets=("volume",)))
    assert (data.target_names, data.targets[0].shape, len(data)) == (("volume",), (1, 1), 80)
    with pytest.raises(ValueError, match=r"builtin has targets .*got .'mass'"):
        MeshRegression().load(MeshRegressionConfig("builtin", targets=("mass",)))
    with pytest.raises(ValueError, match="number and subdivisions must be at least 0"):
        ellipsoids(number=1)


@pytest.mark.parametrize("task", ["classification", "segmentation", "regression"])
def test_own_inputs_are_read_from_the_command_line(task, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ("heat", "nx", "ny", "nz")
    generator = torch.Generator().manual_seed(0)
    for i in range(6):
        mesh = shapes.lumpy(shapes.icosphere(1), seed=i)
        values = dict(zip(names, torch.randn(4, 80, generator=generator), strict=True))
        label = torch.arange(80) % 2 if task == "segmentation" else None
        text = format_ply(mesh, face_values=values, face_labels=label)
        part = "train" if i < 4 else "test"
        path = tmp_path / (
            f"data/{'ab'[i % 2]}/{part}" if task == "classification" else f"data/{part}"
        )
        path.mkdir(parents=True, exist_ok=True)
        (path / f"m{i}.ply").write_bytes(text)
    write_table(tmp_path / "data", [[f"m{i}", i] for i in range(6)], ("file", "number"))
    run = ["train", f"mesh-{task}", "--data", "data", "--epochs", "1", "--inputs", ",".join(names)]
    assert main([*run, "--output", "run"]) == 0
    assert main(["evaluate", "run/model.ckpt"]) == 0
    capsys.readouterr()
    files = sorted(str(path) for path in (tmp_path / "data").rglob("m[45].ply"))
    assert main(["predict", "run/model.ckpt", *files]) == 0
    trained = find_task(tmp_path / "run" / "model.ckpt", TASKS).trained_type.load("run/model.ckpt")
    assert trained.config.inputs == trained.model.config.inputs == names
    mesh, _ = load_mesh(files[0], inputs=names)
    plain, _ = load_mesh(files[0])
    turn = torch.linalg.qr(torch.randn(3, 3, generator=generator, dtype=torch.float64))[0]
    with torch.no_grad():
        found = trained.model(mesh)
        # float32 through a network of ten layers
        torch.testing.assert_close(trained.model(mesh.act(turn)), found, rtol=1e-3, atol=1e-3)
        still = replace(mesh.act(turn), inputs=mesh.inputs)
        assert (trained.model(still) - found).abs().max() > 1e-2
    assert mesh_digests([mesh]) != mesh_digests([plain])
    graph = trained.model.graph(mesh)
    assert torch.equal(mesh_digests([graph]), mesh_digests([mesh]))
    write_obj(tmp_path / "plain.obj", mesh.vertices.numpy(), mesh.faces.tolist())
    assert main(["predict", "run/model.ckpt", "plain.obj"]) == 2
    assert "plain.obj: has no property 'heat' of its faces or vertices" in capsys.readouterr().err
