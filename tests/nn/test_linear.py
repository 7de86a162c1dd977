"""Linear layers between any representations, and their two ways of mixing channels."""

import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.groups import GL, SL, SO, Affine, GLPlus, Group, O
from equigeo.nn import Linear
from equigeo.nn.channel_mixing import ChannelMixing, MixingBlock, cut_pieces
from equigeo.nn.module import allow_unreached
from equigeo.nn.summand_mixing import SummandMixing
from equigeo.reps import Irreps, Points, Representation, SymPower, TensorRep, Trivial, intertwiners
from equigeo.testing import assert_equivariant, tolerance
from tests.draws import random
from tests.reps.test_representation import representations
from tests.wrong_inputs import refused

terms = st.tuples(st.integers(0, 4), st.tuples(st.integers(0, 3), st.sampled_from([1, -1])))
irreps = st.lists(terms, max_size=5).map(Irreps)
layouts = pytest.mark.parametrize("layout", ["mul_ir", "ir_mul"])
VECTOR, COLUMNS = TensorRep(SL(2)), Irreps("2x1o", "ir_mul")
# Random irreps and lists of pairs leave terms that nothing arrives at.
pytestmark = pytest.mark.filterwarnings("ignore:.* needs a path to its output:UserWarning")
some_unreached = pytest.mark.filterwarnings("ignore:.* has no path to .*:UserWarning")


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
    close = tolerance(torch.float64, 64)
    torch.testing.assert_close(linear(x, weight), by_definition(linear, x, weight), **close)


@some_unreached
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


@pytest.mark.parametrize(
    ("irreps_out", "options"),
    [("4x0e", {"biases": True}), ("4x0e+2x1o", {}), ("4x0e+2x1o", {"shared_weights": False})],
)
@some_unreached
def test_no_option_changes_the_dtype_under_autocast(irreps_out, options):
    linear = Linear("4x0e", irreps_out, **options)
    weight = None if linear.shared_weights else torch.ones(2, linear.weight_numel)
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(torch.ones(2, 4), weight).dtype == torch.bfloat16


GROUPS: list[Group] = [O(2), SO(2), O(3), O(4), SL(2), GLPlus(2), GL(2), Affine(GLPlus(2))]
CLOSE = tolerance(torch.float64, 256)


def tensors(group: Group) -> Representation:
    """A scalar, vectors, covectors and quadratic forms, some of them often."""
    vector = TensorRep(group)
    return Trivial(group, 2) + 3 * vector + 2 * vector.dual() + SymPower(vector, 2)


@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_layers_are_equivariant(group):
    linear = Linear(tensors(group), tensors(group), biases=True).double()
    torch.nn.init.ones_(linear.bias)
    assert_equivariant(linear, inputs=[random(4, linear.rep_in.dim)], condition=50)


@pytest.mark.parametrize("normalization", ["element", "path"])
@pytest.mark.parametrize(
    ("sides", "bound"),
    [
        (("30x0e+10x1o+40x0e", "8x0e+8x1o"), 0.05),
        ((20 * VECTOR + 5 * VECTOR.dual() + 3 * TensorRep(SL(2), up=3),
          3 * VECTOR + 2 * SymPower(VECTOR, 3)), 0.08),
    ],
    ids=["irreps", "tensors"],
)  # fmt: skip
def test_unit_normal_inputs_and_weights_give_unit_variance(sides, bound, normalization):
    linear = Linear(*sides, shared_weights=False, path_normalization=normalization).double()
    weight, x = random(3000, linear.weight_numel), random(3000, linear.rep_in.dim, seed=1)
    z = linear(x, weight)
    for part, positions in linear.rep_out.summands():
        assert abs(z[:, positions].square().mean().item() - 1) < bound, part


@pytest.mark.parametrize(
    "sides", [("2x0e+3x1o", "2x1o+2x0e"), (tensors(SL(2)),) * 2], ids=["irreps", "tensors"]
)
def test_given_weights_differ_by_sample(sides):
    linear = Linear(*sides, shared_weights=False).double()
    assert not list(linear.parameters())
    x, weight = random(4, linear.rep_in.dim), random(4, linear.weight_numel, seed=1)
    each = torch.stack([linear(a, w) for a, w in zip(x, weight, strict=True)])
    torch.testing.assert_close(linear(x, weight), each, **CLOSE)
    every = torch.stack([linear(x, w) for w in weight])
    torch.testing.assert_close(linear(x, weight[:, None]), every, **CLOSE)


