from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from equigeo.graphs.brief_repr import brief_repr


@dataclass(repr=False)
class Result:
    values: torch.Tensor
    table: np.ndarray
    name: str
    more: Result | None = None

    __repr__ = brief_repr


def test_numbers_are_shown_by_their_shape():
    one = Result(torch.zeros(1000, 3, dtype=torch.float64), np.zeros(5, np.int64), "one")
    text = "Result(values=(1000, 3) float64, table=(5,) int64, name='one')"
    assert repr(one) == text
    two = Result(torch.zeros(0), np.zeros(0), "two", one)
    assert repr(two) == f"Result(values=(0,) float32, table=(0,) float64, name='two', more={text})"
