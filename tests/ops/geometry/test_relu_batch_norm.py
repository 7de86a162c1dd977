"""Bad arguments, and what the op table does not say."""

import pytest
import torch

from equigeo.ops import relu_batch_norm
from equigeo.ops.geometry.relu_batch_norm import relu_batch_norm_reference
from equigeo.testing import tolerance

pytestmark = pytest.mark.kernels

X, ONE, ZERO = torch.ones(3, 2), torch.ones(2), torch.zeros(2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("rows", "channels"), [(1, 1), (13, 37), (128, 16), (3000, 33)])
def test_statistics_are_those_of_the_reference(rows, channels, dtype):
    torch.manual_seed(rows)
    x, added = torch.randn(2, rows, channels, dtype=dtype)
    vectors = torch.randn(2, channels, dtype=dtype)
    found = relu_batch_norm(x, added, *vectors, 1e-5, True)
    doubled = (t.double() for t in (x, added, *vectors))
    expected = relu_batch_norm_reference(*doubled, 1e-5, True)
    for mine, theirs in zip(found[1:], expected[1:], strict=True):
        torch.testing.assert_close(mine.double(), theirs, **tolerance(dtype, terms=rows))


def test_statistics_are_those_of_the_rectified_sum():
    x, added = torch.tensor([[1.0], [-3.0]]), torch.tensor([[1.0], [1.0]])
    out, mean, variance = relu_batch_norm(x, added, ONE[:1], ZERO[:1], 1e-12, False)
    assert (mean.item(), variance.item()) == (1.0, 1.0)
    torch.testing.assert_close(out, torch.tensor([[1.0], [-1.0]]))


def test_without_rows_statistics_are_zero():
    out, mean, variance = relu_batch_norm(X[:0], None, ONE, ZERO, 1e-5, True)
    assert out.shape == (0, 2)
    assert not mean.any()
    assert not variance.any()


def test_what_is_not_a_number_stays_so():
    x = X.clone()
    x[1, 0] = torch.nan
    out, _, _ = relu_batch_norm(x, None, ONE, ZERO, 1e-5, True)
    assert bool(out[:, 0].isnan().all())
    assert bool(out[:, 1].isfinite().all())
