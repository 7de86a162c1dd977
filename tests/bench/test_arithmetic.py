import pytest
import torch

from bench.arithmetic import MULTIPLY_ACCUMULATES, compulsory_bytes, multiply_accumulates
from equigeo.ops import Path, PathTable, Segment
from equigeo.ops.runtime.declare import SCHEMAS

ROWS = 10
WITHOUT_KERNELS = {"principal_axes_nd"}  # composed on every device


def table() -> dict[str, torch.Tensor]:
    """One path: two vectors times one vector into two scalars, by three coefficients."""
    x, y, out = Segment.block(0, 2, 3), Segment.block(0, 1, 3), Segment.block(0, 2, 1)
    path = Path(x, y, out, weight=0, coefficients=torch.eye(3)[..., None])
    t = PathTable.from_paths([path], dims=(6, 3, 2, 2))
    rows = {"x": torch.ones(ROWS, 6), "y": torch.ones(ROWS, 3)}
    return {**rows, "paths": t.paths, "entries": t.entries, "values": t.values}


@pytest.mark.parametrize(
    ("op", "count"),
    [
        (
            "channelwise_product",
            3 + 2 * (3 + 3),
        ),  # a matrix (1, 3), weights, and the matrix times x
        ("channelwise_product_backward", 2 * 3 + 2 * (3 + 1 + 3 + 2 * 3)),
        ("copywise_product", 2 * (9 + 3 + 1)),
        ("copywise_product_backward", 3 * 2 * (9 + 3 + 1)),
        ("fully_connected_product", 3 + 2 * (3 + 2)),
    ],
)
def test_a_product_is_counted_by_hand(op, count):
    assert multiply_accumulates(op, table()) == ROWS * count


def test_a_convolution_with_splines_is_counted_by_hand():
    spline = {"position": torch.ones(ROWS), "basis": torch.ones(5, 4)}
    args = table() | spline | {"coefficients": torch.ones(2, 9, 16)}
    weights = 5 * 4 + 4 * 16
    assert multiply_accumulates("spline_conv", args) == ROWS * (3 + 2 * (3 + 3) + weights)
    count = 2 * 3 + 2 * (3 + 1 + 3 + 2 * 3) + 2 * weights + 16
    assert multiply_accumulates("spline_conv_backward", args) == ROWS * count


def test_a_linear_map_is_counted_by_hand():
    blocks = torch.tensor([[0, 3, 0, 4, 1, 0], [3, 2, 4, 5, 3, 12]])
    args = {"x": torch.ones(ROWS, 9), "blocks": blocks}
    assert multiply_accumulates("block_linear", args) == ROWS * (3 * 4 + 2 * 5 * 3)
    assert multiply_accumulates("block_linear_backward", args) == 2 * ROWS * (3 * 4 + 2 * 5 * 3)


def test_a_convolution_by_orders_is_counted_by_hand():
    args = {
        "source": torch.zeros(ROWS), "terms_in": [2, 0, 0, 3, 2, 0], "terms_out": [4, 1, 1],
        "mmax": 1, "complex_weights": True, "radial": torch.ones(7, 8),
    }  # fmt: skip
    turned = 2 * 1 * 1 + 3 * 5 * 3 + 4 * 3 * 3
    mixed = (2 + 3) * 4 + 3 * (3 * 4)
    assert multiply_accumulates("so2_conv", args) == ROWS * (turned + mixed + 7 * 8)
    args |= {"complex_weights": False, "radial": None}
    assert multiply_accumulates("so2_conv", args) == ROWS * (turned + 20 + 2 * 12)


def test_a_grid_product_is_counted_as_its_layer_counts():
    from equigeo.tensor_products import GauntTensorProduct

    layer = GauntTensorProduct(2, 1, 3, method="grid")
    (method,) = (m for m in layer.modules() if hasattr(m, "multiply_adds") and m is not layer)
    names = [f"{kind}_{n}" for n in "xyz" for kind in ("legendre", "trig")]
    args = {name: method.tables[name, torch.float64] for name in names}
    count = multiply_accumulates("grid_product", {"x": torch.ones(ROWS, 9), **args})
    assert count == ROWS * method.multiply_adds()


def test_a_convolution_by_attention_is_counted_by_hand():
    args = {
        "x": torch.ones(4, 5), "logits": torch.ones(ROWS, 2), "ptr": torch.tensor([0, 3, 6, 9, 10]),
        "weight": torch.ones(2 * 7, 5), "self_weight": None,
    }  # fmt: skip
    assert multiply_accumulates("attention_conv", args) == ROWS * 2 * (5 + 8) + 4 * 14 * 5
    args |= {"self_weight": torch.ones(2 * 7, 5), "attention": args.pop("logits")}
    count = ROWS * 2 * (5 + 8) + 4 * 2 * 14 * 5
    assert multiply_accumulates("attention_conv_backward", args) == 2 * count


def test_there_is_a_formula_for_every_op_with_kernels():
    assert set(MULTIPLY_ACCUMULATES) == set(SCHEMAS) - WITHOUT_KERNELS


def test_bytes_are_moved_once():
    args = {"x": torch.ones(2, 3), "degrees": [1, 2], "index": torch.zeros(5, dtype=torch.int64)}
    assert compulsory_bytes(args, [torch.ones(4, dtype=torch.float64)]) == 6 * 4 + 5 * 8 + 4 * 8
