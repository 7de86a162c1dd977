"""Constants that are kept for a process, and first asked for in inference mode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from equigeo.groups.charts import algebra_bases
from equigeo.reps import tensor_power
from equigeo.reps.so3_generators import so3_generators_table
from equigeo.reps.wigner_3j import wigner_3j_table
from equigeo.tensor_products import spherical_harmonics
from equigeo.tensor_products.products import path_coefficients, symmetric_basis
from equigeo.tensor_products.sphere import spherical_harmonics as harmonics

CPU = torch.device("cpu")
EVEN = ((0, 1), (2, 1))
KEPT = [
    (algebra_bases.rotation_basis, (3,)),
    (algebra_bases.symmetric_basis, (3,)),
    (algebra_bases.traceless_symmetric_basis, (3,)),
    (tensor_power._symmetric, (3, 2)),
    (tensor_power._alternating, (3, 2)),
    (so3_generators_table, (2,)),
    (wigner_3j_table, (1, 2, 3)),
    (harmonics._kept_table, (3, "integral", torch.float32, CPU)),
    (symmetric_basis.symmetric_basis, (EVEN, 2, (2, 1))),
    (path_coefficients._probe, (1, 0)),
    (path_coefficients._coupled_probes, (1, 1, 2)),
]


def tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from tensors(part)


@pytest.mark.parametrize(
    ("kept", "arguments"), KEPT, ids=[getattr(k, "__name__", "table") for k, _ in KEPT]
)
def test_no_tensor_of_inference_mode_is_kept(kept, arguments):
    kept.cache_clear()
    with torch.inference_mode():
        found = list(tensors(kept(*arguments)))
    assert found
    assert not any(x.is_inference() for x in found)


def test_harmonics_that_were_first_evaluated_in_inference_mode_have_gradients():
    harmonics._kept_table.cache_clear()
    x = torch.ones(2, 3, requires_grad=True)
    with torch.inference_mode():
        spherical_harmonics([0, 1, 2], x, True)
    spherical_harmonics([0, 1, 2], x, False).sum().backward()
    assert x.grad.any()
