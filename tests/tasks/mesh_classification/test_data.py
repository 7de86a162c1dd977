from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from equigeo.tasks.mesh_classification import MeshConfig, split_meshes


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


def test_holding_out_everything_is_refused(dataset):
    with pytest.raises(ValueError, match="class 'ball' has no mesh to train on"):
        split_meshes(dataset, MeshConfig("memory", holdout=4))
