import pytest
import torch

from equigeo.ops.clouds.principal_axes_reference import principal_axes_reference
from equigeo.ops.segments.gather_sum import gather_sum_reference
from equigeo.ops.segments.segment_of_rows import segment_of_rows

pytestmark = pytest.mark.kernels


def test_agrees_with_repeated_numbers_of_segments():
    counts = torch.tensor([0, 3, 0, 0, 1, 5, 0])
    want = torch.repeat_interleave(counts)
    assert torch.equal(segment_of_rows(counts.cumsum(0), len(want)), want)
    assert segment_of_rows(torch.zeros(0, dtype=torch.int64), 0).shape == (0,)


@pytest.mark.parametrize("ptr", [[0, 2**40], [0, -5, 9], [0, 1], [5, 2, 2**62]], ids=str)
def test_references_stay_inside_their_arrays_whatever_the_offsets_are(ptr):
    ptr = torch.tensor(ptr)
    x, index = torch.ones(3, 4), torch.zeros(3, dtype=torch.int64)
    weight = torch.ones(3)
    for call in (
        lambda: gather_sum_reference(x, index, ptr, index, ptr),
        lambda: principal_axes_reference(x, ptr, weight, True, 1, 0, 1e-6, 1e-6),
    ):
        try:
            results = call()
        except (RuntimeError, IndexError) as error:
            assert "out of" in str(error)  # noqa: PT017
        else:
            first = results if isinstance(results, torch.Tensor) else results[0]
            assert len(first) in (3, len(ptr) - 1)
