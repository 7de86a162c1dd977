"""Irreps read, print and order features as e3nn does."""

import pytest
import torch
from e3nn import o3
from hypothesis import given
from hypothesis import strategies as st

from equigeo.groups import SO, O
from equigeo.reps import Irreps, Trivial, wigner_d
from equigeo.reps.representation import DirectSum, Restricted
from equigeo.testing import tolerance
from tests.draws import generator, random
from tests.wrong_inputs import refused

TERMS = st.lists(
    st.tuples(st.integers(0, 4), st.tuples(st.integers(0, 4), st.sampled_from([1, -1]))), max_size=4
)
LAYOUTS = st.sampled_from(["mul_ir", "ir_mul"])


@given(TERMS)
def test_text_and_e3nn_round_trip(terms):
    irreps = Irreps(terms)
    theirs = o3.Irreps([(mul, o3.Irrep(l, p)) for mul, (l, p) in terms])
    assert Irreps(str(irreps)) == irreps == Irreps(theirs) == Irreps(str(theirs))
    assert o3.Irreps(str(irreps)) == o3.Irreps(irreps) == theirs
    assert irreps.dim == theirs.dim
    assert eval(repr(irreps)) == irreps
    assert hash(Irreps(theirs)) == hash(irreps)


@given(st.tuples(st.integers(0, 99), st.integers(0, 12)), st.sampled_from(["", " ", "  "]))
def test_spaces_and_short_forms_are_read_as_by_e3nn(numbers, space):
    mul, l = numbers
    text = f"{space}{mul}x{l}y{space}+{space}{l}o{space}"
    assert Irreps(text) == Irreps(o3.Irreps(text))


@given(TERMS, LAYOUTS)
def test_acting_is_multiplying_by_the_matrix(terms, layout):
    irreps = Irreps(terms, layout)
    draws = generator()
    g = O(3).testing_elements(draws)
    x = torch.randn(5, 1, irreps.dim, dtype=torch.float64, generator=draws)
    want = (irreps.matrix(g) @ x[..., None])[..., 0]
    torch.testing.assert_close(irreps.act(g, x), want, **tolerance(torch.float64, 9))
    assert irreps.act(g, x).shape == (5, len(g), irreps.dim)


@given(TERMS)
def test_layouts_differ_by_a_permutation_of_every_term(terms):
    mul_ir, ir_mul = Irreps(terms), Irreps(terms, "ir_mul")
    g = O(3).testing_elements(generator())
    blocks = torch.arange(mul_ir.dim).split([mul * (2 * l + 1) for mul, (l, _) in terms])
    pairs = zip(blocks, terms, strict=True)
    shuffled = [b.reshape(mul, 2 * l + 1).T.flatten() for b, (mul, (l, _)) in pairs]
    order = torch.cat([torch.zeros(0, dtype=torch.int64), *shuffled])
    assert (mul_ir == ir_mul) is False
    torch.testing.assert_close(ir_mul.matrix(g), mul_ir.matrix(g)[:, order][:, :, order])


@pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`")
@pytest.mark.full
def test_acting_compiles_in_one_graph():
    irreps = Irreps("4x0e+2x1o+2e")
    draws = generator()
    g, x = O(3).haar(5, generator=draws), torch.randn(5, irreps.dim, generator=draws)
    compiled = torch.compile(irreps.act, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(g, x), irreps.act(g, x))


def test_parities_act_and_are_forgotten_by_restriction():
    mirror = -torch.eye(3)
    for l in range(4):
        for p in (1, -1):
            matrix = Irreps([(1, (l, p))]).matrix(mirror)
            torch.testing.assert_close(matrix, p * torch.eye(2 * l + 1))
    g = SO(3).haar(4, generator=generator())
    restricted = Irreps("0o+1e+2e").restrict(SO(3))
    assert restricted == Restricted(Irreps("0o+1e+2e"), SO(3))
    want = torch.block_diag(torch.eye(1).double(), wigner_d(1, g[0]), wigner_d(2, g[0]))
    torch.testing.assert_close(restricted.matrix(g[0]), want)
    assert restricted.group == SO(3)
    assert Irreps("1o").restrict(O(3)) == Irreps("1o")
    many = Irreps("1000000x0e + 200000x1o")  # without a dense matrix
    moved = many.act(g[0], torch.ones(many.dim))
    torch.testing.assert_close(moved[-3:], g[0].float() @ torch.ones(3))


def test_sums_signals_and_layouts_of_irreps():
    assert Irreps("2x0e") + Irreps("1o") == Irreps("2x0e+1x1o")
    assert isinstance(Irreps("0e") + Irreps("1o", "ir_mul"), DirectSum)
    mixed = Trivial(O(3), 1) + Irreps("0e") + Irreps("1o")
    assert mixed == Trivial(O(3), 1) + (Irreps("0e") + Irreps("1o"))
    assert Irreps.signal(3) == Irreps("0e+1o+2e+3o")
    assert Irreps.signal(3, parity=-1) == Irreps("0o+1e+2o+3e")
    irreps = Irreps("3x0e + 2x1o + 0x2e + 4x2o")
    x = random(5, irreps.dim)
    there = irreps.to_layout(x, "ir_mul")
    assert not torch.equal(there, x)
    assert torch.equal(irreps.with_layout("ir_mul").to_layout(there, "mul_ir"), x)


@pytest.mark.parametrize("text", ["1v", "2x", "1e+", "-1x0e", "2*0e", "0e 1o", "1.5x0e", "scalar"])
def test_unreadable_text_is_named(text):
    with pytest.raises(ValueError, match="cannot be read") as caught:
        Irreps(text)
    for part in (text, "" if text == "1e+" else text):
        assert repr(part) in str(caught.value)


def test_bad_values_are_refused():
    refused("mul >= 0, l >= 0 and p of 1 or -1", Irreps, [(-1, (0, 1))])
    refused("mul >= 0, l >= 0 and p of 1 or -1", Irreps, [(1, (0, 2))])
    for bad in (3, [1], [(1.5, (0, 1))], None, [(1, "0e")]):
        refused("irreps must be text, Irreps or pairs", Irreps, bad, error=TypeError)
    refused("layout must be", Irreps, "0e", layout="transposed")
    refused(r"are \(\.\.\., 3\), got \(2, 4\)", Irreps("1o").act, torch.eye(3), torch.zeros(2, 4))
    refused(r"elements of O\(3\)", Irreps("1o").act, torch.eye(4), torch.zeros(3))
    refused("layout must be", Irreps("1o").to_layout, torch.zeros(3), "mul")
    for arguments in [(-1,), (2, 0)]:
        refused("lmax must be >= 0 and parity 1 or -1", Irreps.signal, *arguments)


@pytest.mark.parametrize("text", ["2x1o+0e+3x1o+0o+1e", "0x2e+1o+1o", "4x0e", ""])
def test_sorting_and_merging_agree_with_e3nn(text):
    ours, theirs = Irreps(text), o3.Irreps(text)
    sorted_irreps, order = ours.sort()
    assert sorted_irreps == Irreps(theirs.sort().irreps)
    assert order == tuple(theirs.sort().inv)
    assert ours.simplify() == Irreps(theirs.simplify())
    assert ours.slices() == tuple(theirs.slices())
    assert sorted_irreps.simplify() == Irreps(theirs.regroup())
