import itertools
import math
from collections import Counter
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import one_hot
from torch.testing import assert_close

from equigeo.reps import Irreps, wigner_3j
from equigeo.tensor_products import SymmetricContraction
from equigeo.tensor_products.products.symmetric_basis import monomials, symmetric_basis
from equigeo.testing import assert_equivariant, tolerance
from tests.draws import in_double, random
from tests.tensor_products.path_helpers import both_layouts, degrees_and_parities
from tests.tensor_products.signal_helpers import close
from tests.tier import tier
from tests.wrong_inputs import refused

every_basis = pytest.mark.parametrize("basis", ["reduced", "original"])

COUNTS = [
    ("0e+1o", "0e", 7, 5),
    ("0e+1o", "0e+1o", 16, 9),
    ("0e+1o+2e", "0e", 15, 9),
    ("0e+1o+2e", "0e+1o", 41, 17),
    ("0e+1o+2e+3o", "0e", 28, 13),
    ("0e+1o+2e+3o", "0e+1o", 86, 29),
    ("0e+1e+2e", "0e+1e", 62, 18),  # one parity for all: no rule but that of degrees
]


def times(irreps: str, channels: int) -> str:
    return "+".join(f"{channels}x{ir}" for ir in irreps.split("+"))


def build(ins: str, outs: str, correlation: int = 3, elements: int = 2, **options):
    """Two channels, in double precision, with weights that depend on nothing else."""
    module = in_double(
        SymmetricContraction, times(ins, 2), times(outs, 2), correlation, elements, **options
    )
    module.weight.data = random(*module.weight.shape, seed=7)
    return module


def samples(module: SymmetricContraction, *batch: int) -> tuple[Tensor, Tensor]:
    """Features by channel, and elements."""
    dim = module.irreps_in.dim // module.channels
    generator = torch.Generator().manual_seed(1)
    element = torch.randint(module.num_elements, batch, generator=generator)
    return random(*batch, module.channels, dim), element


def flat(x: Tensor, irreps: Irreps) -> Tensor:
    """Features by channel, laid out as the irreps say."""
    parts = x.split([2 * l + 1 for _, (l, _) in irreps], dim=-1)
    return torch.cat([(p if irreps.layout == "mul_ir" else p.mT).flatten(-2) for p in parts], -1)


def coupled(irreps: list[tuple[int, int]], order: int, natural: bool = False):
    """All ordered couplings as full tensors (2 l + 1, dim, ..., dim), as MACE lists them."""
    dim = sum(2 * l + 1 for l, _ in irreps)
    rows = torch.eye(dim, dtype=torch.float64).split([2 * l + 1 for l, _ in irreps])
    level = sorted(zip(irreps, rows, strict=True), key=lambda path: path[0])
    for _ in range(order - 1):
        longer = []
        for (l1, p1), left in level:
            start = 0
            for l2, p2 in irreps:
                for l3 in range(abs(l1 - l2), l1 + l2 + 1):
                    if natural and p1 * p2 != (-1) ** l3:
                        continue
                    table = math.sqrt(2 * l3 + 1) * wigner_3j(l3, l1, l2)
                    whole = torch.zeros(2 * l3 + 1, *left.shape[1:], dim, dtype=torch.float64)
                    whole[..., start : start + 2 * l2 + 1] = torch.tensordot(
                        table.permute(0, 2, 1), left, dims=1
                    ).movedim(1, -1)
                    longer.append(((l3, p1 * p2), whole))
                start += 2 * l2 + 1
        level = sorted(longer, key=lambda path: path[0])
    return level


def horner(x: Tensor, weight: Tensor, ins: Irreps, outs: Irreps, correlation: int) -> Tensor:
    """The original contraction from dense tensors: x (channels, dim), weight (paths, channels)."""
    irreps, results, place = [ir for _, ir in ins], [], 0
    for _, ir in outs:
        total = None
        for order in range(correlation, 0, -1):
            paths = coupled(irreps, order, natural=order == 4)
            tensors = [tensor for found, tensor in paths if found == ir]
            here = x.new_zeros(2 * ir[0] + 1, *(x.shape[1:] * order), len(x))
            for tensor in tensors:
                here += tensor[..., None] * weight[place]
                place += 1
            total = here if total is None else total + here
            total = torch.einsum("...ic,ci->...c", total, x)
        results.append(total.T.flatten())
    assert place == len(weight)
    return torch.cat(results)


