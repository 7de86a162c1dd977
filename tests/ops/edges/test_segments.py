import pytest
import torch
from torch.testing import assert_close

from equigeo.ops import gather_sum, kernels_info
from equigeo.ops.edges.gather_sum import gather_sum_reference, segment_of_rows
from equigeo.ops.geometry.principal_axes import principal_axes_reference
from tests.ops.problems import PROBLEMS

pytestmark = pytest.mark.kernels

needs_kernels = pytest.mark.skipif(kernels_info()["cpu"] is None, reason="no compiled kernels")


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_gather_sum_is_the_product_with_a_sparse_matrix(problem):
    edges = problem.graph()
    x = problem.randn("x", problem.sources, problem.channels, dtype=torch.float64).round()
    matrix = torch.zeros(problem.targets, problem.sources, dtype=torch.float64)
    one = torch.ones(problem.edges, dtype=torch.float64)
    matrix.index_put_((edges.target, edges.source), one, accumulate=True)
    y = gather_sum(x, edges.source, edges.ptr, edges.back_target, edges.back_ptr)
    assert_close(y, matrix @ x, rtol=0, atol=0)  # integers: exact in any order


def test_the_wrapper_says_what_is_wrong_with_an_argument():
    x, index, ptr = torch.zeros(2, 1), torch.tensor([0, 1, 1]), torch.tensor([0, 3])
    back_index, back_ptr = torch.zeros(3, dtype=torch.int64), torch.tensor([0, 1, 3])
    with pytest.raises(
        TypeError, match=r"x must be float32 or float64, bfloat16 or float16, got torch\.int64"
    ):
        gather_sum(x.long(), index, ptr, back_index, back_ptr)
    with pytest.raises(ValueError, match="back_index must have 3 entries to fit index, got 2"):
        gather_sum(x, index, ptr, back_index[1:], back_ptr)
    with pytest.raises(ValueError, match="back_ptr must have 3 entries to fit the rows of x"):
        gather_sum(x, index, ptr, back_index, back_ptr[1:])


@needs_kernels
def test_a_stray_index_is_an_error_and_reads_nothing_outside():
    x, ptr = torch.zeros(2, 1), torch.tensor([0, 3])
    back_index, back_ptr = torch.zeros(3, dtype=torch.int64), torch.tensor([0, 1, 3])
    for entry in (2, -1, 10**15):
        with pytest.raises(RuntimeError, match="an index is out of range"):
            gather_sum(x, torch.tensor([0, entry, 1]), ptr, back_index, back_ptr)
    for offsets in ([1, 3], [0, 2], [0, 4]):
        with pytest.raises(RuntimeError, match="ptr must start at 0, never fall and end at 3"):
            gather_sum(x, back_index, torch.tensor(offsets), back_index, back_ptr)


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
