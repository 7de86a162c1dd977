"""Convolutions by orders against Clebsch-Gordan products: oracles 6 to 24 and 32."""

import math
from functools import cache, partial
from typing import NamedTuple

import e3nn.o3
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from equigeo import tensor_products
from equigeo.graphs import EdgeIndex
from equigeo.ops import SO2Table
from equigeo.reps import Irreps
from equigeo.reps.wigner import wigner_3j, wigner_3j_table
from equigeo.tensor_products import ChannelwiseConv, SO2Conv, spherical_harmonics
from equigeo.testing import assert_equivariant, tolerance
from tests.draws import in_double
from tests.draws import random as randn
from tests.wrong_inputs import refused

F64 = torch.float64
TOY = "0e + 1o + 2e"
R0 = [0.36, 0.48, 0.80]
ONE_EDGE, ONE_VECTOR = torch.tensor([[0], [0]]), torch.tensor([R0], dtype=F64)
MIXED, ODD = "2x0e + 1x1o + 2x1e + 1x2o + 2x3o", "1x0o + 2x1e + 1x2e + 2x3o"
CLOSE = tolerance(F64, 64)  # all features of an edge, of which MIXED has 30
DIGITS = 5.1e-11  # half a unit of the tenth decimal, the last of the specification


class SO2Path(NamedTuple):
    """A path of the Clebsch-Gordan product that a convolution by orders equals."""

    term_in: int  # input term
    filter_degree: int  # degree of the edge harmonics
    term_out: int  # output term


class SO2Paths:
    """Conversion between path weights and matrices of orders for the terms of a convolution."""

    def __init__(self, table: SO2Table) -> None:
        self.table = table
        self.paths = tuple(
            SO2Path(i, lf, o)
            for i in range(len(table.terms_in))
            for o in range(len(table.terms_out))
            for lf in self._degrees(i, o)
        )
        self.sizes = [
            table.terms_in[p.term_in][0] * table.terms_out[p.term_out][0] for p in self.paths
        ]

    def to_matrices(
        self,
        h: Tensor,  # (weights,): a matrix (copies in, copies out) per path, normalized
    ) -> Tensor:  # (table.weight_numel,)
        """Return the matrices of orders of path weights, up to the largest order."""
        # With C of unit norm and component-normalized harmonics: W_1^m is the sum over l_f of
        # sqrt(2 l_f + 1) C_{m,0,m} h_{l_f}, W_2^m that with C_{m,0,-m}, over paths with an even and
        # an odd sum of degrees.
        blocks: dict[tuple[int, int], Tensor] = {}  # (2, orders, copies out, copies in)
        parts = list(h.split(self.sizes))
        for i, (mul, l1, swapped) in enumerate(self.table.terms_in):
            for o, (mul_out, l3, out_swapped) in enumerate(self.table.terms_out):
                degrees = self._degrees(i, o)
                given = [parts.pop(0) for _ in degrees]
                stacked = torch.stack(given) if given else h.new_zeros(0, mul * mul_out)
                each = stacked.view(len(degrees), mul, mul_out).mT
                rows = [lf - abs(l1 - l3) for lf in degrees]
                coefficients = path_coefficients(l1, l3).to(h)[rows, :, : self.table.mmax + 1]
                blocks[o, i] = torch.einsum("fpm,foi->pmoi", coefficients, each)
                if not self.table.complex_weights and swapped != out_swapped:
                    sign = -1 if out_swapped else 1
                    blocks[o, i] = torch.stack([sign * blocks[o, i][1], 0 * blocks[o, i][1]])
        return self._assemble(blocks, h)

    def from_matrices(
        self,
        weight: Tensor,  # (table.weight_numel,)
    ) -> Tensor:  # (weights,)
        """Return the path weights of matrices; orders beyond mmax are zero."""
        # Orders above 0 stand for two components. With these weights the change is orthogonal, and
        # the least weights are those without the other orders.
        units = torch.eye(sum(self.sizes), dtype=torch.float64)
        matrix = torch.stack([self.to_matrices(unit) for unit in units], dim=1)
        return torch.linalg.pinv(matrix) @ weight

    def _degrees(self, i: int, o: int) -> list[int]:
        """Return the filter degrees between two terms."""
        (_, l1, swapped), (_, l3, out_swapped) = self.table.terms_in[i], self.table.terms_out[o]
        degrees = range(abs(l1 - l3), l1 + l3 + 1)
        if self.table.complex_weights:
            return list(degrees)
        return [lf for lf in degrees if (l1 + lf + l3) % 2 == (swapped != out_swapped)]

    def _assemble(self, blocks: dict[tuple[int, int], Tensor], like: Tensor) -> Tensor:
        """Flatten the blocks of all pairs of terms."""
        table = self.table
        found, parts = [like[:0]], [0] * (table.mmax + 1)
        for m, _, _ in table.matrices:
            part, parts[m] = parts[m], parts[m] + 1
            sent = [i for i, term in enumerate(table.terms_in) if term[1] >= m]
            found += [
                torch.cat([blocks[o, i][part, m] for i in sent], dim=1).flatten()
                for o, term in enumerate(table.terms_out)
                if term[1] >= m and sent
            ]
        return torch.cat(found)