@pytest.mark.parametrize(("ins", "outs", "original", "reduced"), COUNTS)
def test_published_numbers_of_weights(ins, outs, original, reduced):
    for basis, count in (("original", original), ("reduced", reduced)):
        module = SymmetricContraction(times(ins, 3), times(outs, 3), 3, 5, basis=basis)
        assert module.weight.shape == (5, count, 3)
        assert sum(block.stop - block.start for block in module.blocks.values()) == count


def multiplicity(irreps: list[tuple[int, int]], order: int, l: int, p: int) -> int:
    """Copies of an irrep in a symmetric power, by counting its weights."""
    weights = [(m, parity) for degree, parity in irreps for m in range(-degree, degree + 1)]
    counts = Counter(
        (sum(m for m, _ in chosen), math.prod(parity for _, parity in chosen))
        for chosen in itertools.combinations_with_replacement(weights, order)
    )
    return counts[l, p] - counts[l + 1, p]


@given(
    st.lists(degrees_and_parities, min_size=1, max_size=3), st.integers(1, 4), degrees_and_parities
)
def test_basis_is_complete_and_orthogonal(irreps, order, ir):
    size = sum(2 * l + 1 for l, _ in irreps)
    basis = symmetric_basis(tuple(irreps), order, ir)
    assert len(basis) == multiplicity(irreps, order, *ir)
    orders = [
        math.factorial(order) / math.prod(map(math.factorial, Counter(s).values()))
        for s in monomials(size, order)
    ]
    gram = torch.einsum("ams,bms->ab", basis / torch.tensor(orders), basis)
    want = (2 * ir[0] + 1) * torch.eye(len(basis)).double()
    # of 15 components there are 3060 monomials of order 4, each for five of the output
    assert_close(gram, want, **tolerance(torch.float64, 5 * 3060))


def test_each_polynomial_of_the_basis_is_homogeneous_in_every_input():
    ends = [0, 1, 4, 9]
    for ir in ((0, 1), (1, -1), (2, 1)):
        for polynomial in symmetric_basis(((0, 1), (1, -1), (2, 1)), 3, ir):
            used = polynomial.abs().amax(0) > 1e-12
            inputs = {
                tuple(sum(i >= end for end in ends) for i in s)
                for s, in_use in zip(monomials(9, 3), used.tolist(), strict=True)
                if in_use
            }
            assert len(inputs) == 1


@pytest.mark.parametrize(
    ("ins", "outs", "correlation"),
    [
        ("0e+1o", "0e+1o", 3),
        ("0e+1o+2e", "0e+1o+2e", 3),
        ("1o+0e+1e", "1e+0o", 2),
        ("0e+1o", "0e+1o", 4),
    ],
)
def test_original_weights_are_those_of_ordered_couplings(ins, outs, correlation):
    module = build(ins, outs, correlation, basis="original")
    x, element = samples(module, 3)
    got = module(x, element)
    for sample, result, e in zip(x, got, element, strict=True):
        arguments = sample, module.weight[e], module.irreps_in, module.irreps_out, correlation
        assert close(result, horner(*arguments), 1e-13)


@pytest.mark.parametrize("correlation", [1, 2, 3, 4])
@pytest.mark.parametrize(("ins", "outs"), [("0e+1o+2e", "0e+1o"), ("1e+1o+0o", "0e+1e+0o")])
def test_both_bases_give_equal_outputs(ins, outs, correlation):
    original = build(ins, outs, correlation, basis="original")
    reduced = build(ins, outs, correlation)
    reduced.weight.data = original.reduce_weight(original.weight.detach())
    inputs = samples(original, 4)
    assert close(original(*inputs), reduced(*inputs), 1e-13)
    assert reduced.weight.shape[1] <= original.weight.shape[1]


