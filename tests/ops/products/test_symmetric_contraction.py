import itertools
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from equigeo.ops import Polynomial, PolynomialTable, symmetric_contraction
from equigeo.testing import tolerance

pytestmark = pytest.mark.kernels

# w0 (x^2 + 3 y z) + w1 y to the first component, w1 x y z to the last; nothing in between
POLYNOMIALS = [
    Polynomial(0, 0, {(0, 0): 1.0, (1, 2): 3.0}),
    Polynomial(0, 1, {(1,): 1.0}),
    Polynomial(2, 1, {(0, 1, 2): 1.0}),
]
TABLE = PolynomialTable.from_polynomials(POLYNOMIALS, (3,), (3,))
X = torch.tensor([[1.0, 2.0, 3.0], [0.0, 1.0, -1.0]]).double()
WEIGHT = torch.tensor([[1.0, 10.0], [0.5, 2.0]]).double()[:, :, None]
INDEX = torch.tensor([1, 0])


def by_hand(x: Tensor, w: Tensor) -> list[float]:
    a, b, c = x.tolist()
    return [w[0].item() * (a * a + 3 * b * c) + w[1].item() * b, 0.0, w[1].item() * a * b * c]


def test_values_are_those_of_the_polynomials():
    want = [by_hand(x, WEIGHT[e, :, 0]) for x, e in zip(X, INDEX, strict=True)]
    got = symmetric_contraction(X, WEIGHT, INDEX, TABLE)
    assert torch.equal(got, torch.tensor(want).double())  # small integers and halves: exact


def test_a_monomial_of_any_degree_is_split_into_products():
    for degree in range(1, 9):
        power = Polynomial(0, 0, {(0,) * degree: 1.0})
        table = PolynomialTable.from_polynomials([power], (1,), (1,))
        got = symmetric_contraction(torch.tensor([[1.5]]), torch.ones(1, 1, 1), INDEX[1:], table)
        assert got.item() == 1.5**degree  # of 13 bits at most


@pytest.mark.parametrize("channels", [1, 7, 15, 16, 17, 33, 64, 100])
def test_layouts_of_components_hold_the_same_numbers(channels):
    generator = torch.Generator().manual_seed(channels)
    dims = [(4,), (1, 3), (1, 1, 1, 1)]
    names = list(itertools.combinations_with_replacement(range(4), 3))
    coefficients = torch.randn(4, len(names), generator=generator).tolist()
    cubes = [
        Polynomial(m, 0, dict(zip(names, row, strict=True))) for m, row in enumerate(coefficients)
    ]
    x = torch.randn(5, channels, 4, generator=generator, dtype=torch.float64)
    grad = torch.randn(5, channels, 4, generator=generator, dtype=torch.float64)
    weight = torch.randn(2, 1, channels, generator=generator, dtype=torch.float64)
    index = torch.tensor([0, 1, 1, 0, 1])

    def laid_out(features: Tensor, dims: tuple[int, ...]) -> Tensor:
        return torch.cat([part.flatten(1) for part in features.split(dims, -1)], -1)

    def back(rows: Tensor, dims: tuple[int, ...]) -> Tensor:
        parts = rows.split([channels * dim for dim in dims], -1)
        shaped = zip(parts, dims, strict=True)
        return torch.cat([part.reshape(5, channels, dim) for part, dim in shaped], -1)

    found = []
    for ins, outs in itertools.product(dims, dims):
        table = PolynomialTable.from_polynomials(cubes, ins, outs)
        rows = laid_out(x, ins).requires_grad_()
        z = symmetric_contraction(rows, weight, index, table)
        (slope,) = torch.autograd.grad(z, rows, laid_out(grad, outs))
        found.append((back(z.detach(), outs), back(slope, ins)))
    for values in found[1:]:
        assert_close(values, found[0], rtol=0, atol=0)