@cache
def path_coefficients(
    l1: int,  # input degree
    l3: int,  # output degree
) -> Tensor:  # (paths, real and imaginary, orders), float64
    """Return the cached contribution of each path between two degrees to the orders."""
    top = min(l1, l3)
    found = torch.zeros(2 * top + 1, 2, top + 1, dtype=torch.float64)
    for row, lf in enumerate(range(abs(l1 - l3), l1 + l3 + 1)):
        middle = math.sqrt(2 * lf + 1) * wigner_3j_table(l1, lf, l3)[:, lf]
        for m in range(top + 1):
            found[row, 0, m] = middle[l1 + m, l3 + m]
            if m:
                found[row, 1, m] = middle[l1 + m, l3 - m]
    return found


def toy(mmax: int | None = None, **options: object) -> SO2Conv:
    conv = SO2Conv(TOY, TOY, mmax=mmax, group="SO3", **options).double()
    set_path_weights(conv, torch.cos(2 * torch.arange(1, 20, dtype=F64)))
    return conv


def set_path_weights(conv: SO2Conv, h: Tensor) -> None:
    conv.set_matrices(SO2Paths(conv.table).to_matrices(h))


def toy_features() -> Tensor:
    return torch.sin(torch.arange(1, 10, dtype=F64))[None]


def by_paths(conv: SO2Conv, x: Tensor, edge_index: Tensor, edge_vec: Tensor) -> Tensor:
    """The Clebsch-Gordan product of the matrices, path by path; rows are ``mul_ir``."""
    source, target = edge_index
    irreps_in, irreps_out = conv.irreps_in, conv.irreps_out
    parts = [x.new_zeros(edge_vec.shape[0], mul, 2 * l + 1) for mul, (l, _) in irreps_out.terms]
    paths = SO2Paths(conv.table)
    weights = paths.from_matrices(conv.matrices())
    for path, h in zip(paths.paths, weights.split(paths.sizes), strict=True):
        mul, (l1, _) = irreps_in.terms[path.term_in]
        mul_out, (l3, _) = irreps_out.terms[path.term_out]
        sent = x[source][:, irreps_in.slices()[path.term_in]].unflatten(1, (mul, 2 * l1 + 1))
        y = spherical_harmonics([path.filter_degree], edge_vec, True, "component")
        c = wigner_3j(l1, path.filter_degree, l3)
        mixed = torch.einsum("ijk,eui,ej,uw->ewk", c, sent, y, h.view(mul, mul_out))
        parts[path.term_out] = parts[path.term_out] + mixed
    messages = torch.cat([part.flatten(1) for part in parts], dim=1)
    return messages.new_zeros(x.shape[0], messages.shape[1]).index_add(0, target, messages)


