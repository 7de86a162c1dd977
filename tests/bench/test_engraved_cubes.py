import pytest
import torch

from bench.engraved_cubes import linear_accuracy, pooled_features
from equigeo.datasets import engraved_cubes, split_indices
from equigeo.mesh import PrimalDualGraph


@pytest.fixture(scope="module")
def cubes(tmp_path_factory):
    return engraved_cubes(icons=5, placements=2, cache=tmp_path_factory.mktemp("cubes"))


def test_a_linear_model_of_pooled_features_does_not_tell_icons_apart(cubes):
    graphs = [PrimalDualGraph.from_mesh(mesh, features="reference") for mesh in cubes.meshes]
    train, test = split_indices(cubes, "folder")
    pooled = pooled_features(graphs)
    accuracy = linear_accuracy(pooled, cubes.labels, train, test, ridge=1.0)
    assert accuracy < 0.3  # specs/primal_dual_meshes.md, section 6.3
    # it would tell them apart if some feature did
    telling = torch.cat([pooled, torch.nn.functional.one_hot(cubes.labels)], dim=1)
    assert linear_accuracy(telling, cubes.labels, train, test, ridge=1.0) > 0.95


def test_pooled_features_are_means_and_maxima_of_both_streams(cubes):
    graph = PrimalDualGraph.from_mesh(cubes.meshes[0])
    (row,) = pooled_features([graph])
    primal, dual = graph.x_primal.double(), graph.x_dual.double()
    expected = [primal.mean(0), primal.amax(0), dual.mean(0), dual.amax(0)]
    torch.testing.assert_close(row, torch.cat(expected))