@some_unreached
@pytest.mark.parametrize("batch", [(), (0,), (2, 0, 3), (2, 3)])
@pytest.mark.parametrize(
    ("sides", "options"),
    [
        *((("2x0e+3x1o", "2x1o+2x2e+2x0e"), {"layout": x}) for x in ("mul_ir", "ir_mul")),
        ((2 * VECTOR, 3 * VECTOR), {}),
    ],
)
def test_leading_axes_are_kept(sides, options, batch):
    linear = Linear(*sides, biases=bool(options), **options)
    x = random(*batch, linear.rep_in.dim, dtype=torch.float32)
    assert linear(x).shape == (*batch, linear.rep_out.dim)


@pytest.mark.parametrize(
    ("rep_in", "rep_out"),
    [
        ("", "2x0e"), ("2x0e", ""), ("0x0e+0x1o", "0x0e"), (Trivial(SL(2), 0), VECTOR),
        (VECTOR, Trivial(SL(2), 0)), (Trivial(SL(2), 0),) * 2,
    ],
)  # fmt: skip
def test_empty_features_give_zeros_or_nothing(rep_in, rep_out):
    linear = Linear(rep_in, rep_out)
    z = linear(torch.ones(3, linear.rep_in.dim))
    assert torch.equal(z, torch.zeros(3, linear.rep_out.dim))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(irreps_in="2z"), "irreps_in: irreps '2z' cannot be read"),
        (dict(layout="rows"), 'layout must be "mul_ir" or "ir_mul"'),
        (dict(irreps_in=COLUMNS), "irreps_in has the layout 'ir_mul', the layer 'mul_ir'"),
        (
            dict(internal_weights=True, shared_weights=False),
            "internal_weights=True needs shared_weights=True",
        ),
        (dict(path_normalization="norm"), '"element" or "path"'),
        (dict(instructions=[(0, 5)]), "must index 2 input and 2 output terms"),
        (dict(instructions=[(0, 1)]), "must join equal irreps, got 2x0e and 2x1o"),
        (dict(biases=[True]), "one entry per output term, 2"),
        (dict(biases=[False, True]), "only scalars 0e can have a bias"),
    ],
)
def test_bad_options_raise(options, message):
    refused(message, Linear, **(dict(irreps_in="2x0e+3x1o", irreps_out="2x0e+2x1o") | options))


def test_bad_representations_raise():
    refused("irreps_out: irreps must be text", Linear, "2x0e", 3, error=TypeError)
    refused("irreps_out: irreps must be text", Linear, VECTOR, 3, error=TypeError)
    refused(r"parts of one group, got SL\(2\) and O\(3\); use restr", Linear, VECTOR, "1o")
    message = r"irreps_in must be linear, got Points"
    refused(message, Linear, Points(SL(2)), VECTOR, error=TypeError)
    refused("must index 1 input and 1 output terms", Linear, VECTOR, VECTOR, instructions=[(0, 1)])
    message = "must join summands between which there is a map, got Te"
    both = VECTOR + Trivial(SL(2), 1)
    refused(message, Linear, VECTOR, both, instructions=[(0, 1)])
    message = "only what has invariants can have a bias, got TensorRep"
    refused(message, Linear, VECTOR, VECTOR, biases=[True])
    refused("one entry per output term, 1", Linear, VECTOR, VECTOR, biases=[True, False])
    refused('"element" or "path"', Linear, VECTOR, VECTOR, path_normalization="norm")


def test_bad_inputs_raise():
    linear, x = Linear("2x0e+3x1o", "2x0e+2x1o", biases=True), torch.zeros(4, 11)
    refused(r"features must be \(\.\.\., 11\), got \(4, 10\)", linear, x[:, 1:])
    refused(r"features must be floating, got torch\.int64", linear, x.long(), error=TypeError)
    refused(r"weight must be \(\.\.\., 10\), got \(9,\)", linear, x, torch.zeros(9))
    message = "weight must be on the device of features, cpu, got meta"
    refused(message, linear, x, torch.zeros(10, device="meta"))
    refused(r"weight must be \(10,\), for shared_weights is True", linear, x, torch.zeros(4, 10))
    free = Linear("2x0e+3x1o", "2x0e+2x1o", shared_weights=False)
    message = r"leading axes must broadcast, got features \(4, 11\)"
    refused(message, free, x, torch.zeros(3, 10))
    given = Linear("2x0e+3x1o", "2x0e+2x1o", internal_weights=False)
    refused(r"weight \(\.\.\., 10\) must be given", given, x)
    between = Linear(VECTOR, VECTOR)
    refused(r"features must be \(\.\.\., 2\), got \(4, 3\)", between, x[:, :3])
    message = "weight must have the dtype of features"
    for layer in (linear, between):
        refused(message, layer, x[:, : layer.rep_in.dim].double(), error=TypeError)