KNOWN = {
    None: [-0.4963473785, -0.9312815082, 0.0998203089, -0.3358060095, 1.0059746922,
           -0.0221798692, -1.0319429859, 0.0608644547, 0.5135001559],
    1: [-0.4963473785, -0.9312815082, 0.0998203089, -0.3358060095, 0.9660738157,
        0.1121720322, -1.0088679643, -0.0155807448, 0.5906450400],
    0: [-0.4963473785, -0.2001572648, -0.2668763531, -0.4447939218, 0.4599033913,
        0.2759420348, -0.1423510887, 0.6132045217, 0.4075255050],
}  # fmt: skip


@pytest.mark.parametrize("mmax", KNOWN)
def test_known_results_of_one_edge(mmax):
    out = toy(mmax)(toy_features(), ONE_EDGE, ONE_VECTOR)
    assert_close(out[0], torch.tensor(KNOWN[mmax], dtype=F64), rtol=0, atol=DIGITS)


def graph(nodes: int = 5, edges: int = 14) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    ends = torch.randint(nodes, (2, edges), generator=generator)
    return ends, randn(edges, 3, seed=4)


@pytest.mark.parametrize(
    ("irreps_in", "irreps_out", "options"),
    [
        *((MIXED, ODD, {"mmax": m, "group": g}) for m in (None, 1) for g in ("O3", "SO3")),
        # Terms of no copies, and several of one degree; the largest order is that of a term.
        ("0x3o + 2x1o + 1x0e + 3x1o", "1x1o + 0x2e + 2x1o + 2x0e", {}),
    ],
)
def test_conv_is_the_product_of_its_path_weights(irreps_in, irreps_out, options):
    conv = SO2Conv(irreps_in, irreps_out, **options).double()
    assert options or conv.mmax == 1
    edge_index, edge_vec = graph()
    x = randn(5, conv.irreps_in.dim)
    assert_close(conv(x, edge_index, edge_vec), by_paths(conv, x, edge_index, edge_vec), **CLOSE)


def test_conv_is_the_fully_connected_product_of_e3nn():
    irreps_in, irreps_out = "3x0e+3x1o+3x2e", "2x0e+2x1o+2x2e"
    sides = irreps_in, "0e+1o+2e+3o+4e", irreps_out
    product = in_double(e3nn.o3.FullyConnectedTensorProduct, *sides)
    conv = SO2Conv(irreps_in, irreps_out).double()
    found = {}
    for ins, weight in zip(product.instructions, product.weight_views(), strict=True):
        found[ins.i_in1, ins.i_in2, ins.i_out] = (ins.path_weight * weight[:, 0]).flatten()
    every = SO2Paths(conv.table).paths
    set_path_weights(conv, torch.cat([found[tuple(path)] for path in every]).detach())
    x, r = randn(7, 27), randn(7, 3, seed=1)
    harmonics = e3nn.o3.spherical_harmonics([0, 1, 2, 3, 4], r, True, "component")
    loops = torch.arange(7).expand(2, 7)
    assert_close(conv(x, loops, r), product(x, harmonics), **CLOSE)


@pytest.mark.parametrize("mmax", [None, 2, 1, 0])
@pytest.mark.parametrize("layout", ["mul_ir", "ir_mul"])
def test_equivariance_under_reflections(mmax, layout):
    conv = SO2Conv(MIXED, MIXED, mmax=mmax, layout=layout, bias=True).double()
    conv.bias.data.normal_(generator=torch.Generator().manual_seed(0))
    edge_index, edge_vec = graph()
    x = randn(5, conv.irreps_in.dim)
    assert_equivariant(
        lambda x, r: conv(x, edge_index, r),
        rep_in=conv.rep_in,
        rep_out=conv.rep_out,
        inputs=(x, edge_vec),
    )


