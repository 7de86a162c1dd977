import json
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from equigeo.cli import main
from equigeo.datasets import SegmentedMeshDataset
from equigeo.mesh import PrimalDualSegmenter, load_mesh
from equigeo.mesh.geometry.half_edges import HalfEdgeGeometry
from equigeo.mesh.io.read_mesh_file import read_mesh_file
from equigeo.report import render_report
from equigeo.tasks import MeshSegmentation, find_task
from equigeo.tasks.mesh_classification.run import PADDING, LabelledMeshes, labelled_meshes
from equigeo.tasks.mesh_segmentation import (
    SEGMENTATION_RECIPES,
    SegmentationConfig,
    TrainedMeshSegmenter,
    evaluate_mesh_segmenter,
    split_segmented_meshes,
)
from equigeo.tasks.mesh_segmentation.task import (
    FaceCrossEntropy,
    load_segmented_meshes,
    mesh_mean_weights,
    segment_file,
    summarize_segmentation,
)
from equigeo.tasks.mesh_segmentation.task import _evaluate as evaluate_faces
from equigeo.training.data import EpochBatches, LabelledBatch
from tests.datasets.segmentation.segmentation_files import write_labels, write_obj
from tests.mesh import shapes


def halves(train: int = 4, test: int = 2) -> SegmentedMeshDataset:
    """Drops: a ball with a tip, told from the rest by its distance from the center."""
    meshes, labels = [], []
    for seed in range(train + test):
        ball = shapes.icosphere(1)
        far = 1 + 0.1 * (seed % 3) + ball.vertices[:, 2:].clamp_min(0)
        mesh = shapes.mesh(ball.vertices * far, ball.faces)
        meshes.append(shapes.turned(mesh, seed))
        labels.append((mesh.vertices[mesh.faces].mean(dim=1)[:, 2] > 0.5).long())
    labels[0][:7] = -1  # nobody has said
    return SegmentedMeshDataset(
        meshes=tuple(meshes),
        labels=tuple(labels),
        classes=("rest", "tip"),
        names=tuple(f"drop {k}" for k in range(train + test)),
        in_train=torch.arange(train + test) < train,
    )


def short_config(epochs: int = 60, resolutions: tuple[float, ...] = ()) -> SegmentationConfig:
    recipe = replace(
        SEGMENTATION_RECIPES["default"], epochs=epochs, batch_size=4, resolutions=resolutions
    )
    return SegmentationConfig("memory", recipe=recipe)


def small_segmenter() -> PrimalDualSegmenter:
    torch.manual_seed(0)
    return PrimalDualSegmenter.preset("default", 2, channels=(8, 16), keep=(0.7,))


def test_the_split_is_that_of_the_source_and_held_out_meshes_are_training_meshes():
    train, test = split_segmented_meshes(halves(), SegmentationConfig("memory"))
    assert (train.tolist(), test.tolist()) == ([0, 1, 2, 3], [4, 5])
    parts = []
    for seed in (0, 1):
        config = SegmentationConfig("memory", holdout=2, seed=seed)
        train, held = split_segmented_meshes(halves(), config)
        assert sorted([*train.tolist(), *held.tolist()]) == [0, 1, 2, 3]
        parts.append(held.tolist())
    assert parts[0] == parts[1]


@pytest.mark.parametrize(("holdout", "purpose"), [(0, "evaluate on"), (4, "train on")])
def test_an_empty_part_is_refused(holdout, purpose):
    data = halves(4, 0) if not holdout else halves()
    with pytest.raises(ValueError, match=f"no mesh to {purpose} with holdout {holdout}"):
        split_segmented_meshes(data, SegmentationConfig("memory", holdout=holdout))
    with pytest.raises(ValueError, match="nowhere"):
        load_segmented_meshes("nowhere")


def test_labels_of_a_batch_are_padded():
    data, model = halves(), small_segmenter()
    labels = [data.labels[0][:50], *data.labels[1:]]
    short = LabelledMeshes([model.graph(mesh) for mesh in data.meshes], labels)
    batch = short.batch([0, 1])
    assert batch.labels.shape == (2, 80)
    assert batch.labels[0, 50:].tolist() == [PADDING] * 30
    assert batch.inputs.num_graphs == 2


