"""What the benchmark of foreign shapes measures with."""

import pytest
import torch

from bench import foreign_shapes


def test_the_area_counts_pairs_in_order_and_ties_by_half():
    usual, strange = torch.tensor([1.0, 2.0]), torch.tensor([2.0, 3.0])
    assert foreign_shapes.area(usual, strange) == 0.875
    assert foreign_shapes.area(usual, usual) == 0.5


def test_the_solids_are_meshes_with_names_of_their_own():
    found = foreign_shapes.solids()
    assert len(found) == 12
    assert found["plane patch"].num_faces == 512
    assert found["sphere, 320 faces"].num_faces == 320


@pytest.mark.parametrize(
    "name", [n for n in foreign_shapes.SCORES if n != "1 - largest probability"]
)
def test_every_score_is_larger_far_from_the_training_vectors(name):
    draw = torch.Generator().manual_seed(0)
    labels = torch.arange(80) % 2
    x = torch.randn(80, 6, generator=draw, dtype=torch.float64)
    x[:, 0] += 9 * labels
    score = foreign_shapes.SCORES[name](None, x, labels)
    far = torch.tensor([[90.0, 9, 9, 9, 9, 9]], dtype=torch.float64)
    assert float(score(far)) > float(score(x).max())
