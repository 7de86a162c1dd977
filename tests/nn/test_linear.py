import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.nn import Linear
from equigeo.nn.module import allow_unreached
from equigeo.reps import Irreps
from equigeo.testing import tolerance
from tests.draws import random
from tests.wrong_inputs import refused

terms = st.tuples(st.integers(0, 4), st.tuples(st.integers(0, 3), st.sampled_from([1, -1])))
irreps = st.lists(terms, max_size=5).map(Irreps)
layouts = pytest.mark.parametrize("layout", ["mul_ir", "ir_mul"])
# Random irreps and lists of pairs leave terms that nothing arrives at.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.* has no path to .*:UserWarning"),
    pytest.mark.filterwarnings("ignore:.* needs a path to its output:UserWarning"),
]


def close(a: torch.Tensor, b: torch.Tensor, terms: int = 64) -> None:
    torch.testing.assert_close(a, b, **tolerance(a.dtype, terms))


def by_definition(linear: Linear, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Sum over u of W_uw x_u / sqrt(fan), one number at a time."""
    ins, outs = linear.irreps_in, linear.irreps_out
    x = ins.to_layout(x, "mul_ir")
    out = x.new_zeros(outs.dim)
    offset = 0
    for i, (mul_in, ir) in enumerate(ins):
        for j, (mul_out, other) in enumerate(outs):
            if ir != other:
                continue
            fan = sum(mul for mul, same in ins if same == ir)
            dim = 2 * ir[0] + 1
            for u in range(mul_in):
                for w in range(mul_out):
                    start_in = ins.slices()[i].start + u * dim
                    start_out = outs.slices()[j].start + w * dim
                    scale = weight[offset + u * mul_out + w] / fan**0.5
                    out[start_out : start_out + dim] += scale * x[start_in : start_in + dim]
            offset += mul_in * mul_out
    return outs.with_layout("mul_ir").to_layout(out, linear.irreps_out.layout)


@layouts
@given(irreps_in=irreps, irreps_out=irreps)
def test_output_is_the_normalized_sum_over_equal_irreps(layout, irreps_in, irreps_out):
    with allow_unreached():  # random irreps may have no path between them
        linear = Linear(str(irreps_in), str(irreps_out), layout=layout).double()
    weight, x = random(linear.weight_numel), random(irreps_in.dim, seed=1)
    close(linear(x, weight), by_definition(linear, x, weight))


def test_unit_normal_inputs_and_weights_give_unit_variance():
    for normalization in ("element", "path"):
        linear = Linear(
            "30x0e+10x1o+40x0e", "8x0e+8x1o", path_normalization=normalization, shared_weights=False
        ).double()
        weight = random(2000, linear.weight_numel)
        z = linear(random(2000, linear.irreps_in.dim, seed=1), weight)
        assert abs(z[:, :8].square().mean().item() - 1) < 0.05
        assert abs(z[:, 8:].square().mean().item() - 1) < 0.05


def test_external_weights_differ_by_sample():
    linear = Linear("2x0e+3x1o", "2x1o+2x0e", shared_weights=False).double()
    assert not list(linear.parameters())
    x, weight = random(4, 11), random(4, linear.weight_numel, seed=1)
    each = torch.stack([linear(a, w) for a, w in zip(x, weight, strict=True)])
    close(linear(x, weight), each)
    close(linear(x, weight[:, None]), torch.stack([linear(x, w) for w in weight]))


def test_what_no_input_reaches_is_zero_or_the_bias():
    linear = Linear("2x1o", "3x0e+2x1o+1x2e", biases=True)
    torch.nn.init.ones_(linear.bias)
    z = linear(random(5, 6, dtype=torch.float32))
    assert z[:, :3].eq(1).all()
    assert z[:, 9:].eq(0).all()
    assert linear.output_mask.tolist() == [1.0] * 9 + [0.0] * 5
    with allow_unreached(), pytest.warns(UserWarning, match="Linear needs a path to its output"):
        zero = Linear("2x1o", "3x0e")
    assert zero.output_mask.eq(0).all()
    assert zero(torch.ones(5, 6)).eq(0).all()


def test_instructions_choose_the_blocks():
    linear = Linear("4x0e + 3x0e", "4x0e + 3x0e", instructions=[(0, 0), (1, 1)]).double()
    assert linear.weight_numel == 4 * 4 + 3 * 3
    x = random(7)
    only_first = linear(torch.cat([x[:4], torch.zeros(3, dtype=x.dtype)]))
    assert only_first[:4].ne(0).all()
    assert only_first[4:].eq(0).all()


@pytest.mark.parametrize("batch", [(), (0,), (2, 0, 3), (2, 3)])
@layouts
def test_any_leading_axes(layout, batch):
    linear = Linear("2x0e+3x1o", "2x1o+2x2e+2x0e", biases=True, layout=layout)
    x = random(*batch, 11, dtype=torch.float32)
    assert linear(x).shape == (*batch, 18)


def test_empty_irreps_make_empty_features():
    assert Linear("", "2x0e")(torch.zeros(3, 0)).tolist() == [[0.0, 0.0]] * 3
    assert Linear("2x0e", "")(torch.zeros(3, 2)).shape == (3, 0)
    assert Linear("0x0e+0x1o", "0x0e")(torch.zeros(3, 0)).shape == (3, 0)


BAD = {
    "unknown text": (dict(irreps_in="2z"), ValueError, "irreps_in: irreps '2z' cannot be read"),
    "not irreps": (dict(irreps_out=3), TypeError, "irreps_out: irreps must be text"),
    "layout": (dict(layout="rows"), ValueError, 'layout must be "mul_ir" or "ir_mul"'),
    "other layout": (
        dict(irreps_in=Irreps("2x1o", "ir_mul")),
        ValueError,
        "irreps_in has the layout 'ir_mul', the layer 'mul_ir'",
    ),
    "contradiction": (
        dict(internal_weights=True, shared_weights=False),
        ValueError,
        "internal_weights=True needs shared_weights=True",
    ),
    "normalization": (dict(path_normalization="norm"), ValueError, '"element" or "path"'),
    "index": (dict(instructions=[(0, 5)]), ValueError, "must index 2 input and 2 output terms"),
    "irreps differ": (
        dict(instructions=[(0, 1)]),
        ValueError,
        "must join equal irreps, got 2x0e and 2x1o",
    ),
    "too many biases": (dict(biases=[True]), ValueError, "one entry per output term, 2"),
    "bias of a vector": (dict(biases=[False, True]), ValueError, "only scalars 0e can have a bias"),
}


@pytest.mark.parametrize(("options", "kind", "message"), BAD.values(), ids=BAD.keys())
def test_bad_arguments_are_named(options, kind, message):
    arguments = dict(irreps_in="2x0e+3x1o", irreps_out="2x0e+2x1o") | options
    with pytest.raises(kind, match=message):
        Linear(arguments.pop("irreps_in"), arguments.pop("irreps_out"), **arguments)


@pytest.mark.parametrize(
    ("irreps_out", "options"),
    [("4x0e", {"biases": True}), ("4x0e+2x1o", {}), ("4x0e+2x1o", {"shared_weights": False})],
)
@pytest.mark.filterwarnings("ignore:Linear. no weight reaches")
def test_no_option_changes_the_dtype_under_autocast(irreps_out, options):
    linear = Linear("4x0e", irreps_out, **options)
    weight = None if linear.shared_weights else torch.ones(2, linear.weight_numel)
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(torch.ones(2, 4), weight).dtype == torch.bfloat16


def test_bad_inputs_are_named():
    linear = Linear("2x0e+3x1o", "2x0e+2x1o", biases=True)
    x = torch.zeros(4, 11)
    refused(r"features must be \(\.\.\., 11\), got \(4, 10\)", linear, x[:, 1:])
    refused(r"features must be floating, got torch\.int64", linear, x.long(), error=TypeError)
    refused("weight must have the dtype of features", linear, x.double(), error=TypeError)
    refused(r"weight must be \(\.\.\., 10\), got \(9,\)", linear, x, torch.zeros(9))
    with pytest.raises(ValueError, match="weight must be on the device of features, cpu, got meta"):
        linear(x, torch.zeros(10, device="meta"))
    refused(r"weight must be \(10,\), for shared_weights is True", linear, x, torch.zeros(4, 10))
    with pytest.raises(ValueError, match=r"leading axes must broadcast, got features \(4, 11\)"):
        Linear("2x0e+3x1o", "2x0e+2x1o", shared_weights=False)(x, torch.zeros(3, 10))
    with pytest.raises(ValueError, match=r"weight \(\.\.\., 10\) must be given"):
        Linear("2x0e+3x1o", "2x0e+2x1o", internal_weights=False)(x)