def test_other_resolutions_are_drawn_with_their_own_labels():
    plan = MeshSegmentation().plan(short_config(resolutions=(0.5,)), halves(), small_segmenter())
    source = plan.train
    (coarse,) = source.resampled
    assert [len(labels) for labels in coarse.labels] == [40] * 4
    for number, mesh in enumerate(coarse.graphs):
        centres = mesh.surface.vertices[mesh.surface.faces].mean(dim=1)
        fine = source.graphs[number].surface
        nearest = torch.cdist(centres, fine.vertices[fine.faces].mean(dim=1)).argmin(dim=1)
        same = source.labels[number][nearest] == coarse.labels[number]
        assert same.double().mean() > 0.85  # but for faces along the border
    drawn = [
        len(source.batch([0], generator=torch.Generator().manual_seed(seed)).labels[0])
        for seed in range(20)
    ]
    assert set(drawn) == {80, 40}
    assert {len(source.batch([0]).labels[0]) for _ in range(5)} == {80}


@given(
    st.lists(st.lists(st.integers(-1, 2), min_size=1, max_size=9), min_size=1, max_size=5),
    st.sampled_from([0.0, 0.1]),
)
def test_every_mesh_counts_alike(rows, smoothing):
    labels = [torch.tensor(row) for row in rows]
    logits = torch.randn(sum(map(len, rows)), 3, dtype=torch.float64)
    padded = pad_sequence(labels, batch_first=True, padding_value=PADDING)
    batch = LabelledBatch(logits, padded, len(rows))
    loss, right = FaceCrossEntropy(smoothing).sums(nn.Identity(), batch)
    wanted, hits = 0.0, 0.0
    for part, row in zip(logits.split([len(row) for row in rows]), labels, strict=True):
        known = row >= 0
        if bool(known.any()):
            wanted += F.cross_entropy(part[known], row[known], label_smoothing=smoothing).item()
            hits += (part.argmax(1) == row)[known].double().mean().item()
    torch.testing.assert_close(loss.item(), wanted)
    torch.testing.assert_close(right.item(), hits)


def test_rare_parts_can_count_as_much_as_frequent_ones():
    data, config = halves(), short_config()
    labels = torch.cat(data.labels[:4])
    shares = torch.bincount(labels[labels >= 0]).double() / (labels >= 0).sum()
    for weight, expected in ((0.0, ()), (0.5, tuple((0.5 * shares.log()).tolist()))):
        recipe = replace(config.recipe, logit_adjustment=weight)
        plan = MeshSegmentation().plan(replace(config, recipe=recipe), data, small_segmenter())
        assert plan.objective.adjustment == pytest.approx(expected)
    logits = torch.randn(5, 2, generator=torch.Generator().manual_seed(0))
    batch = LabelledBatch(logits, torch.tensor([[0, 1, 1, 0, -1]]), 1)
    shifted = LabelledBatch(logits + torch.tensor([-0.1, -2.0]), batch.labels, 1)
    found = FaceCrossEntropy(0.1, (-0.1, -2.0)).sums(nn.Identity(), batch)
    expected = FaceCrossEntropy(0.1).sums(nn.Identity(), shifted)
    torch.testing.assert_close(found[0], expected[0])


def test_meshes_without_a_labelled_face_weigh_and_count_nothing():
    weights = mesh_mean_weights(torch.tensor([0, 0, 1]), torch.tensor([False, False, True]), 2)
    assert weights.tolist() == [0, 0, 1]
    labels = torch.tensor([[0, 1, PADDING], [-1, -1, -1], [-1, 1, PADDING]])
    assert FaceCrossEntropy().counted(LabelledBatch(None, labels, 3)) == 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs") / "run"


@pytest.fixture(scope="module")
def trained(folder):
    return MeshSegmentation().train(short_config(), folder, data=halves(), model=small_segmenter())


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory):
    """The same drops in the layout of COSEG, faces labeled from 0."""
    root, data = tmp_path_factory.mktemp("drops"), halves()
    for part in ("train", "test", "seg"):
        (root / part).mkdir()
    rows = zip(data.meshes, data.labels, data.in_train.tolist(), strict=True)
    for k, (mesh, labels, in_train) in enumerate(rows):
        path = root / ("train" if in_train else "test") / f"d{k}.obj"
        write_obj(path, mesh.vertices.numpy(), mesh.faces.tolist())
        write_labels(root / "seg" / f"d{k}.seg", labels.clamp_min(0).tolist())
    return root


