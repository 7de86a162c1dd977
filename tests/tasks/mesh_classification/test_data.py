from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from equigeo.mesh import PrimalDualGraph
from equigeo.tasks.mesh_classification import MeshClassification, MeshConfig, data, split_meshes
from equigeo.tasks.mesh_classification.data import LabelledGraphs
from equigeo.tasks.mesh_classification.train import plan_fit


def test_folder_split_is_as_shipped(dataset):
    train, test = split_meshes(dataset, MeshConfig("memory"))
    assert torch.equal(train, dataset.in_train.nonzero().flatten())
    assert torch.equal(test, (~dataset.in_train).nonzero().flatten())


def test_holdout_takes_training_meshes_and_leaves_the_test_part_unseen(dataset):
    config = MeshConfig("memory", holdout=1)
    train, held = split_meshes(dataset, config)
    assert sorted([*train.tolist(), *held.tolist()]) == dataset.in_train.nonzero()[:, 0].tolist()
    assert dataset.labels[held].bincount().tolist() == [1, 1, 1]
    again = split_meshes(dataset, replace(config, seed=5))
    assert torch.equal(held, again[1])  # runs with several seeds are validated on the same meshes


def test_holdout_keeps_groups_together_and_counts_them(dataset):
    groups = torch.arange(len(dataset)) // 2  # the shipped parts have even numbers of meshes
    train, held = split_meshes(replace(dataset, groups=groups), MeshConfig("memory", holdout=1))
    assert not set(groups[train].tolist()) & set(groups[held].tolist())
    assert dataset.labels[held].bincount().tolist() == [2, 2, 2]
    alone = replace(dataset, groups=torch.arange(len(dataset)))
    config = MeshConfig("memory", holdout=2)
    assert torch.equal(split_meshes(alone, config)[1], split_meshes(dataset, config)[1])


def test_generated_data_sets_have_names(monkeypatch, tmp_path):
    monkeypatch.setattr(data, "GENERATED", {"cubes": lambda: "engraved cubes"})
    assert data.load_meshes("cubes") == "engraved cubes"
    task = MeshClassification()
    assert task.resolve_data("cubes") == "cubes"
    assert task.resolve_data("folder") != "folder"


def test_holding_out_everything_is_refused(dataset):
    with pytest.raises(ValueError, match="class 'ball' has no mesh to train on"):
        split_meshes(dataset, MeshConfig("memory", holdout=4))


@pytest.fixture
def graphs(dataset):
    meshes = dataset.meshes[:6]
    return LabelledGraphs([PrimalDualGraph.from_mesh(m) for m in meshes], dataset.labels[:6])


def _generator(seed=0):
    return torch.Generator().manual_seed(seed)


CHOSEN = torch.tensor([4, 0, 3])


def test_jitter_alone_draws_what_it_drew_before_there_were_other_augmentations(graphs):
    noisy = replace(graphs, jitter=0.1).inputs(CHOSEN, _generator())
    expected = graphs.inputs(CHOSEN, None).jitter(0.1, _generator())
    assert torch.equal(noisy.x_dual, expected.x_dual)


def test_stretch_is_repeatable_and_for_training_alone(graphs):
    stretched = replace(graphs, stretch=0.3)
    first, again = (stretched.inputs(CHOSEN, _generator()) for _ in range(2))
    assert torch.equal(first.x_dual, again.x_dual)
    assert torch.equal(stretched.inputs(CHOSEN, None).x_dual, graphs.inputs(CHOSEN, None).x_dual)
    assert not torch.allclose(first.x_dual, graphs.inputs(CHOSEN, None).x_dual)
    assert not torch.allclose(first.x_dual, stretched.inputs(CHOSEN, _generator(1)).x_dual)


def test_every_mesh_is_drawn_among_its_resolutions_evenly(dataset):
    config = MeshConfig("memory")
    recipe = replace(config.recipe, resolutions=(0.5, 2.0), jitter=0.0)
    train = plan_fit(replace(config, recipe=recipe), dataset).train
    faces = [graph.num_primal for graph in train.graphs]
    for share, graphs in zip(recipe.resolutions, train.resampled, strict=True):
        assert [graph.num_primal for graph in graphs] == [round(share * n) for n in faces]
    chosen = torch.zeros(900, dtype=torch.long)
    counts = train.inputs(chosen, _generator()).primal_batch.bincount()
    drawn = [(counts == share * faces[0]).sum().item() for share in (0.5, 1, 2)]
    assert sum(drawn) == 900
    assert min(drawn) > 250  # four deviations of a share of one third
    assert (train.inputs(chosen[:9], None).primal_batch.bincount() == faces[0]).all()


def test_the_standardization_is_that_of_all_resolutions(dataset):
    config = MeshConfig("memory")
    plans = [
        plan_fit(replace(config, recipe=replace(config.recipe, resolutions=r)), dataset)
        for r in ((), (0.5,))
    ]
    means = [plan.model.standardize_dual.mean for plan in plans]
    assert not torch.allclose(*means)


def test_batches_hold_so_many_meshes_and_faces_and_a_larger_mesh_alone(graphs, monkeypatch):
    sizes = [graph.num_primal for graph in graphs.graphs]
    assert [len(batch.labels) for batch in graphs.batches(4)] == [4, 2]
    monkeypatch.setattr("equigeo.tasks.divide_by_faces.MOST_FACES", sum(sizes[:3]))
    batches = [*graphs.batches(32)]
    assert [len(batch.labels) for batch in batches] == [3, 3]
    assert torch.equal(torch.cat([batch.labels for batch in batches]), graphs.labels)
    monkeypatch.setattr("equigeo.tasks.divide_by_faces.MOST_FACES", min(sizes) - 1)
    assert [batch.inputs.num_primal for batch in graphs.batches(32)] == sizes