def test_sets_that_no_row_takes_have_zero_gradients_and_long_runs_all_of_theirs():
    # 40 rows of one set are three runs, whose sums are added up; 16 and 17 are the edges.
    counts = [0, 40, 16, 17, 0, 1]
    index = torch.repeat_interleave(torch.arange(6), torch.tensor(counts)).flip(0)
    x = torch.randn(74, 15, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    weight = torch.ones(6, 2, 5, dtype=torch.float64, requires_grad=True)
    z = symmetric_contraction(x, weight, index, TABLE)
    (got,) = torch.autograd.grad(z.sum(), weight)
    a, b, c = x.reshape(74, 5, 3).unbind(-1)
    each = torch.stack([a * a + 3 * b * c, b + a * b * c], 1)
    want = torch.zeros_like(weight).index_add(0, index, each)
    assert_close(got, want, **tolerance(torch.float64, terms=100))
    assert not got[[0, 4]].any()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"x": X.long()}, TypeError, "x must be float32 or float64, bfloat16 or float16"),
        ({"x": X[0]}, ValueError, r"x must be \(rows, components\), got shape \(3,\)"),
        ({"x": X[:, :2]}, ValueError, r"x must have 1 channels of 3 variables, got shape \(2, 2\)"),
        ({"weight": WEIGHT.float()}, TypeError, "weight must have the dtype of x, torch.float64"),
        ({"weight": WEIGHT[0]}, ValueError, r"weight must be \(sets, weights, channels\), got"),
        ({"weight": WEIGHT[:0]}, ValueError, "weight must have at least one set, got none"),
        ({"weight": WEIGHT.to("meta")}, ValueError, "weight must be on the device of x, cpu"),
        ({"index": INDEX.int()}, TypeError, "index must be int64, got torch.int32"),
        ({"index": INDEX[None]}, ValueError, r"index must have one axis, got shape \(1, 2\)"),
        ({"index": INDEX[:1]}, ValueError, "index must have 2 entries to fit the rows of x, got 1"),
    ],
)
def test_what_does_not_fit_is_named(change, error, message):
    given = {"x": X, "weight": WEIGHT, "index": INDEX, "table": TABLE, **change}
    with pytest.raises(error, match=message):
        symmetric_contraction(**given)


needs_kernels = pytest.mark.skipif(
    not torch.ops.equigeo.symmetric_contraction.default.has_kernel_for_dispatch_key("CPU"),
    reason="the reference is not about memory",
)


def changed(name: str, place: int | tuple[int, int], value: int) -> PolynomialTable:
    tensor = getattr(TABLE, name).clone()
    tensor[place] = value
    return replace(TABLE, **{name: tensor})


@needs_kernels
@pytest.mark.parametrize("stray", [-1, 2, 2**40])
def test_no_index_leaves_the_sets_of_weights(stray):
    index = torch.tensor([0, stray])
    with pytest.raises(RuntimeError, match="an index is out of range"):
        symmetric_contraction(X, WEIGHT, index, TABLE)


@needs_kernels
@pytest.mark.parametrize(
    ("table", "message"),
    [
        (changed("products", (0, 0), 4), "product 0 is not one of nodes before it"),
        (changed("products", (0, 1), -1), "product 0 is not one of nodes before it"),
        (changed("polynomials", (0, 0), 2), "polynomial 0 has a weight that does not exist"),
        (changed("polynomials", (2, 1), 3), "lead to one that exists"),
        (changed("polynomials", (0, 1), 1), "must be sorted by component"),
        (changed("polynomials", (0, 2), -1), "polynomial 0 has groups that do not exist"),
        (changed("polynomials", (2, 3), 99), "polynomial 2 has groups that do not exist"),
        (changed("groups", (0, 0), 99), "group 0 has terms or a node that do not exist"),
        (changed("groups", (0, 1), -1), "group 0 has terms or a node that do not exist"),
        (changed("groups", (0, 2), 99), "group 0 has terms or a node that do not exist"),
        (changed("nodes", 0, 99), "a term has a node that does not exist"),
        (changed("nodes", 0, -1), "a term has a node that does not exist"),
        (replace(TABLE, dims_out=(2,)), "lead to one that exists"),
        (replace(TABLE, dims_in=(4, -1)), "dims_in must hold positive 16-bit numbers, got -1"),
        (replace(TABLE, dims_out=(0, 3)), "dims_out must hold positive 16-bit numbers, got 0"),
        (replace(TABLE, values=TABLE.values[1:]), "values must have size"),
    ],
)
def test_no_table_leads_out_of_memory(table, message):
    with pytest.raises(RuntimeError, match=message):
        symmetric_contraction(X, WEIGHT, INDEX, table)


def backward(order: list[int], ptr: list[int]) -> None:
    rows = torch.tensor(order), torch.tensor(ptr)
    tensors = TABLE.products, TABLE.polynomials, TABLE.groups, TABLE.nodes, TABLE.values
    lists = list(TABLE.levels), list(TABLE.dims_in), list(TABLE.dims_out)
    op = torch.ops.equigeo.symmetric_contraction_backward
    op(X, X, WEIGHT, *rows, *tensors, *lists, False)


@needs_kernels
@pytest.mark.parametrize("ptr", [[0, 1, 3], [1, 1, 2], [0, 3, 2], [0, 1, 1]])
def test_no_offsets_lead_out_of_the_rows(ptr):
    with pytest.raises(RuntimeError, match="ptr must start at 0, never fall and end at 2"):
        backward(order=[1, 0], ptr=ptr)


@needs_kernels
@pytest.mark.parametrize("order", [[0, 2], [-1, 0]])
def test_no_order_leads_out_of_the_rows(order):
    with pytest.raises(RuntimeError, match="an index is out of range"):
        backward(order, ptr=[0, 1, 2])
