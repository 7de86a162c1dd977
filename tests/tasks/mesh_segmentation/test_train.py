"""A whole run: training, checkpoint, evaluation, report and files of predictions."""

import json
from dataclasses import replace

import pytest
import torch

from equigeo.cli import main
from equigeo.mesh import load_mesh
from equigeo.tasks import MeshSegmentation, find_task
from equigeo.tasks.mesh_segmentation import (
    TrainedMeshSegmenter,
    evaluate_mesh_segmenter,
    segment_file,
    summarize_segmentation,
)
from equigeo.tasks.mesh_segmentation.train import plan_fit
from equigeo.training.loop.epoch_batches import EpochBatches
from tests.datasets.segmentation.segmentation_files import write_labels, write_obj
from tests.mesh import shapes
from tests.tasks.mesh_segmentation.small_segmentation import halves, short_config, small_model


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    trained = MeshSegmentation().train(short_config(), folder, data=halves(), model=small_model())
    return folder, trained


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory):
    """The same drops in the layout of COSEG, faces labelled from 0."""
    root, data = tmp_path_factory.mktemp("drops"), halves()
    for part in ("train", "test", "seg"):
        (root / part).mkdir()
    rows = zip(data.meshes, data.labels, data.in_train.tolist(), strict=True)
    for k, (mesh, labels, in_train) in enumerate(rows):
        path = root / ("train" if in_train else "test") / f"d{k}.obj"
        write_obj(path, mesh.vertices.numpy(), mesh.faces.tolist())
        write_labels(root / "seg" / f"d{k}.seg", labels.clamp_min(0).tolist())
    return root


def test_a_run_learns_and_its_checkpoint_gives_the_same_model(run):
    folder, trained = run
    assert trained.history[-1]["test_accuracy"] > 0.9
    assert find_task(folder / "model.ckpt", (MeshSegmentation(),)).name == "mesh-segmentation"
    loaded = TrainedMeshSegmenter.load(folder / "model.ckpt")
    meshes = list(halves().meshes)
    for one, other in zip(trained.logits(meshes), loaded.logits(meshes), strict=True):
        assert torch.equal(one, other)
    assert trained.logits([]) == []


def test_a_resumed_run_ends_with_the_same_weights(run, tmp_path):
    _, trained = run
    short, task = short_config(), MeshSegmentation()

    class Stop(Exception):
        pass

    class StopAfterThree(pytest.importorskip("lightning.pytorch").Callback):
        def on_train_epoch_start(self, trainer, module):
            if module.epoch == 3:
                raise Stop

    with pytest.raises(Stop):
        task.train(
            short, tmp_path / "run", data=halves(), model=small_model(),
            callbacks=[StopAfterThree()],
        )  # fmt: skip
    resumed = task.train(short, tmp_path / "run", data=halves(), model=small_model(), resume=True)
    for name, weight in trained.model.state_dict().items():
        assert torch.equal(weight, resumed.model.state_dict()[name]), name


def test_an_evaluation_names_its_measures_and_copies_do_not_change(run):
    _, trained = run
    data = halves()
    found = evaluate_mesh_segmenter(trained, data, torch.tensor([4, 5]))
    assert set(found.measures) == {
        "face accuracy", "face accuracy by area, meshes weighted by faces",
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


def test_parts_in_another_order_are_the_same_parts(run):
    _, trained = run
    data = halves()
    turned = replace(
        data, classes=("tip", "rest"),
        labels=tuple(torch.where(row >= 0, 1 - row, row) for row in data.labels),
    )  # fmt: skip
    chosen = torch.tensor([0, 5])
    one = evaluate_mesh_segmenter(trained, data, chosen)
    assert evaluate_mesh_segmenter(trained, turned, chosen).to_dict() == one.to_dict()
    assert sum(map(sum, one.confusion)) == 160 - 7  # unlabelled faces count nowhere


def test_unknown_parts_and_no_meshes_are_refused(run):
    _, trained = run
    other = replace(halves(), classes=("rest", "handle"))
    with pytest.raises(ValueError, match="parts that the checkpoint does not know: handle"):
        evaluate_mesh_segmenter(trained, other, torch.tensor([0]))
    with pytest.raises(ValueError, match="no meshes"):
        evaluate_mesh_segmenter(trained, halves(), torch.tensor([], dtype=torch.long))


def test_the_summary_shows_the_worst_shapes_first(run):
    _, trained = run
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


def test_a_file_gets_its_parts_as_a_page_and_a_coloured_file(run, tmp_path):
    _, trained = run
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
    with pytest.raises(ValueError, match="top must be at least 1"):
        segment_file(trained, tmp_path / "drop.obj", top=0)


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
    plan = plan_fit(config, data)
    graphs = [plan.model.graph(data.meshes[i]) for i in range(4)]
    rows = torch.cat([graph.x_primal for graph in graphs])
    torch.testing.assert_close(plan.model.standardize_primal.mean, rows.mean(dim=0))


def test_a_shape_unlike_those_of_the_training_is_told(tmp_path):
    data = halves(train=40, test=6)
    config = short_config(epochs=12)
    trained = MeshSegmentation().train(config, tmp_path / "run", data=data, model=small_model())
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


def test_large_batches_are_trained_in_parts_and_resumed_exactly(tmp_path, monkeypatch):
    data, config, task = halves(), short_config(epochs=4), MeshSegmentation()
    steps = EpochBatches(plan_fit(config, data, small_model()).train, 4, seed=0, epoch=0)
    assert len(steps[0].parts) == 1
    monkeypatch.setattr("equigeo.tasks.divide_by_faces.TRAINED_FACES", 2 * data.meshes[0].num_faces)
    assert [len(part.labels) for part in steps[0].parts] == [2, 2]

    class StopAfterTwo(pytest.importorskip("lightning.pytorch").Callback):
        def on_train_epoch_start(self, trainer, module):
            if module.epoch == 2:
                raise InterruptedError

    whole = task.train(config, tmp_path / "whole", data=data, model=small_model())
    with pytest.raises(InterruptedError):
        task.train(
            config, tmp_path / "run", data=data, model=small_model(), callbacks=[StopAfterTwo()]
        )
    resumed = task.train(config, tmp_path / "run", data=data, model=small_model(), resume=True)
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, resumed.model.state_dict()[name]), name
    losses = [line["loss"] for line in whole.history]
    assert losses[-1] < losses[0]