def test_a_run_learns_and_its_checkpoint_gives_the_same_model(folder, trained):
    assert trained.history[-1]["test_accuracy"] > 0.9
    assert find_task(folder / "model.ckpt", (MeshSegmentation(),)).name == "mesh-segmentation"
    loaded = TrainedMeshSegmenter.load(folder / "model.ckpt")
    meshes = list(halves().meshes)
    for one, other in zip(trained.logits(meshes), loaded.logits(meshes), strict=True):
        assert torch.equal(one, other)
    assert trained.logits([]) == []


def test_an_evaluation_names_its_measures_and_copies_do_not_change(trained):
    data = halves()
    found = evaluate_mesh_segmenter(trained, data, torch.tensor([4, 5]))
    assert found.trained_on == 0
    assert evaluate_mesh_segmenter(trained, data, torch.tensor([0, 4])).trained_on == 1
    assert set(found.measures) == {
        "face accuracy", "face accuracy, mean over meshes",
        "face accuracy by area, meshes weighted by faces",
        "face accuracy by area, mean over meshes", "mean IoU over parts, by faces",
    }  # fmt: skip
    right = [
        (torch.tensor(p) == data.labels[i]).sum()
        for p, i in zip(found.predictions, (4, 5), strict=True)
    ]
    assert found.measures["face accuracy"] == sum(right).item() / 160
    assert sum(map(sum, found.confusion)) == 160
    assert [copy.kind for copy in found.copies] == ["rotated", "reflected", "scaled", "translated"]
    assert all(copy.changed == [] for copy in found.copies)
    assert json.loads(json.dumps(found.to_dict()))["names"] == ["drop 4", "drop 5"]


def test_training_and_evaluation_have_one_definition_of_each_measure(trained):
    data = halves()
    unlabelled = torch.full_like(data.labels[5], -1)
    wrong = torch.where(torch.arange(80) < 60, 1 - data.labels[4], -1)  # meshes of unequal faces
    data = replace(data, labels=(*data.labels[:3], wrong, data.labels[4], unlabelled))
    for chosen in ((3, 4, 5), (5, 3)):
        found = evaluate_mesh_segmenter(trained, data, torch.tensor(chosen))
        test = labelled_meshes(trained.model, data, torch.tensor(chosen))
        measured = evaluate_faces(test, "test_accuracy", trained.model)["test_accuracy"]
        assert measured == found.measures["face accuracy, mean over meshes"]
        assert {copy.accuracy for copy in found.copies} == {found.measures["face accuracy"]}
        assert found.accuracies[chosen.index(5)] is None
        summary = summarize_segmentation(trained, found, data, "equigeo evaluate")
        assert summary["measure"] == "face accuracy, mean over meshes"
        assert ["accuracy" in s for s in summary["shapes"]].count(False) == 1
        render_report(summary)
    nothing = labelled_meshes(trained.model, data, torch.tensor([5]))
    assert evaluate_faces(nothing, "test_accuracy", trained.model) == {}
    (line,) = MeshSegmentation().summarize(trained)
    assert line.startswith("test face accuracy, mean over meshes ")


def test_parts_in_another_order_are_the_same_parts_and_others_are_refused(trained):
    data = halves()
    turned = replace(
        data, classes=("tip", "rest"),
        labels=tuple(torch.where(row >= 0, 1 - row, row) for row in data.labels),
    )  # fmt: skip
    chosen = torch.tensor([0, 5])
    one = evaluate_mesh_segmenter(trained, data, chosen)
    assert evaluate_mesh_segmenter(trained, turned, chosen).to_dict() == one.to_dict()
    assert sum(map(sum, one.confusion)) == 160 - 7  # unlabeled faces count nowhere
    other = replace(halves(), classes=("rest", "handle"))
    with pytest.raises(ValueError, match="parts that the checkpoint does not know: handle"):
        evaluate_mesh_segmenter(trained, other, torch.tensor([0]))
    with pytest.raises(ValueError, match="no meshes"):
        evaluate_mesh_segmenter(trained, halves(), torch.tensor([], dtype=torch.long))