def test_blocks_are_those_of_mace():
    blocks = build("0e+1o", "0e+1o", basis="original").blocks
    assert list(blocks) == [(0, 3), (0, 2), (0, 1), (1, 3), (1, 2), (1, 1)]
    assert [block.stop - block.start for block in blocks.values()] == [4, 2, 1, 6, 2, 1]
    assert list(build("0e+1o", "0e+1o").blocks) == [(i, n) for n in (1, 2, 3) for i in (0, 1)]


@pytest.mark.parametrize(("i", "order"), list(itertools.product((0, 1), (1, 2, 3))))
@every_basis
def test_a_block_weighs_one_output_and_one_order(i, order, basis):
    module = build("0e+1o+2e", "0e+1o", basis=basis)
    rest = torch.ones(module.weight.shape[1], dtype=torch.bool)
    rest[module.blocks[i, order]] = False
    module.weight.data[:, rest] = 0
    x, element = samples(module, 5)
    z, scaled = module(x, element), module(2 * x, element)
    assert torch.equal(scaled, 2**order * z)  # powers of two round nothing
    for k, place in enumerate(module.irreps_out.slices()):
        assert bool(z[:, place].any()) == (k == i)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("lmax", tier([1], [1, 2]))
def test_original_weights_are_those_of_cuequivariance(lmax):
    reason = "cuEquivariance is an optional extra"
    cue = pytest.importorskip("cuequivariance", reason=reason)
    cuet = pytest.importorskip("cuequivariance_torch", reason=reason)
    group = pytest.importorskip("cuequivariance.group_theory.experimental.e3nn", reason=reason)
    ins = str(Irreps.signal(lmax)).replace("1x", "")
    module = build(ins, "0e+1o", basis="original")
    theirs = in_double(
        cuet.SymmetricContraction,
        *(cue.Irreps(group.O3_e3nn, times(text, 2)) for text in (ins, "0e+1o")),
        contraction_degree=3,
        num_elements=2,
        layout=cue.mul_ir,
        dtype=torch.float64,
        original_mace=True,
        method="naive",
    )
    assert theirs.weight.shape == module.weight.shape
    theirs.weight.data.copy_(module.weight.data)
    x, element = samples(module, 5)
    want = theirs(flat(x, module.irreps_in), element.int())
    # it keeps couplings in the default dtype of whoever asked for them first
    assert close(module(x, element), want, 1e-5)


@both_layouts
def test_features_may_be_flat_or_by_channel(layout):
    module, other = build("0e+1o+2e", "0e+1o", layout=layout), build("0e+1o+2e", "0e+1o")
    x, element = samples(module, 2, 3)
    by_channel = module(x, element)
    assert_close(module(flat(x, module.irreps_in), element), by_channel, rtol=0, atol=0)
    assert_close(module.irreps_out.to_layout(by_channel, "mul_ir"), other(x, element))


@every_basis
def test_elements_may_be_mixed(basis):
    module = build("0e+1o", "0e+1o", elements=3, basis=basis)
    x, element = samples(module, 4)
    assert_close(module(x, one_hot(element, 3).double()), module(x, element))
    assert_close(module(x, element.int()), module(x, element))
    mixture = torch.tensor([0.5, 0.25, 0.0], dtype=torch.float64)
    want = 0.5 * module(x, 0 * element) + 0.25 * module(x, 0 * element + 1)
    assert_close(module(x, mixture.expand(4, 3)), want)


def test_an_irrep_may_come_twice():
    module = build("1o+1o", "0e+1e+1e")
    x, element = samples(module, 3)
    # x.x, x.y, y.y and x cross y, which a power of one vector does not have
    assert [b.stop - b.start for (_, n), b in module.blocks.items() if n == 2] == [3, 1, 1]
    assert_equivariant(module, inputs=[flat(x, module.irreps_in), element])


