"""Splits, batches and copies of segmentation data."""

import pickle
from dataclasses import replace

import pytest
import torch

from equigeo.tasks.mesh_segmentation import SegmentationConfig, split_segmented_meshes
from equigeo.tasks.mesh_segmentation.data import LabelledFaces, load_segmented_meshes
from equigeo.tasks.mesh_segmentation.objective import PADDING
from equigeo.tasks.mesh_segmentation.train import plan_fit
from tests.tasks.mesh_segmentation.small_segmentation import halves, short_config, small_model


def _source(**noise):
    data, model = halves(), small_model()
    return LabelledFaces([model.graph(mesh) for mesh in data.meshes], list(data.labels), **noise)


def test_the_split_is_that_of_the_source():
    train, test = split_segmented_meshes(halves(), SegmentationConfig("memory"))
    assert (train.tolist(), test.tolist()) == ([0, 1, 2, 3], [4, 5])


def test_held_out_meshes_are_training_meshes_whatever_the_seed():
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


def test_labels_of_a_batch_are_padded():
    source = _source()
    short = replace(source, face_labels=[source.face_labels[0][:50], *source.face_labels[1:]])
    batch = short.batch([0, 1])
    assert batch.labels.shape == (2, 80)
    assert batch.labels[0, 50:].tolist() == [PADDING] * 30
    assert batch.inputs.num_graphs == 2


def test_noise_is_there_only_where_it_is_asked_for():
    source = _source(stretch=0.3)
    plain = source.batch([0]).inputs
    assert torch.equal(plain.x_primal, source.graphs[0].x_primal)
    noisy = source.batch([0], generator=torch.Generator().manual_seed(0)).inputs
    assert not torch.equal(noisy.x_primal, plain.x_primal)


def test_other_resolutions_are_drawn_with_their_own_labels():
    plan = plan_fit(short_config(resolutions=(0.5,)), halves(), small_model())
    source = plan.train
    (coarse,) = source.resampled
    assert [len(labels) for labels in coarse.face_labels] == [40] * 4
    for number, mesh in enumerate(coarse.graphs):
        centres = mesh.surface.vertices[mesh.surface.faces].mean(dim=1)
        fine = source.graphs[number].surface
        nearest = torch.cdist(centres, fine.vertices[fine.faces].mean(dim=1)).argmin(dim=1)
        same = source.face_labels[number][nearest] == coarse.face_labels[number]
        assert same.double().mean() > 0.85  # but for faces along the border
    drawn = [
        len(source.batch([0], generator=torch.Generator().manual_seed(seed)).labels[0])
        for seed in range(20)
    ]
    assert set(drawn) == {80, 40}
    assert {len(source.batch([0]).labels[0]) for _ in range(5)} == {80}


def test_processes_receive_an_equal_copy():
    source = _source(jitter=0.1, stretch=0.2)
    copy = pickle.loads(pickle.dumps(source))
    assert (copy.jitter, copy.stretch, len(copy)) == (0.1, 0.2, len(source))
    assert torch.equal(copy.batch([1]).inputs.x_primal, source.batch([1]).inputs.x_primal)


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match="nowhere"):
        load_segmented_meshes(str(tmp_path / "nowhere"))