def test_the_summary_shows_the_worst_shapes_first(trained):
    data = halves()
    found = evaluate_mesh_segmenter(trained, data, torch.tensor([0, 4, 5]))
    summary = summarize_segmentation(trained, found, data, "equigeo evaluate")
    assert json.loads(json.dumps(summary))["title"] == "Mesh segmentation"
    order = [shape["name"] for shape in summary["shapes"]]
    share = dict(zip(found.names, found.accuracies, strict=True))
    assert order == sorted(order, key=share.__getitem__)
    first = summary["shapes"][order.index("drop 0")]
    assert first["labelled_parts"][:7] == [-1] * 7
    assert len(first["predicted_parts"]) == len(first["faces"])


def test_a_file_gets_its_parts_as_a_page_and_a_coloured_file(trained, tmp_path):
    mesh = halves().meshes[5]
    write_obj(tmp_path / "drop.obj", mesh.vertices.numpy(), mesh.faces.tolist())
    found = segment_file(trained, tmp_path / "drop.obj", top=2, view=True)
    assert {name for name, _ in found.ranking} == {"rest", "tip"}
    assert abs(sum(share for _, share in found.ranking) - 1) < 1e-6  # float32: 16 units of 6e-8
    assert set(found.files) == {".parts.ply", ".parts.html"}
    (tmp_path / "drop.ply").write_bytes(found.files[".parts.ply"])
    again, report = load_mesh(tmp_path / "drop.ply")
    assert again.num_faces == mesh.num_faces
    labels = report.attributes.faces["label"].long()
    assert torch.equal(labels, trained.logits([mesh])[0].argmax(1))
    assert b"drop.obj" in found.files[".parts.html"]


QUADS = [
    *([0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1]),
    [0, 0, 1],  # which is dropped
    *([2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]),
]


def test_parts_are_those_of_the_faces_of_the_file(trained, tmp_path):
    corners = shapes.lumpy(shapes.cube(), amount=0.2).vertices.numpy()
    write_obj(tmp_path / "box.obj", corners, QUADS)
    found = segment_file(replace(trained, classes=("11", "48")), tmp_path / "box.obj")
    (tmp_path / "box.ply").write_bytes(found.files[".parts.ply"])
    file = read_mesh_file(tmp_path / "box.ply")
    assert file.sizes.tolist() == [len(quad) for quad in QUADS]
    assert file.corners.tolist() == [vertex for quad in QUADS for vertex in quad]
    assert file.vertices.tolist() == corners.tolist()
    mesh, report = load_mesh(tmp_path / "box.obj")
    area = HalfEdgeGeometry.measure(mesh.vertices, mesh.faces).area
    shares = area[:, None] * trained.logits([mesh])[0].double().softmax(dim=1)
    halves = shares.reshape(6, 2, 2).sum(dim=1)  # two triangles per square
    expected = [(11, 48)[part] for part in halves.argmax(dim=1).tolist()]
    expected.insert(3, -1)
    assert file.attributes.faces["label"].tolist() == expected
    sums = dict.fromkeys(("11", "48"), 0.0)
    for face, size in zip(report.kept_faces.tolist(), area.tolist(), strict=True):
        sums[str(expected[face])] += size / float(area.sum())
    for name, share in found.ranking:
        assert share == pytest.approx(sums[name])


def test_what_predict_writes_can_be_trained_on(trained, data_folder, tmp_path):
    trained = replace(trained, classes=("11", "48"))
    parts = {}
    for k, part in enumerate(("train", "train", "test")):
        found = segment_file(trained, data_folder / "train" / f"d{k}.obj")
        (tmp_path / part).mkdir(exist_ok=True)
        (tmp_path / part / f"d{k}.parts.ply").write_bytes(found.files[".parts.ply"])
        parts[f"{part}/d{k}.parts.ply"] = trained.logits([halves().meshes[k]])[0].argmax(dim=1)
    config = replace(short_config(epochs=1), data=str(tmp_path))
    data = MeshSegmentation().load(config)
    assert data.classes == ("11", "48")
    for name, labels in zip(data.names, data.labels, strict=True):
        assert torch.equal(labels, parts[name])
    again = MeshSegmentation().train(config, tmp_path / "run")
    assert again.classes == ("11", "48")