def test_without_parity_only_rotations_are_symmetries():
    conv = SO2Conv(TOY, TOY, group="SO3", modulation="degree", bias=True, sources="both").double()
    conv.bias.data.normal_(generator=torch.Generator().manual_seed(0))
    edge_index, edge_vec = graph()
    x, weights = randn(5, 9), randn(14, conv.weight_numel, seed=5)

    def function(x: Tensor, r: Tensor) -> Tensor:
        return conv(x, edge_index, r, weights)

    inputs = (x, edge_vec)
    assert_equivariant(function, rep_in=conv.rep_in, rep_out=conv.rep_out, inputs=inputs)
    mirrored = function(Irreps(TOY).act(-torch.eye(3, dtype=F64), x), -edge_vec)
    want = Irreps(TOY).act(-torch.eye(3, dtype=F64), function(x, edge_vec))
    assert (mirrored - want).abs().max() > 0.1


def test_outputs_have_unit_variance():
    irreps = "64x0e + 64x1o + 64x2e + 64x3o"
    torch.manual_seed(0)
    x, r = torch.randn(200, 1024), torch.randn(200, 3)
    loops = torch.arange(200).expand(2, 200)
    for mmax, wanted in ((3, (1, 1, 1, 1)), (1, (1, 1, 0.6, 3 / 7))):
        with torch.no_grad():
            out = SO2Conv(irreps, irreps, mmax=mmax, group="SO3")(x, loops, r)
            natural = SO2Conv(irreps, irreps, mmax=mmax)(x, loops, r)
        for result in (out, natural):
            found = [part.square().mean() for part in result.split([64, 192, 320, 448], dim=1)]
            # 64 x 64 weights are drawn once: four deviations of sqrt(2) / 64 = 0.022
            assert_close(torch.stack(found), torch.tensor(wanted).float(), rtol=0.1, atol=0)


NEAR = [[0.0, 1.0, 0.0], [0.0, -1.0, 0.0], [1e-12, 1.0, 0.0], [0.0, -1.0, 1e-12], [0.6, 0.0, 0.8]]


@pytest.mark.parametrize("xyz", NEAR, ids=str)
@pytest.mark.parametrize("mmax", [None, 1])
def test_first_and_second_derivatives_are_those_of_the_product_of_paths(xyz, mmax):
    conv = toy(mmax)
    x = toy_features().requires_grad_()
    r = torch.tensor([xyz], dtype=F64).requires_grad_()
    found = []
    for function in (conv, lambda *a: by_paths(conv, *a)):
        loss = (function(x, ONE_EDGE, r) * torch.cos(torch.arange(9))).sum()
        first = torch.autograd.grad(loss, (x, r), create_graph=True)
        entries = torch.cat([g.flatten() for g in first])
        second = [
            torch.cat([h.flatten() for h in torch.autograd.grad(g, (x, r), retain_graph=True,
                                                                 materialize_grads=True)])
            for g in entries
        ]  # fmt: skip
        found.append((entries, torch.stack(second)))
    assert_close(found[0], found[1], **CLOSE)


def test_sources_and_targets_side_by_side():
    for modulation in ("order", "degree"):
        both = SO2Conv(TOY, MIXED, sources="both", modulation=modulation, bias=True).double()
        joined = SO2Conv("2x0e + 2x1o + 2x2e", MIXED, modulation=modulation, bias=True).double()
        assert both.weight_numel == joined.weight_numel
        joined.load_state_dict(both.state_dict())
        edge_index, edge_vec = graph()
        x, weights = randn(5, 9), randn(14, both.weight_numel, seed=5)
        sent, own = x[edge_index[0]], x[edge_index[1]]
        parts = [torch.cat([a, b], dim=1) for a, b in zip(
            sent.split([1, 3, 5], 1), own.split([1, 3, 5], 1), strict=True)]  # fmt: skip
        by_edge = torch.stack([torch.arange(14), edge_index[1]])
        want = joined(torch.cat(parts, dim=1), by_edge, edge_vec, weights, num_nodes=5)
        assert_close(both(x, edge_index, edge_vec, weights), want, **CLOSE)
        bipartite = both((x, x.clone()), edge_index, edge_vec, weights)
        assert_close(bipartite, want, **CLOSE)


