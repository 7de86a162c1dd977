"""The norm between two ReLUs is what PyTorch's operations make of it, in every mode."""

import itertools

import pytest
import torch
from torch import nn

from equigeo.mesh.conv.rectified_batch_norm import RectifiedBatchNorm
from equigeo.testing import tolerance

ROWS, CHANNELS = 300, 7


def _made(rectify, dtype=torch.float64, **options):
    torch.manual_seed(0)
    norm = RectifiedBatchNorm(CHANNELS, rectify=rectify, **options).to(dtype)
    if norm.affine:
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    plain = nn.BatchNorm1d(CHANNELS, **options).to(dtype)
    plain.load_state_dict(norm.state_dict())  # the names are the same
    return norm, plain


def _plainly(plain, x, added, rectify):
    y = plain((x if added is None else x + added).relu())
    return y.relu() if rectify else y


def _inputs(dtype=torch.float64, rows=ROWS):
    torch.manual_seed(1)
    return [(2 * torch.randn(rows, CHANNELS, dtype=dtype) + 0.3).requires_grad_() for _ in "ab"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("training", [True, False])
def test_values_gradients_and_statistics_are_those_of_pytorch(training, dtype):
    bound = tolerance(dtype, terms=ROWS * CHANNELS)
    for summed, rectify in itertools.product([True, False], repeat=2):
        norm, plain = _made(rectify, dtype)
        for _ in range(3):  # of the second and third step, statistics are not those of the first
            found = []
            for owner in (norm.train(training), plain.train(training)):
                x, added = _inputs(dtype)
                given = (x, added if summed else None)
                y = norm(*given) if owner is norm else _plainly(plain, *given, rectify)
                inputs = [x, *[added] * summed, *owner.parameters()]
                found.append([y, *torch.autograd.grad(y.sin().sum(), inputs)])
            for mine, theirs in zip(*found, strict=True):
                torch.testing.assert_close(mine, theirs, **bound)
            for (name, mine), theirs in zip(norm.named_buffers(), plain.buffers(), strict=True):
                torch.testing.assert_close(mine, theirs, **bound, msg=name)


OPTIONS = [
    *({"momentum": None}, {"momentum": 0.3, "eps": 0.1}),
    *({"track_running_stats": False}, {"affine": False}),
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options_mean_what_they_mean_there(options):
    norm, plain = _made(False, **options)
    for rows in (5, 9):
        x, _ = _inputs(rows=rows)
        bound = tolerance(x.dtype, terms=100)
        torch.testing.assert_close(norm(x), _plainly(plain, x, None, False), **bound)
    norm.eval()
    plain.eval()
    torch.testing.assert_close(norm(x), _plainly(plain, x, None, False), **bound)
    torch.testing.assert_close(dict(norm.named_buffers()), dict(plain.named_buffers()), **bound)


def test_statistics_that_are_switched_off_later_stay():
    norm, plain = _made(False)
    for module in (norm, plain):
        module.track_running_stats = False
    x, _ = _inputs()
    torch.testing.assert_close(norm(x), _plainly(plain, x, None, False))
    assert norm.num_batches_tracked == 0
    assert not norm.running_mean.any()


@pytest.mark.parametrize("shape", [(1, CHANNELS), (3, 2), (2, 2, 2, 2)])
def test_errors_are_those_of_pytorch(shape):
    norm, plain = _made(True)
    x = torch.zeros(shape, dtype=torch.float64)
    with pytest.raises((ValueError, RuntimeError)) as theirs:
        plain(x)
    with pytest.raises(type(theirs.value)) as mine:
        norm(x)
    assert str(mine.value) == str(theirs.value)


def test_second_gradients_are_those_of_pytorch():
    norm, plain = _made(True)
    found = []
    for call in (norm, lambda x, a: _plainly(plain, x, a, True)):
        x, added = _inputs(rows=20)
        (slope,) = torch.autograd.grad(call(x, added).sin().sum(), x, create_graph=True)
        found.append(torch.autograd.grad(slope.square().sum(), (x, added)))
    bound = tolerance(torch.float64, terms=1000, condition=10)
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, **bound)


def test_a_large_mean_costs_no_digits():
    norm, _ = _made(False, torch.float32)
    x, _ = _inputs(torch.float32)
    x = x.detach() + 1000
    expected = _made(False)[1](x.double())
    # rounding of the features alone, a ten-millionth of 1000 over their deviation
    torch.testing.assert_close(norm(x).double(), expected, rtol=0, atol=1e-3)


def test_in_training_nothing_is_kept_but_the_summands():
    norm, _ = _made(True)
    x, added = _inputs()
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        norm(x, added)
    large = {t.data_ptr() for t in kept if t.numel() >= x.numel()}
    assert large == {x.data_ptr(), added.data_ptr()}
