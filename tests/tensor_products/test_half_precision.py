"""Half precision is a format to store numbers in: products compute in float32, and round once."""

import copy

import pytest
import torch

from equigeo import tensor_products as tp

SHARED = {"shared_weights": True}
LAYERS = {
    "fully connected": lambda: tp.FullyConnectedTensorProduct("8x0e+4x1o", "0e+1o", "4x0e+4x1o"),
    "full": lambda: tp.FullTensorProduct("3x0e+2x1o", "0e+1o"),
    "square": lambda: tp.TensorSquare("4x0e+4x1o", "4x0e+4x1e"),
    "channelwise": lambda: tp.ChannelwiseTensorProduct("4x0e+4x1o", "0e+1o", "4x0e+4x1o", **SHARED),
    "matrix": lambda: tp.MatrixTensorProduct(2, 2, 2),
    "vector signal": lambda: tp.VectorSignalTensorProduct(2, 2, 2),
    "gaunt by paths": lambda: tp.GauntTensorProduct(2, 2, 2, method="paths"),
    "gaunt by grids": lambda: tp.GauntTensorProduct(2, 2, 2),
    "curl": lambda: tp.CurlTensorProduct(2, 2, 2, method="paths"),
}


def call(layer, x, y):
    return layer(x) if isinstance(layer, tp.TensorSquare) else layer(x, y)


def inputs(layer, dtype, size=1.0):
    draw = torch.Generator().manual_seed(0)
    square = isinstance(layer, tp.TensorSquare)
    reps = (layer.irreps_in1,) * 2 if square else (layer.irreps_in1, layer.irreps_in2)
    return [(size * torch.randn(20, rep.dim, generator=draw)).to(dtype) for rep in reps]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_results_are_those_of_single_precision_rounded_once(make, dtype):
    torch.manual_seed(0)
    layer = make().to(dtype)
    single = copy.deepcopy(layer).float()
    x, y = inputs(layer, dtype)
    want = call(single, x.float(), y.float())
    got = call(layer, x, y)
    assert got.dtype == dtype
    # The last bit is decided otherwise where float32 itself rounds otherwise.
    lost = 1e-5 * float(want.detach().abs().max())
    torch.testing.assert_close(got.float(), want, rtol=torch.finfo(dtype).eps, atol=lost)


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_products_between_range_and_result_do_not_overflow(make):
    torch.manual_seed(0)
    layer = make().half()
    with torch.no_grad():
        for weight in layer.parameters():
            weight.mul_(0.01)
    x, y = inputs(layer, torch.float16, 200.0)
    if not any(True for _ in layer.parameters()):
        y = y / 100
    assert call(layer, x, y).isfinite().all()


def test_messages_do_not_overflow_in_float16():
    conv = tp.ChannelwiseConv("1x1o", "1x1o", "1x0e", **SHARED).half()
    torch.nn.init.constant_(conv.weight, 0.01)
    x = torch.tensor([[300.0, 0, 0]]).half()
    got = conv(x, torch.tensor([[0], [0]]), x)
    want = copy.deepcopy(conv).float()(x.float(), torch.tensor([[0], [0]]), x.float())
    torch.testing.assert_close(got, want.half())
