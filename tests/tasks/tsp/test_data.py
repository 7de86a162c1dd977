from __future__ import annotations

import torch

from equigeo.tasks.tsp import (
    validation_instances,
)
from equigeo.tasks.tsp.data import RandomInstances
from equigeo.training.random_state import derived_generator


def test_instances_are_drawn_anew_in_every_step():
    source = RandomInstances(100, 9)
    assert len(source) == 100
    first, again, second = (
        source.batch(range(5), generator=derived_generator(0, "jitter", i)).inputs
        for i in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    assert (first.shape, first.dtype) == ((5, 9, 2), torch.float64)
    assert ((0 <= first) & (first < 1)).all()
    assert torch.equal(validation_instances(9), validation_instances(9))