@every_basis
def test_what_no_polynomial_reaches_is_zero(basis):
    module = build("0e+1o", "0o+0e", 2, basis=basis)
    z = module(*samples(module, 4))
    assert not z[:, :2].any()
    assert z[:, 2:].all()
    module = build("1o", "0o", 2, basis=basis)
    assert module.weight.shape == (2, 0, 2)
    assert not module(*samples(module, 4)).any()


@every_basis
def test_new_weights_are_normal_over_the_size_of_their_block(basis):
    generator_state = torch.get_rng_state()
    module = SymmetricContraction("64x0e+64x1o", "64x0e+64x1o", 3, 50, basis=basis)
    torch.set_rng_state(generator_state)
    for block in module.blocks.values():
        spread = module.weight.detach()[:, block].std().item() * (block.stop - block.start)
        # four standard errors of the deviation of 50 x 64 numbers, the fewest of a block
        assert spread == pytest.approx(1, abs=4 / (2 * 50 * 64) ** 0.5)
    assert list(module.state_dict()) == ["weight"]


def test_tables_are_small_and_counted():
    module = SymmetricContraction(times("0e+1o+2e+3o", 2), times("0e+1o", 2), 3, 1)
    table = module.polynomials
    full = (23 + 3 * 51) * 16**3  # all paths of MACE at third order, to 0e and 1o
    products, polynomials, groups, nodes = (
        table.positions[name] for name in ("products", "polynomials", "groups", "nodes")
    )
    assert len(nodes) < full / 1000
    assert len(table.levels) == 1  # products of two variables alone
    parts = (products, polynomials, groups, nodes)
    assert module.multiply_adds() == 2 * sum(map(len, parts)) < 2 * 1000


@every_basis
def test_any_leading_axes(basis):
    module = build("0e+1o+2e", "0e+1o", basis=basis)
    x, element = samples(module, 3, 2)
    z = module(x, element)
    assert z.shape == (3, 2, 8)
    bound = tolerance(torch.float64, 41)  # weights of a channel
    assert_close(z[1, 1], module(x[1, 1], element[1, 1]), **bound)
    assert module(x[:0], element[:0]).shape == (0, 2, 8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("vector", "0e", 2, 1), "irreps_in: irreps 'vector' cannot be read"),
        (("2x0e+3x1o", "2x0e", 2, 1), "of one positive multiplicity, got '2x0e"),
        (("2x0e", "3x0e", 2, 1), "of one positive multiplicity, got '2x0e' and '3"),
        (("0x0e", "0x0e", 2, 1), "of one positive multiplicity"),
        (("0e", "", 2, 1), "must have terms"),
        (("0e", "0e", 0, 1), "correlation and num_elements must be at least 1"),
        (("0e", "0e", 2, 0), "must be at least 1, got 2 and 0"),
    ],
)
def test_arguments_that_do_not_fit_raise(arguments, message):
    refused(message, SymmetricContraction, *arguments)


def test_options_and_inputs_that_do_not_fit_raise():
    make = partial(SymmetricContraction, "0e", "0e")
    refused("integer", make, 2.0, 1, error=TypeError)
    refused('basis must be "reduced" or "orig', make, 2, 1, basis="mace")
    refused('layout must be "mul_ir" or "ir_mul"', make, 2, 1, layout="ir")
    module = build("0e+1o", "0e+1o")
    x, element = samples(module, 3)
    refused(r"x must be \(3, 2, 4\) or \(3, 8\), got \(3, 4, 2\)", module, x.mT, element)
    refused(r"a floating element must be \(\.\.\., 2\), got \(3, 4\)", module, x, random(3, 4))
    refused("x must have the dtype of weight", module, x.float(), element, error=TypeError)
    mixture = random(3, 2).float()
    refused("element must have the dtype of weight", module, x, mixture, error=TypeError)
    refused("x must be floating", module, x.long(), element, error=TypeError)
    refused("element must be int64, int32 or floating", module, x, element.bool(), error=TypeError)
    refused('by a module of basis "original" only', module.reduce_weight, module.weight)
