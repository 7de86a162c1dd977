"""Linear layers between any representations: equivariant, complete, and of unit variance."""

import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.groups import GL, SL, SO, Affine, GLPlus, Group, O
from equigeo.nn import Linear
from equigeo.nn.module import allow_unreached
from equigeo.nn.summand_mixing import SummandMixing
from equigeo.reps import Irreps, Points, Representation, SymPower, TensorRep, Trivial, intertwiners
from equigeo.testing import assert_equivariant, tolerance
from tests.draws import random
from tests.reps.test_representation import representations
from tests.wrong_inputs import refused

GROUPS: list[Group] = [O(2), SO(2), O(3), O(4), SL(2), GLPlus(2), GL(2), Affine(GLPlus(2))]
CLOSE = tolerance(torch.float64, 256)
pytestmark = pytest.mark.filterwarnings("ignore:.* needs a path to its output:UserWarning")


def tensors(group: Group) -> Representation:
    """A scalar, vectors, covectors and quadratic forms, some of them often."""
    vector = TensorRep(group)
    return Trivial(group, 2) + 3 * vector + 2 * vector.dual() + SymPower(vector, 2)


@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_layers_are_equivariant(group):
    linear = Linear(tensors(group), tensors(group), biases=True).double()
    torch.nn.init.ones_(linear.bias)
    assert_equivariant(linear, inputs=[random(4, linear.rep_in.dim)], condition=50)


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


def test_restricted_irreps_see_more():
    both = Irreps("1o + 1e").restrict(SO(3))
    assert Linear("1o + 1e", "1o + 1e").weight_numel == 2
    assert Linear(both, both).weight_numel == 4


def test_layouts_of_irreps_are_known():
    vectors = 3 * TensorRep(O(3))
    rows, columns = (Linear(vectors, Irreps("2x1o", k)).double() for k in ("mul_ir", "ir_mul"))
    columns.load_state_dict(rows.state_dict())
    x = random(5, 9)
    moved = Irreps("2x1o", "ir_mul").to_layout(columns(x), "mul_ir")
    torch.testing.assert_close(moved, rows(x), **CLOSE)


@pytest.mark.parametrize("normalization", ["element", "path"])
def test_unit_normal_inputs_and_weights_give_unit_variance(normalization):
    group = SL(2)
    vector = TensorRep(group)
    linear = Linear(
        20 * vector + 5 * vector.dual() + 3 * TensorRep(group, up=3),
        3 * vector + 2 * SymPower(vector, 3),
        shared_weights=False,
        path_normalization=normalization,
    ).double()
    weight, x = random(3000, linear.weight_numel), random(3000, linear.rep_in.dim, seed=1)
    z = linear(x, weight)
    for part, positions in linear.rep_out.summands():
        assert abs(z[:, positions].square().mean().item() - 1) < 0.08, part


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


def test_external_weights_differ_by_sample():
    group = SL(2)
    linear = Linear(tensors(group), tensors(group), shared_weights=False).double()
    assert not list(linear.parameters())
    x, weight = random(4, linear.rep_in.dim), random(4, linear.weight_numel, seed=1)
    each = torch.stack([linear(a, w) for a, w in zip(x, weight, strict=True)])
    torch.testing.assert_close(linear(x, weight), each, **CLOSE)
    torch.testing.assert_close(linear(x, weight[:, None])[2, 1], linear(x[1], weight[2]), **CLOSE)


@pytest.mark.parametrize("batch", [(), (0,), (2, 0, 3), (2, 3)])
def test_any_leading_axes(batch):
    linear = Linear(2 * TensorRep(SL(2)), 3 * TensorRep(SL(2)), biases=False)
    assert linear(torch.zeros(*batch, 4)).shape == (*batch, 6)


def test_what_no_map_reaches():
    vector, odd = TensorRep(O(3)), Trivial(O(3), 2)
    with pytest.raises(ValueError, match=r"Linear needs a path to its output, got none from 1 Ten"):
        Linear(vector, odd)
    with pytest.warns(UserWarning, match=r"has no path to 2 Trivial.*, which will be zero") as got:
        linear = Linear(vector, vector + odd)
    assert got[0].filename == __file__
    assert linear.output_mask.tolist() == [1.0, 1.0, 1.0, 0.0, 0.0]
    assert linear(torch.ones(3))[3:].eq(0).all()
    Linear(vector, odd, biases=True)  # which a bias reaches
    with allow_unreached(), pytest.warns(UserWarning, match="Linear needs a path to its output"):
        assert Linear(vector, odd)(torch.ones(4, 3)).eq(0).all()


def test_empty_features():
    nothing, vector = Trivial(SL(2), 0), TensorRep(SL(2))
    assert Linear(nothing, vector)(torch.zeros(3, 0)).tolist() == [[0.0, 0.0]] * 3
    assert Linear(vector, nothing)(torch.zeros(3, 2)).shape == (3, 0)
    assert Linear(nothing, nothing)(torch.zeros(3, 0)).shape == (3, 0)


def test_bad_arguments_are_named():
    vector = TensorRep(SL(2))
    refused(r"parts of one group, got SL\(2\) and O\(3\); use restr", Linear, vector, "1o")
    refused(r"irreps_in must be linear, got Points", Linear, Points(SL(2)), vector, error=TypeError)
    refused("irreps_out: irreps must be text", Linear, vector, 3, error=TypeError)
    refused("must index 1 input and 1 output terms", Linear, vector, vector, instructions=[(0, 1)])
    with pytest.raises(ValueError, match="must join summands between which there is a map, got Te"):
        Linear(vector, vector + Trivial(SL(2), 1), instructions=[(0, 1)])
    with pytest.raises(ValueError, match="only what has invariants can have a bias, got TensorRep"):
        Linear(vector, vector, biases=[True])
    refused("one entry per output term, 1", Linear, vector, vector, biases=[True, False])
    refused('"element" or "path"', Linear, vector, vector, path_normalization="norm")
    linear = Linear(vector, vector)
    refused(r"features must be \(\.\.\., 2\), got \(4, 3\)", linear, torch.zeros(4, 3))
    with pytest.raises(TypeError, match="weight must have the dtype of features"):
        linear(torch.zeros(4, 2).double())
