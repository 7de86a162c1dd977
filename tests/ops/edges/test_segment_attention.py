import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from equigeo.ops import kernels_info, segment_attention
from equigeo.testing import tolerance
from tests.ops.problems import SMALL

pytestmark = pytest.mark.kernels

DTYPES = [torch.float32, torch.float64]
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
needs_kernels = pytest.mark.skipif(kernels_info()["cpu"] is None, reason="no compiled kernels")


def arguments(dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    edges = SMALL.graph()
    return {
        "values": SMALL.randn("values", 4, 2, 3, dtype=dtype),
        "logits": SMALL.randn("logits", 9, 2, dtype=dtype),
        "source": edges.source,
        "ptr": edges.ptr,
        "target": edges.target,
        "back_order": edges.back_order,
        "back_ptr": edges.back_ptr,
    }


def one_row(logits: Tensor) -> Tensor:
    """Attention of one target over sources of its own."""
    each = torch.arange(len(logits) + 1)
    values = logits.new_ones(len(logits), 1, 1)
    ptr, target = torch.tensor([0, len(logits)]), torch.zeros_like(each[1:])
    _, weights = segment_attention(values, logits[:, None], each[:-1], ptr, target, each[:-1], each)
    return weights[:, 0]


@every_dtype
def test_one_row_is_a_softmax(dtype):
    logits = SMALL.randn("logits", 50, dtype=dtype)
    assert_close(one_row(logits), logits.softmax(0), **tolerance(dtype, 50))


@every_dtype
def test_weights_sum_to_one_where_an_edge_arrives_and_rows_without_one_are_zero(dtype):
    case = arguments(dtype)
    out, weights = segment_attention(**case)
    total = torch.zeros(5, 2, dtype=dtype).index_add(0, case["target"], weights)
    arrives = case["ptr"].diff() > 0
    assert not arrives.all()
    assert_close(total, arrives[:, None].to(dtype).expand(5, 2), **tolerance(dtype, 9))
    assert (out[~arrives] == 0).all()


@every_dtype
def test_adding_a_constant_to_a_row_changes_nothing_however_large(dtype):
    logits = torch.tensor([0.0, 1.0, -2.0], dtype=dtype)
    assert_close(one_row(logits + 2.0**20), one_row(logits), rtol=0, atol=0)
    assert_close(one_row(logits - 2.0**20), one_row(logits), rtol=0, atol=0)


@every_dtype
def test_small_weights_are_accurate_relative_to_themselves(dtype):
    lowest = -math.log(torch.finfo(dtype).max) + 2
    for gap in torch.linspace(0, lowest, 997, dtype=dtype):
        small = one_row(torch.stack([torch.zeros((), dtype=dtype), gap]))[1]
        want = gap.double().exp() / (1 + gap.double().exp())
        assert_close(small.double() / want, torch.ones_like(want), **tolerance(dtype))


def test_minus_infinity_masks_an_edge_as_in_torch_softmax():
    logits = torch.tensor([0.0, -math.inf, 1.0])
    assert_close(one_row(logits), logits.softmax(0), **tolerance(torch.float32, 3))
    assert one_row(torch.tensor([-math.inf, -math.inf])).isnan().all()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_logit_that_is_not_a_number_spoils_its_row_and_no_other(bad):
    case = arguments()
    clean, _ = segment_attention(**case)
    case["logits"] = case["logits"].clone()
    case["logits"][0, 0] = bad
    out, _ = segment_attention(**case)
    row = int(case["target"][0])
    assert out[row, 0].isnan().all()
    clean[row, 0] = out[row, 0] = 0
    assert_close(out, clean, rtol=0, atol=0)


def test_the_wrapper_says_what_is_wrong_with_an_argument():
    case = arguments()
    edges = case["source"]
    wrong = [
        ("values", case["values"].long(), TypeError, "values must be float32 or float64"),
        ("values", case["values"][0], ValueError, r"values must be \(sources, heads, channels\)"),
        ("logits", case["logits"].float(), TypeError, "logits must have the dtype of values"),
        ("logits", case["logits"][:, :1], ValueError, "the 2 heads of values"),
        ("source", edges.int(), TypeError, "source must be int64, got torch.int32"),
        ("target", edges[1:], ValueError, "target must have 9 entries to fit the rows of logits"),
        ("source", edges[None], ValueError, "source must have one axis"),
        ("ptr", edges[:0], ValueError, "ptr must have at least 1 entry"),
        ("back_ptr", edges[:3], ValueError, "back_ptr must have 5 entries"),
        ("back_order", edges.to("meta"), ValueError, "back_order must be on the device of values"),
    ]
    for name, value, error, message in wrong:
        with pytest.raises(error, match=message):
            segment_attention(**{**case, name: value})


@needs_kernels
@pytest.mark.parametrize("entry", [-1, 10**12, torch.iinfo(torch.int64).min])
@pytest.mark.parametrize("name", ["source", "target", "back_order", "ptr", "back_ptr"])
def test_a_stray_index_is_an_error_and_reads_nothing_outside(name, entry):
    case = arguments()
    case["values"].requires_grad_()
    case[name] = case[name].clone()
    case[name][2] = entry
    with pytest.raises(RuntimeError, match=r"out of range|must start at 0, never fall and end"):
        segment_attention(**case)[0].sum().backward()


@needs_kernels
def test_edges_without_any_source_are_an_error():
    case = arguments()
    case["values"] = case["values"][:0]
    case["back_ptr"] = torch.zeros(1, dtype=torch.int64)
    with pytest.raises(RuntimeError, match="no edges where there is no source"):
        segment_attention(**case)


@needs_kernels
def test_a_direct_call_with_shapes_that_do_not_fit_is_refused():
    case = arguments()
    case["logits"] = case["logits"][:4]
    with pytest.raises(RuntimeError, match="logits must have size 9 along axis 0, got 4"):
        torch.ops.equigeo.segment_attention(*case.values())
