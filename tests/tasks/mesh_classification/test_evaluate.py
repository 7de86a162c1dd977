from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from equigeo.datasets import MeshDataset
from equigeo.tasks.mesh_classification import evaluate_mesh_classifier
from equigeo.tasks.mesh_classification.random_copy import MESH_COPIES
from tests.tasks.mesh_run import train_meshes


@pytest.fixture(scope="module")
def trained(tmp_path_factory, config, dataset):
    from equigeo.mesh import ClassifierConfig, PrimalDualClassifier

    model = PrimalDualClassifier(ClassifierConfig(3, channels=(8, 8), keep=(0.7, None)))
    return train_meshes(config, dataset, tmp_path_factory.mktemp("run"), model=model)


TEST = torch.tensor([4, 5, 10, 11, 16, 17])


def test_numbers_agree_with_a_recomputation(trained, dataset):
    result = evaluate_mesh_classifier(trained, dataset, TEST)
    predicted = [int(trained.logits([dataset.meshes[i]]).argmax()) for i in TEST]
    assert result.predictions == predicted
    assert result.labels == dataset.labels[TEST].tolist()
    assert result.names == [dataset.names[i] for i in TEST]
    pairs = list(zip(result.labels, predicted, strict=True))
    assert result.accuracy == sum(a == b for a, b in pairs) / len(pairs)
    assert result.confusion == [[pairs.count((a, b)) for b in range(3)] for a in range(3)]


def test_the_promised_symmetries_change_no_prediction(trained, dataset):
    result = evaluate_mesh_classifier(trained, dataset, TEST, seed=3)
    assert [copy.kind for copy in result.copies] == list(MESH_COPIES)
    for copy in result.copies:
        assert copy.changed == []
        assert copy.accuracy == result.accuracy
        assert copy.largest_difference < 1e-3


def test_a_model_without_the_symmetry_is_found_out(trained, dataset):
    class Lopsided:
        classes, config = trained.classes, trained.config

        def logits(self, meshes):
            heights = torch.stack([mesh.vertices.mean(dim=0) for mesh in meshes])
            return heights - heights.mean(dim=0)

        def novelties(self, meshes):
            return None

    result = evaluate_mesh_classifier(Lopsided(), dataset, TEST)
    assert {copy.kind for copy in result.copies if copy.changed} >= {"rotated", "translated"}


def test_classes_in_another_order_are_matched_by_name(trained, dataset):
    shuffled = MeshDataset(
        dataset.meshes,
        2 - dataset.labels,
        tuple(reversed(dataset.classes)),
        dataset.names,
        dataset.in_train,
    )
    results = [evaluate_mesh_classifier(trained, d, TEST) for d in (dataset, shuffled)]
    assert results[0] == results[1]


def test_unknown_classes_and_empty_parts_are_refused(trained, dataset):
    foreign = replace(dataset, classes=("ball", "capsule", "spoon"))
    with pytest.raises(ValueError, match="does not know: spoon"):
        evaluate_mesh_classifier(trained, foreign, TEST)
    with pytest.raises(ValueError, match="no meshes"):
        evaluate_mesh_classifier(trained, dataset, TEST[:0])
