"""Products of any three representations: equivariant, all there are, those of e3nn for irreps."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.groups import GL, SL, SO, Affine, GLPlus, Group, O
from equigeo.nn import BilinearProduct
from equigeo.nn.module import allow_unreached
from equigeo.reps import AltPower, Irreps, PlanarIrrep, Points, TensorRep, Trivial, intertwiners
from equigeo.tensor_products import FullyConnectedTensorProduct
from equigeo.testing import assert_equivariant, tolerance
from tests.draws import random
from tests.wrong_inputs import refused

GROUPS: list[Group] = [O(2), SO(2), O(3), SL(2), GLPlus(2), GL(2), Affine(GLPlus(2))]
CLOSE = tolerance(torch.float64, 256)
# Random irreps leave terms that nothing arrives at.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.* has no path to .*:UserWarning"),
    pytest.mark.filterwarnings("ignore:.* needs a path to its output:UserWarning"),
]


@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_products_are_equivariant(group):
    vector = TensorRep(group)
    first, second = 2 * vector + Trivial(group, 1), vector + 2 * vector.dual()
    product = BilinearProduct(first, second, Trivial(group, 2) + 2 * vector).double()
    x, y = random(4, first.dim), random(4, second.dim, seed=1)
    assert_equivariant(product, inputs=[x, y], condition=50)


terms = st.tuples(st.integers(0, 3), st.tuples(st.integers(0, 2), st.sampled_from([1, -1])))
irreps = st.lists(terms, max_size=3).map(Irreps)


@given(irreps, irreps, irreps)
def test_for_irreps_it_is_the_clebsch_gordan_product(first, second, out):
    with allow_unreached():
        ours = BilinearProduct(first, second, out).double()
        known = FullyConnectedTensorProduct(first, second, out).double()
    kept = [ins for ins in known.instructions if 0 not in ins.path_shape]
    assert ours.weight_numel == sum(torch.Size(ins.path_shape).numel() for ins in kept)
    weight = random(ours.weight_numel)
    x, y = random(3, first.dim), random(3, second.dim, seed=1)
    torch.testing.assert_close(ours(x, y, weight), known(x, y, weight), **CLOSE)


def test_layouts_of_irreps_are_known():
    rows = BilinearProduct("2x1o", "3x1o", "2x0e + 2x1e").double()
    made = Irreps("2x0e + 2x1e", "ir_mul")
    columns = BilinearProduct(Irreps("2x1o", "ir_mul"), "3x1o", made).double()
    columns.load_state_dict(rows.state_dict())
    x, y = random(4, 6), random(4, 9, seed=1)
    got = columns(Irreps("2x1o").to_layout(x, "ir_mul"), y)
    back = made.to_layout(got, "mul_ir")
    torch.testing.assert_close(back, rows(x, y), **CLOSE)


def test_weights_reach_all_equivariant_products_and_no_others():
    vector = TensorRep(SL(2))
    out = TensorRep(SL(2), up=2)
    product = BilinearProduct(vector, vector, out).double()
    each = torch.eye(product.weight_numel, dtype=torch.float64)
    units = torch.eye(2, dtype=torch.float64)
    made = torch.stack([product(units[:, None], units, w).flatten(0, 1).mT for w in each])
    maps = intertwiners(vector @ vector, out).flatten(1)
    assert product.weight_numel == len(maps) == 2
    torch.testing.assert_close(made.flatten(1) @ maps.mT @ maps, made.flatten(1), **CLOSE)
    first, second = PlanarIrrep(O(2), 1), PlanarIrrep(O(2), 2)
    for frequency, count in ((1, 1), (2, 0), (3, 1)):
        with allow_unreached():
            product = BilinearProduct(first, second, PlanarIrrep(O(2), frequency))
        assert product.weight_numel == count


def test_cross_products_of_densities():
    group = GLPlus(3)
    vector = TensorRep(group)
    product = BilinearProduct(vector, vector, TensorRep(group, 0, 1, density=1.0)).double()
    x, y = random(5, 3), random(5, 3, seed=1)
    scale = product.weight.detach() * 0.5**0.5
    torch.testing.assert_close(product(x, y).abs(), (scale * torch.linalg.cross(x, y)).abs())
    assert BilinearProduct(vector, vector, AltPower(vector, 2)).weight_numel == 1


def test_unit_normal_inputs_and_weights_give_unit_variance():
    vector = TensorRep(SL(2))
    product = BilinearProduct(
        5 * vector,
        4 * vector + Trivial(SL(2), 3),
        2 * vector + 3 * TensorRep(SL(2), up=2),
        shared_weights=False,
    ).double()
    first, second = product.rep_in
    weight = random(4000, product.weight_numel)
    z = product(random(4000, first.dim, seed=1), random(4000, second.dim, seed=2), weight)
    for part, positions in product.rep_out.summands():
        assert abs(z[:, positions].square().mean().item() - 1) < 0.1, part


def test_leading_axes_broadcast_and_products_with_nothing_are_zero():
    vector, nothing = TensorRep(SL(2)), Trivial(SL(2), 0)
    product = BilinearProduct(2 * vector, vector, Trivial(SL(2), 3), shared_weights=False).double()
    x, y, w = random(3, 4), random(3, 2, seed=1), random(3, product.weight_numel, seed=2)
    assert product(x[:, None], y, w).shape == (3, 3, 3)
    assert product(x[:0], y[:0], w[:0]).shape == (0, 3)
    torch.testing.assert_close(product(x[1], y[1], w[1]), product(x, y, w)[1], **CLOSE)
    assert BilinearProduct(nothing, vector, vector)(torch.zeros(3, 0), torch.ones(3, 2)).eq(0).all()
    assert BilinearProduct(vector, vector, nothing)(*[torch.zeros(3, 2)] * 2).shape == (3, 0)


def test_bad_arguments_raise():
    vector, one = TensorRep(SL(2)), Trivial(SL(2), 1)
    refused(r"parts of one group, got SL\(2\) and O\(3\)", BilinearProduct, vector, "1o", one)
    message, plane = r"parts of one group, got SL\(2\) and O\(2\)", Trivial(O(2), 1)
    refused(message, BilinearProduct, vector, vector, plane)
    message, points = "rep_in2 must be linear, got Points", Points(SL(2))
    refused(message, BilinearProduct, vector, points, one, error=TypeError)
    message = "needs a path to its output, got none from .* and .* to"
    refused(message, BilinearProduct, vector, vector, vector)
    with pytest.warns(UserWarning, match="has no path to 1 TensorRep") as got:
        BilinearProduct(vector, vector, vector + one)
    assert got[0].filename == __file__
    message = "internal_weights=True needs shared_weights=True"
    options = {"internal_weights": True, "shared_weights": False}
    refused(message, BilinearProduct, vector, vector, one, **options)
    product, x = BilinearProduct(vector, vector, one), torch.zeros(4, 2)
    refused(r"y must be \(\.\.\., 2\), got \(4, 3\)", product, x, torch.zeros(4, 3))
    refused("y must have the dtype of x", product, x, x.double(), error=TypeError)
    refused(r"must broadcast, got x \(4, 2\), y \(3, 2\)", product, x, x[:3])
    product = BilinearProduct(vector, vector, one, internal_weights=False)
    refused(r"weight \(\.\.\., 1\) must be given", product, x, x)