def has_default_layout(reps: tuple[Representation, Representation]) -> bool:
    """A layer between irreps is told their layout, which is an argument of its own."""
    return any(not isinstance(rep, Irreps) for rep in reps) or all(
        rep.layout == "mul_ir" for rep in reps
    )


pairs = (
    st.sampled_from(GROUPS)
    .flatmap(lambda g: st.tuples(*[representations(g).filter(lambda r: r.dim < 13)] * 2))
    .filter(has_default_layout)
)


@given(pairs, st.sampled_from(["element", "path"]))
def test_weights_reach_all_equivariant_maps(reps, normalization):
    rep_in, rep_out = reps
    with allow_unreached(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        linear = Linear(rep_in, rep_out, path_normalization=normalization).double()
    units = torch.eye(rep_in.dim, dtype=torch.float64)
    each = torch.eye(linear.weight_numel, dtype=torch.float64)
    made = torch.stack([linear(units, w).mT for w in each] or [units.new_zeros(0, 0)]).flatten(1)
    maps = intertwiners(rep_in, rep_out).flatten(1)
    assert len(maps) == linear.weight_numel
    if len(maps):
        torch.testing.assert_close(made @ maps.mT @ maps, made, **CLOSE)
        assert torch.linalg.matrix_rank(made) == len(maps)


def test_irreps_among_other_representations_have_the_same_weights():
    irreps_in, irreps_out = Irreps("4x0e + 3x1o + 2x0e + 2x1e"), Irreps("2x1o + 5x0e + 2x1e")
    special = Linear(irreps_in, irreps_out, biases=True).double()
    torch.nn.init.normal_(special.bias)
    mixing = SummandMixing(irreps_in, irreps_out, biases=True).double()
    assert [(b.i_in, b.i_out, b.path_weight) for b in (*mixing.blocks, *mixing.shifts)] == [
        (b.i_in, b.i_out, b.path_weight) for b in special.instructions
    ]
    x = random(3, irreps_in.dim)
    general = mixing(x, special.weight, special.bias, x.shape[:-1])
    torch.testing.assert_close(general, special(x), **CLOSE)
    restricted = Linear(irreps_in.restrict(O(3)), irreps_out)
    assert restricted.weight_numel == special.weight_numel
    both = Irreps("1o + 1e")
    assert Linear(both, both).weight_numel == 2
    assert Linear(both.restrict(SO(3)), both.restrict(SO(3))).weight_numel == 4


def test_layouts_of_irreps_are_known():
    vectors = 3 * TensorRep(O(3))
    rows, columns = (Linear(vectors, Irreps("2x1o", k)).double() for k in ("mul_ir", "ir_mul"))
    columns.load_state_dict(rows.state_dict())
    x = random(5, 9)
    moved = Irreps("2x1o", "ir_mul").to_layout(columns(x), "mul_ir")
    torch.testing.assert_close(moved, rows(x), **CLOSE)


def test_biases_go_to_invariants():
    group = O(2)
    form = SymPower(TensorRep(group), 2)
    linear = Linear(TensorRep(group), TensorRep(group) + 2 * form, biases=[False, True]).double()
    assert linear.bias_numel == 2
    torch.nn.init.ones_(linear.bias)
    z = linear(torch.zeros(2, dtype=torch.float64))
    want = torch.tensor([0.0, 0.0, *[0.5**0.5, 0.0, 0.5**0.5] * 2], dtype=torch.float64)
    torch.testing.assert_close(z, want, **CLOSE)
    assert_equivariant(linear, inputs=[random(3, 2)])


def test_what_no_map_reaches():
    vector, odd = TensorRep(O(3)), Trivial(O(3), 2)
    refused(r"Linear needs a path to its output, got none from 1 Ten", Linear, vector, odd)
    with pytest.warns(UserWarning, match=r"has no path to 2 Trivial.*, which will be zero") as got:
        linear = Linear(vector, vector + odd)
    assert got[0].filename == __file__
    assert linear.output_mask.tolist() == [1.0, 1.0, 1.0, 0.0, 0.0]
    assert linear(torch.ones(3))[3:].eq(0).all()
    Linear(vector, odd, biases=True)  # which a bias reaches
    with allow_unreached(), pytest.warns(UserWarning, match="Linear needs a path to its output"):
        assert Linear(vector, odd)(torch.ones(4, 3)).eq(0).all()


IN, OUT = "2x0e+1x1o+3x1o+4x2e+2x1o", "3x1o+5x0e+2x1o+2x3e+1x2e"
# start, i_out, shape, weight, factor and scalar: neighbors that can be joined, one that is read
# twice, gaps in rows and weights, factors that differ, and terms that nothing reaches.
PLAIN = [
    MixingBlock(2, 0, (1, 3), 0, 0.5),
    MixingBlock(5, 0, (3, 3), 3, 0.5),
    MixingBlock(34, 0, (2, 3), 14, 2.0),
    MixingBlock(0, 1, (2, 5), 20, 1.0),
    MixingBlock(5, 2, (3, 2), 30, 1.0),
]
SCALED = [
    MixingBlock(2, 0, (1, 2, 3), 0, 0.5, 1),
    MixingBlock(5, 0, (3, 2, 3), 6, 0.5, 1),
    MixingBlock(34, 2, (2, 3, 2), 26, 2.0, 0),
    MixingBlock(14, 4, (4, 1, 1), 40, 1.0, 2),
    MixingBlock(0, 1, (2, 2, 5), 44, 1.0, 1),  # more channels than scalars
]


def sum_of_blocks(blocks, x, weight, y):
    outs = Irreps(OUT)
    out = x.new_zeros(x.shape[0], outs.dim)
    starts = [part.start for part in outs.slices()]
    for block in blocks:
        mul, *_, mul_out = block.shape
        dim = 2 * outs.terms[block.i_out][1][0] + 1
        term = x[:, block.start : block.start + mul * dim].view(-1, mul, dim)
        count = block.weight + torch.Size(block.shape).numel()
        matrix = block.factor * weight[block.weight : count].view(mul, -1, mul_out)
        scalars = y[:, block.scalar :][:, : matrix.shape[1]] if y is not None else x.new_ones(1, 1)
        start = starts[block.i_out]
        made = torch.einsum("rum,uvw,rv->rwm", term, matrix, scalars.expand(len(x), -1))
        out[:, start : start + mul_out * dim] += made.flatten(1)
    return out


@pytest.mark.parametrize("rows", [0, 1, 5])
@pytest.mark.parametrize("layout", ["mul_ir", "ir_mul"])
@pytest.mark.parametrize("blocks", [PLAIN, SCALED], ids=["plain", "scaled"])
def test_it_is_the_sum_over_blocks(blocks, layout, rows):
    ins, outs = Irreps(IN), Irreps(OUT)
    x, weight = random(rows, ins.dim), random(66, seed=1)
    y = random(rows, 3, seed=2) if blocks is SCALED else None
    mixing = ChannelMixing(ins.with_layout(layout), outs.with_layout(layout), blocks, 66)
    found = mixing(ins.to_layout(x, layout), weight, y)
    assert found.is_contiguous()
    got = outs.with_layout(layout).to_layout(found, "mul_ir")
    torch.testing.assert_close(got, sum_of_blocks(blocks, x, weight, y), **tolerance(x.dtype, 32))


def test_neighbours_meet_in_one_matrix_product(monkeypatch):
    ins, outs = Irreps("2x1o+3x1o+4x1o"), Irreps("5x1o")
    blocks = [
        MixingBlock(0, 0, (2, 5), 0, 1.0),
        MixingBlock(6, 0, (3, 5), 10, 1.0),
        MixingBlock(15, 0, (4, 5), 25, 1.0),
    ]
    calls, addmm = [], torch.addmm

    def counted(input, a, b, **options):
        calls.append(a.shape)
        return addmm(input, a, b, **options)

    monkeypatch.setattr(torch, "addmm", counted)
    ChannelMixing(ins, outs, blocks, 45)(random(7, 27), random(45))
    assert calls == [(5, 9)]


def test_rows_are_cut_where_ranges_begin_and_end():
    assert cut_pieces([(2, 3), (5, 1), (2, 3)], 8) == ([2, 3, 1, 2], {0: 0, 2: 1, 5: 2, 6: 3})
    assert cut_pieces([], 4) == ([4], {0: 0})
    assert cut_pieces([], 0) == ([], {})