def test_a_validation_split_is_evaluated_in_training_and_the_test_split_afterwards(tmp_path):
    data = halves(4, 4)
    data = replace(data, in_val=torch.arange(8) > 5)
    config = replace(short_config(epochs=1), evaluate_every=1)
    train, val = split_segmented_meshes(data, config, validate=True)
    assert (train.tolist(), val.tolist()) == ([0, 1, 2, 3], [6, 7])
    assert split_segmented_meshes(data, config)[1].tolist() == [4, 5]
    with pytest.raises(ValueError, match="have a validation split, val; leave out --holdout"):
        split_segmented_meshes(data, replace(config, holdout=1))
    trained = MeshSegmentation().train(config, tmp_path, data=data, model=small_segmenter())
    labelled = labelled_meshes(trained.model, data, torch.tensor([6, 7]))
    measured = evaluate_faces(labelled, "val_accuracy", trained.model)["val_accuracy"]
    assert trained.history[-1]["val_accuracy"] == measured
    assert trained.history[-1]["test_accuracy"] is None
    (line,) = MeshSegmentation().summarize(trained)
    assert line.startswith("validation face accuracy, mean over meshes ")
    found = evaluate_mesh_segmenter(trained, data, torch.tensor([4, 5]))
    summary = summarize_segmentation(trained, found, data, "equigeo evaluate")
    assert summary["evaluated_part"] == "validation"
    assert "the accuracy on the validation meshes" in render_report(summary)


def test_the_command_line_trains_evaluates_and_predicts(data_folder, tmp_path, capsys):
    run = tmp_path / "run"
    arguments = ["--data", str(data_folder), "--output", str(run), "--epochs", "1"]
    assert main(["train", "mesh-segmentation", *arguments]) == 0
    checkpoint = str(run / "model.ckpt")
    assert main(["evaluate", checkpoint]) == 0
    page = run / "report.html"
    shown = capsys.readouterr().out
    assert "face accuracy by area, mean over meshes" in shown
    assert "labelled parts" in page.read_text()
    out = tmp_path / "out"
    out.mkdir()
    file = str(data_folder / "test" / "d4.obj")
    assert main(["predict", checkpoint, file, "--view", "--output", str(out)]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["d4.parts.html", "d4.parts.ply"]


def test_statistics_of_features_are_those_of_training_meshes():
    data, config = halves(), short_config()
    plan = MeshSegmentation().plan(config, data)
    graphs = [plan.model.graph(data.meshes[i]) for i in range(4)]
    rows = torch.cat([graph.x_primal for graph in graphs])
    torch.testing.assert_close(plan.model.standardize_primal.mean, rows.mean(dim=0))
    data = replace(data, meshes=tuple(shapes.lumpy(mesh) for mesh in data.meshes))
    again = MeshSegmentation().plan(config, data, plan.model).model.standardize_primal.mean
    torch.testing.assert_close(again, rows.mean(dim=0))  # a trained model keeps its own


@pytest.mark.full  # finished runs of classifiers tell it in the fast tier
def test_a_shape_unlike_those_of_the_training_is_told(tmp_path):
    data = halves(train=40, test=6)
    config = short_config(epochs=12)
    trained = MeshSegmentation().train(config, tmp_path / "run", data=data, model=small_segmenter())
    loaded = TrainedMeshSegmenter.load(tmp_path / "run" / "model.ckpt")
    assert loaded.novelty is not None
    test = [data.meshes[i] for i in (~data.in_train).nonzero().flatten()]
    assert max(loaded.novelties(test)) < 1
    box = shapes.cube()
    assert min(loaded.novelties([box])) > 1
    assert loaded.novelties([]) == []
    assert loaded.novelties(test) == pytest.approx(trained.novelties(test))
    for name, mesh, says in (("drop", test[0], False), ("box", box, True)):
        write_obj(tmp_path / f"{name}.obj", mesh.vertices.numpy(), mesh.faces.tolist())
        found = segment_file(loaded, tmp_path / f"{name}.obj", view=True)
        assert ("resembles nothing it was trained on" in found.remark) == says
        page = found.files[".parts.html"].decode()
        assert ("resembles nothing it was trained on" in page) == says
    assert replace(loaded, novelty=None).novelties(test) is None


def test_large_batches_are_trained_in_parts(monkeypatch):
    source = MeshSegmentation().plan(short_config(), halves(), small_segmenter()).train
    steps = EpochBatches(source, 4, seed=0, epoch=0)
    assert len(steps[0].parts) == 1
    monkeypatch.setattr("equigeo.tasks.common.mesh_data.TRAINED_FACES", 160)  # of two meshes
    assert [len(part.labels) for part in steps[0].parts] == [2, 2]
