import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.points import pad_clouds

SIZES = st.lists(st.integers(0, 4), max_size=5)


def numbers(sizes: list[int]) -> torch.Tensor:
    return torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes, dtype=torch.int64))


@given(SIZES)
def test_padding_is_undone_by_the_mask(sizes):
    rows = torch.randn(sum(sizes), 2, dtype=torch.float64)
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    padded, mask = pad_clouds(rows, ptr=ptr)
    assert padded.shape == (len(sizes), max(sizes, default=0), 2)
    assert mask.sum(1).tolist() == sizes
    assert torch.equal(padded[mask], rows)
    assert not padded[~mask].any()


def test_gradients_pass_through_padding():
    rows = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    batch = torch.tensor([0, 0, 1, 1, 1])
    assert torch.autograd.gradcheck(lambda x: pad_clouds(x, batch=batch)[0], rows)


BATCH = torch.tensor([0, 1, 1])


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({}, ValueError, "batch or ptr must be given, got neither"),
        ({"batch": BATCH, "ptr": torch.tensor([0, 3])}, ValueError, "give one of them, got both"),
        ({"batch": BATCH.flip(0)}, ValueError, "batch must be sorted and not negative: sort all"),
        ({"batch": BATCH - 1}, ValueError, "batch must be sorted and not negative"),
        ({"batch": BATCH[:2]}, ValueError, r"batch must be \(3,\), got \(2,\)"),
        ({"batch": BATCH[None]}, ValueError, r"batch must be \(3,\), got \(1, 3\)"),
        ({"batch": BATCH.float()}, TypeError, r"batch must be int64, got torch\.float32"),
        ({"batch": BATCH.int()}, TypeError, r"batch must be int64, got torch\.int32"),
        ({"batch": [0, 1, 1]}, TypeError, "batch must be a Tensor or a NumPy array, got list"),
        ({"batch": torch.tensor([0, 1, 2**40])}, ValueError, "at most 134217728 clouds, got 10995"),
        ({"batch": BATCH.to("meta")}, ValueError, "batch must have values, got meta"),
        ({"ptr": torch.tensor([0, 2])}, ValueError, "start at 0, never fall and end at 3"),
        ({"ptr": torch.tensor([0, 4, 3])}, ValueError, "start at 0, never fall and end at 3"),
        ({"ptr": torch.tensor([])}, TypeError, "ptr must be int64"),
        ({"ptr": torch.tensor([], dtype=torch.int64)}, ValueError, r"ptr must be \(clouds \+ 1,\)"),
    ],
)
def test_what_is_no_batch_is_refused(given, error, message):
    with pytest.raises(error, match=message):
        pad_clouds(torch.zeros(3, 2), **given)


def test_a_number_is_no_cloud():
    with pytest.raises(ValueError, match="got a single number"):
        pad_clouds(torch.tensor(1.0), batch=torch.tensor([0]))
