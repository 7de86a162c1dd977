import pytest
import torch

from equigeo._core.tensors import autocasts, computes_in_float32, without_autocast


@computes_in_float32
def product(x, y, label="", *, z=None):
    return x @ y if z is None else x @ y + z


def test_halves_are_cast_and_ops_inside_are_not_cast_back():
    half, single = torch.ones(2, 2, dtype=torch.bfloat16), torch.ones(2, 2)
    with torch.autocast("cpu", torch.bfloat16):
        assert product(half, single, "named", z=half).dtype == torch.float32
        assert (half @ half).dtype == torch.bfloat16


def test_double_precision_stays():
    x = torch.ones(2, 2, dtype=torch.float64)
    with torch.autocast("cpu", torch.bfloat16):
        assert product(x, x).dtype == torch.float64


def test_nothing_is_cast_without_autocast():
    half, single = torch.ones(2, 2, dtype=torch.bfloat16), torch.ones(2, 2)
    assert product(half, half).dtype == torch.bfloat16
    with pytest.raises(RuntimeError):
        product(half, single)


def test_devices_without_autocast_are_left_alone():
    x = torch.ones(2, 2, device="meta", dtype=torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        assert product(x, x).dtype == torch.bfloat16


def test_gradients_have_the_dtype_of_what_was_given():
    half = torch.ones(2, 2, dtype=torch.bfloat16, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        product(half, torch.ones(2, 2)).sum().backward()
    assert half.grad.dtype == torch.bfloat16


def test_autocast_is_asked_of_a_device_and_turned_off_for_it():
    half = torch.ones(2, 2, dtype=torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        assert autocasts("cpu")
        assert not autocasts("meta")
        with without_autocast("cpu"):
            assert not autocasts("cpu")
            assert (half.float() @ half.float()).dtype == torch.float32
    assert not autocasts("cpu")


@pytest.mark.parametrize("kind", [tuple, list])
def test_sources_and_targets_are_cast_in_tuples_and_lists(kind):
    @computes_in_float32
    def first(pair):
        return pair[0]

    half = torch.ones(2, dtype=torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        assert first(kind([half, None])).dtype == torch.float32