@pytest.mark.parametrize("sources", ["source", "both"])
def test_a_radial_layer_inside_equals_one_outside(sources):
    inside = SO2Conv(TOY, MIXED, num_hidden=3, sources=sources).double()
    outside = SO2Conv(TOY, MIXED, modulation="order", sources=sources).double()
    outside.load_state_dict({"mixing": inside.mixing})
    edge_index, edge_vec = graph()
    x, hidden = randn(5, 9), randn(14, 3, seed=6)
    want = outside(x, edge_index, edge_vec, hidden @ inside.radial / 3**0.5)
    assert_close(inside(x, edge_index, edge_vec, hidden), want, **CLOSE)


def test_envelopes_multiply_messages():
    conv = toy(bias=True)
    conv.bias.data.fill_(0.5)
    edge_index, edge_vec = graph()
    x, envelope = randn(5, 9), randn(14, seed=7)
    order = EdgeIndex.from_edges(edge_index, 5, 5)
    alone = torch.stack([edge_index[0], torch.arange(14)])
    messages = conv(x, alone, edge_vec, num_nodes=14) * envelope[:, None]
    want = x.new_zeros(5, 9).index_add(0, edge_index[1], messages)
    assert_close(conv(x, order, edge_vec, envelope=envelope), want, **CLOSE)


def test_edges_may_be_missing_repeated_or_in_any_order():
    conv = toy()
    none = torch.zeros(2, 0, dtype=torch.int64)
    assert not conv(toy_features(), none, randn(0, 3)).any()
    twice = torch.tensor([[0, 0], [0, 0]])
    r = ONE_VECTOR
    once = conv(toy_features(), ONE_EDGE, r)
    assert_close(conv(toy_features(), twice, r.expand(2, 3)), 2 * once)
    more = conv(toy_features(), ONE_EDGE, r, num_nodes=3)
    assert_close(more[0], once[0])
    assert not more[1:].any()
    edge_index, edge_vec = graph()
    x = randn(5, 9)
    want = conv(x, edge_index, edge_vec)
    shuffled = torch.randperm(14, generator=torch.Generator().manual_seed(0))
    again = conv(x, edge_index[:, shuffled], edge_vec[shuffled])
    assert_close(again, want, **tolerance(F64, 100))


def test_an_edge_without_length_sends_nothing():
    conv = toy(bias=True)
    conv.bias.data.fill_(1.0)
    edge_vec = torch.tensor([[0.0, 0.0, 0.0], R0], dtype=F64, requires_grad=True)
    edge_index = torch.tensor([[0, 0], [0, 0]])
    out = conv(toy_features(), edge_index, edge_vec)
    assert_close(out, conv(toy_features(), ONE_EDGE, ONE_VECTOR))
    (slope,) = torch.autograd.grad(out.sum(), edge_vec)
    assert not slope[0].any()
    assert slope[1].any()


def test_weights_of_a_caller():
    own = SO2Conv(TOY, TOY)
    conv = SO2Conv(TOY, TOY, internal_weights=False)
    x, r = randn(1, 9, dtype=torch.float32), randn(1, 3, dtype=torch.float32)
    assert list(conv.parameters()) == []
    assert torch.equal(conv(x, ONE_EDGE, r, mixing=own.mixing), own(x, ONE_EDGE, r))
    for wrong in (lambda: conv(x, ONE_EDGE, r), lambda: own(x, ONE_EDGE, r, mixing=own.mixing)):
        refused("no weights of its own", wrong)
    refused("which could be set", conv.set_matrices, torch.zeros(conv.table.weight_numel))


def test_modulation_multiplies_components_before_they_are_mixed():
    conv = toy(modulation="order")
    plain = toy()
    x, r = toy_features(), torch.tensor([[0.0, 1, 0]], dtype=F64)  # whose frame changes nothing
    weights = randn(1, 6)
    zero, one, two = weights[0].split([3, 2, 1])
    factors = torch.stack(
        [zero[0], one[0], zero[1], one[0], two[0], one[1], zero[2], one[1], two[0]]
    )
    assert_close(conv(x, ONE_EDGE, r, weights), plain(x * factors, ONE_EDGE, r))


