"""Which source a mistake of a header is compiled with."""

from __future__ import annotations

import pytest

from tests.mutants.sources import mutants
from tests.mutants.workshop import compiled_with


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("csrc/kernels/cuda/plan.cu", "plan.cu"),
        ("csrc/kernels/cuda/linear_tiles.cuh", "block_linear.cu"),
        # By way of what mixes orders.
        ("csrc/kernels/cuda/matrix_products.cuh", "so2_conv.cu"),
    ],
)
def test_a_header_is_compiled_with_the_first_source_that_comes_by_it(file, source):
    assert compiled_with(file) == source


def test_each_file_that_needs_a_build_of_its_own_has_a_source():
    files = {mutant.file for mutant in mutants() if mutant.constant}
    assert len(files) > 3
    assert all(compiled_with(file).endswith(".cu") for file in files)
