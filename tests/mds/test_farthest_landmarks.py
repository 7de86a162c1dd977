"""Landmarks in a metric space that is known by its distances alone."""

import pytest
import torch

from equigeo.mds.landmarks import farthest_landmarks

RING = torch.minimum((torch.arange(8)[:, None] - torch.arange(8)) % 8,
                     (torch.arange(8) - torch.arange(8)[:, None]) % 8)  # fmt: skip


def test_each_is_the_farthest_from_those_before_and_is_measured_once():
    asked = []

    def measure(i):
        asked.append(i)
        return RING[i].float()

    chosen, distances = farthest_landmarks(measure, 4, start=1)
    assert chosen.tolist() == [1, 5, 3, 7]
    assert asked == [1, 5, 3, 7]
    assert distances.dtype == torch.float64
    assert torch.equal(distances, RING[chosen].double())


def test_all_points_are_the_most():
    chosen, distances = farthest_landmarks(lambda i: RING[i], 99, start=0)
    assert sorted(chosen.tolist()) == list(range(8))
    assert distances.shape == (8, 8)


def test_points_that_coincide_are_chosen_one_after_another():
    chosen, _ = farthest_landmarks(lambda i: torch.zeros(3), 3, start=2)
    assert chosen.tolist() == [2, 0, 1]


def test_there_must_be_one():
    with pytest.raises(ValueError, match="at least one landmark, got 0"):
        farthest_landmarks(lambda i: RING[i], 0, start=0)
