import logging

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.cli import main
from equigeo.datasets import MeshDataset
from equigeo.mesh import load_mesh
from equigeo.tasks.common.mesh_data import (
    batches_by_faces,
    divide_by_faces,
    repair_summary,
    warn_of_lost_area,
)
from equigeo.tasks.mesh_classification import MeshClassification, MeshConfig, load_meshes
from tests.tasks.tiny_data import tiny_dataset, write_tiny_folder

SQUARE = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv nan 0 0\nf 1 2 3\nf 1 3 4\n"


def spoil(path, faces: int) -> None:
    """Add so many faces to a file, at a vertex that is no point."""
    text = path.read_text()
    number = sum(line.startswith("v ") for line in text.splitlines()) + 1
    extra = "".join(f"f {k + 1} {k + 2} {number}\n" for k in range(faces))
    path.write_text(f"{text.rstrip()}\nv nan 0 0\n{extra}")


@pytest.fixture
def folder(tmp_path):
    return write_tiny_folder(tmp_path / "data")


def test_quiet_cases_and_generated_shapes_say_nothing(folder, caplog):
    dataset = load_meshes(str(folder))
    assert len(dataset.reports) == len(dataset) == 18
    assert caplog.records == []
    assert repair_summary(dataset.reports) == ""
    about = MeshClassification().describe(MeshConfig("memory"), dataset)
    assert about == "18 meshes of 3 classes, default preset"
    dataset = tiny_dataset()
    assert dataset.reports == ()
    warn_of_lost_area(dataset.names, dataset.reports)
    assert repair_summary(dataset.reports) == ""
    assert caplog.records == []


def test_one_warning_names_the_worst_three(folder, caplog):
    for name, faces in (("ball", 10), ("capsule", 30), ("torus", 20)):
        spoil(folder / name / "train" / "T1.obj", faces)
    spoil(folder / "ball" / "test" / "T5.obj", 5)
    dataset = load_meshes(str(folder))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    shares = dict(zip(dataset.names, (r.lost_area for r in dataset.reports), strict=True))
    worst = sorted(shares, key=shares.__getitem__, reverse=True)[:3]
    named = ", ".join(f"{name} {shares[name]:.1%}" for name in worst)
    message = record.getMessage()
    assert message.startswith(
        "4 of 18 meshes lack more than 1 % of the area of their files, most of all "
        f"{named}; repair these files"
    )
    assert "T5" not in message


def test_less_than_a_hundredth_is_summarized_without_a_warning(folder, caplog):
    path = folder / "torus" / "train" / "T0.obj"
    lines = path.read_text().splitlines()
    faces = sum(line.startswith("f ") for line in lines)
    assert faces > 100
    spoil(path, 1)
    dataset = load_meshes(str(folder))
    assert 0 < max(report.lost_area for report in dataset.reports) < 0.01
    assert caplog.records == []
    summary = "1 of 18 meshes repaired (nonfinite faces 1, unreferenced vertices 1)"
    assert repair_summary(dataset.reports) == summary
    about = MeshClassification().describe(MeshConfig("memory"), dataset)
    assert about.endswith(f"default preset, {summary}")


def test_faces_that_are_turned_over_are_no_loss(tmp_path, caplog):
    path = tmp_path / "turned.obj"
    path.write_text(SQUARE.replace("v nan 0 0\n", "").replace("1 3 4", "1 4 3"))
    mesh, report = load_mesh(path)
    assert report.turned_area == pytest.approx(0.5)
    dataset = MeshDataset(
        (mesh, mesh), torch.tensor([0, 1]), ("a", "b"), ("1", "2"), torch.ones(2) > 0,
        (report, report),
    )  # fmt: skip
    warn_of_lost_area(dataset.names, dataset.reports)
    assert caplog.records == []
    assert repair_summary(dataset.reports) == "2 of 2 meshes repaired (reoriented faces 2)"


def test_names_are_data(tmp_path, caplog):
    path = tmp_path / "hole.obj"
    path.write_text(f"{SQUARE}f 1 4 5\n")
    report = load_mesh(path)[1]
    warn_of_lost_area(["\x1b[31m%s" + "x" * 1000], [report])
    message = caplog.records[0].getMessage()
    assert message.isprintable()
    assert "%s" in message
    assert len(message) < 400


def test_training_and_evaluation_warn_once_and_count_repairs(tmp_path, folder, capsys, caplog):
    spoil(folder / "ball" / "train" / "T1.obj", 10)
    output = tmp_path / "run"
    arguments = ["--data", str(folder), "--epochs", "1", "--output", str(output)]
    assert main(["train", "mesh-classification", *arguments]) == 0
    assert len(caplog.records) == 1
    assert "ball/train/T1.obj" in caplog.records[0].getMessage()
    assert (
        "1 of 18 meshes repaired (nonfinite faces 10, unreferenced vertices 1), 1 epochs;"
        in capsys.readouterr().err
    )
    caplog.clear()
    assert main(["evaluate", str(output / "model.ckpt")]) == 0
    assert len([r for r in caplog.records if r.name.startswith("equigeo")]) == 1
    assert capsys.readouterr().out.startswith(
        "1 of 18 meshes repaired (nonfinite faces 10, unreferenced vertices 1)\n"
    )


FACES = st.lists(st.integers(0, 20), max_size=12)


@given(FACES, st.integers(1, 5), st.integers(0, 30))
def test_evaluated_batches_are_as_large_as_they_may_be(faces, batch_size, most):
    found = list(batches_by_faces(faces, batch_size, most))
    assert [i for part in found for i in part] == list(range(len(faces)))
    sizes = [sum(faces[i] for i in part) for part in found]
    for k, part in enumerate(found):
        assert len(part) == 1 or (len(part) <= batch_size and sizes[k] <= most)
        if k:
            assert len(found[k - 1]) == batch_size or sizes[k - 1] + faces[part[0]] > most


@given(FACES, st.integers(0, 30))
def test_parts_of_a_trained_batch_have_two_meshes_and_no_more_faces_than_need_be(faces, most):
    indices = [7 * i for i in range(len(faces))]
    found = divide_by_faces(indices, faces, most)
    assert [i for part in found for i in part] == indices
    assert divide_by_faces([4, 2], [500, 500]) == [[4, 2]]  # a batch that fits is one part
    assert all(len(part) > 1 for part in found) or len(faces) == 1
    for k, part in enumerate(found):
        # one that is left over joins the last part
        counted = part[:-1] if k == len(found) - 1 else part
        assert len(counted) <= 2 or sum(faces[i // 7] for i in counted) <= most