@pytest.mark.parametrize(("layer", "irreps"), [(SO2Conv, 2), (ChannelwiseConv, 3)])
def test_the_number_of_hidden_features_is_no_positional_argument(layer, irreps):
    more = [None] * (2 if layer is ChannelwiseConv else 0)  # normalizations
    refused("positional", layer, *[TOY] * irreps, *more, 3, error=TypeError)
    with pytest.warns(DeprecationWarning, match=rf"use {layer.__name__}\(num_hidden=\.\.\.\)"):
        old = getattr(tensor_products, f"Radial{layer.__name__}")
    assert len(old(*[TOY] * irreps, 3).radial) == 3


def test_wrong_options_and_tensors_raise():
    for option in ({"group": "O2"}, {"modulation": "m"}, {"lmax": 2}):
        refused(next(iter(option)), SO2Conv, TOY, TOY, **option)
    for wrong in (1.5, True):
        message = f"mmax must be an integer, got {wrong}"
        refused(message, SO2Conv, TOY, TOY, mmax=wrong, error=TypeError)
    refused("num_hidden must be at least 1, got 0", SO2Conv, TOY, TOY, num_hidden=0)
    conv, x, r = SO2Conv(TOY, TOY, modulation="order"), torch.zeros(1, 9), torch.ones(1, 3)
    refused(r"weights must be \(edges, 6\) for modulation 'order'", conv, x, ONE_EDGE, r)
    refused(r"weights must be \(edges, 6\), got \(1, 5\)", conv, x, ONE_EDGE, r, torch.ones(1, 5))
    weights = torch.ones(1, 6)
    call = partial(conv, x, ONE_EDGE)
    refused(r"edge_vec must be \(1, 3\), got \(2, 3\)", call, torch.ones(2, 3), weights)
    refused(r"envelope must be \(1,\), got \(1, 1\)", call, r, weights, envelope=r[:, :1])
    refused("vectors must have the dtype of x", call, r.double(), weights, error=TypeError)
    refused(r"x must be \(\.\.\., 9\), got \(1, 8\)", conv, torch.zeros(1, 8), ONE_EDGE, r, weights)
    both = SO2Conv(TOY, TOY, sources="both")
    refused("features of both", both, (x, None), ONE_EDGE, r)
    wrong = torch.zeros(3)
    refused(r"matrices must be \(14,\), got \(3,\)", SO2Conv(TOY, TOY).set_matrices, wrong)


@pytest.mark.parametrize("exponent", [-200, -160, 150, 160, 200, 300])
def test_lengths_of_edges_do_not_matter_however_short_or_long(exponent):
    conv, edge_vec = toy(), ONE_VECTOR.clone().requires_grad_()
    far = (10.0**exponent * edge_vec.detach()).requires_grad_()
    here, there = (conv(toy_features(), ONE_EDGE, r) for r in (edge_vec, far))
    assert_close(there, here, **CLOSE)
    (slope,) = torch.autograd.grad(here.sum(), edge_vec)
    (of_far,) = torch.autograd.grad(there.sum(), far)
    assert_close(10.0**exponent * of_far, slope, **CLOSE)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_edges_that_are_not_finite_are_not_taken_for_edges_without_length(bad, dtype):
    conv = toy().to(dtype)
    edge_index = torch.tensor([[0, 1, 2, 1], [1, 2, 2, 0]])
    x, edge_vec = randn(3, 9, dtype=dtype), randn(4, 3, dtype=dtype)
    edge_vec[3, 1] = bad
    out = conv(x, edge_index, edge_vec)
    assert out.isnan().any(1).tolist() == [True, False, False]


NUMBERS = {  # of weights up to each order
    1: [4, 6], 2: [9, 17, 19], 3: [16, 34, 42, 44], 4: [25, 57, 75, 83, 85],
    5: [36, 86, 118, 136, 144, 146], 6: [49, 121, 171, 203, 221, 229, 231],
}  # fmt: skip


def test_numbers_of_matrices():
    for lmax, numbers in NUMBERS.items():
        terms = tuple((1, l, False) for l in range(lmax + 1))
        found = [SO2Table(terms, terms, m).weight_numel for m in range(lmax + 1)]
        assert found == numbers
