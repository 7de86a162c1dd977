from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import trimesh

from equigeo.datasets import MeshDataset, articulated_shapes
from equigeo.mesh import TriangleMesh
from equigeo.tasks.mesh_classification import (
    MESH_RECIPES,
    MeshClassification,
    MeshConfig,
    evaluate_mesh_classifier,
)
from equigeo.tasks.mesh_classification.random_copy import MESH_COPIES
from equigeo.testing import tolerance
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
        # means over the 120 faces of a torus
        assert copy.largest_difference < tolerance(torch.float32, 120)["atol"]


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


def test_solids_resemble_none_of_the_built_in_shapes(tmp_path):
    """The network is sure of a sphere, a cube and a cylinder, and they are noticed all the same."""
    data = articulated_shapes(per_class=4, faces=200, cache=tmp_path)
    recipe = replace(MESH_RECIPES["default"], epochs=12)
    config = MeshConfig("builtin", recipe=recipe)
    trained = MeshClassification().train(config, tmp_path / "run", data=data)
    create = trimesh.creation
    solids = [create.icosphere(2), create.box().subdivide().subdivide(), create.cylinder(0.5, 2)]
    meshes = [TriangleMesh.from_trimesh(solid) for solid in solids]
    assert trained.logits(meshes).softmax(dim=1).amax(dim=1).max() > 0.8
    assert min(trained.novelties(meshes)) > 1.5
    test = [data.meshes[i] for i in (~data.in_train).nonzero().flatten().tolist()]
    assert max(trained.novelties(test)) < 1  # sixteen shapes that the network has not seen
