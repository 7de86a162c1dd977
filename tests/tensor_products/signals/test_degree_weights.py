import pytest
import torch
from torch.testing import assert_close

from equigeo.tensor_products import DegreeWeights, GauntTensorProduct
from equigeo.testing import assert_equivariant
from tests.tensor_products.signal_helpers import block, couple, signal
from tests.wrong_inputs import refused


def weighted(lmax: int, channels: int | None = None, **options: int) -> DegreeWeights:
    module = DegreeWeights(lmax, channels, **options).double()
    numbers = torch.arange(1, module.weight.numel() + 1, dtype=torch.float64)
    module.weight.data.copy_(numbers.view(module.weight.shape).sqrt())
    return module


def test_each_degree_of_each_channel_has_its_weight():
    module, x = weighted(2, channels=3), signal(2, 5, 3)
    for channel in range(3):
        for l in range(3):
            want = module.weight[channel, l] * x[:, channel, block(l)]
            assert_close(module(x)[:, channel, block(l)], want)
    assert_close(DegreeWeights(2, 3).double()(x), x, rtol=0, atol=0)


def test_paths_of_a_product_get_weights_that_factorize():
    first, second, out = weighted(1), weighted(2), weighted(2)
    product = GauntTensorProduct(1, 2, 2)
    x, y = signal(1), signal(2, name="y")
    z = out(product(first(x), second(y)))
    for l3 in range(3):
        want = sum(
            first.weight[l1]
            * second.weight[l2]
            * out.weight[l3]
            * product.coefficient(l1, l2, l3)
            * couple(l1, l2, l3, x, y)
            for l1 in range(2)
            for l2 in range(3)
        )
        assert_close(z[block(l3)], want)


@pytest.mark.parametrize("parity", [1, -1])
@pytest.mark.parametrize("channels", [None, 2])
def test_is_equivariant(channels, parity):
    x = signal(3, 4, 2)
    assert_equivariant(weighted(3, channels, parity=parity), inputs=[x])


def test_what_does_not_fit_is_named():
    module = DegreeWeights(1, channels=2)
    refused(r"x must be \(\.\.\., 2, 4\), got \(3, 4\)", module, torch.zeros(3, 4))
    refused("x must have the dtype of weight", module, signal(1, 2), error=TypeError)
    refused("channels must not be negative, got -1", DegreeWeights, 1, -1)
    refused("lmax must be >= 0", DegreeWeights, -1)
