"""Irreps read, print and order features as e3nn does."""

import operator

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


def equal(ours, theirs):
    """Compare irreps with those of e3nn in both directions, term by term and by their text."""
    assert isinstance(ours, Irreps)
    assert ours == theirs
    assert theirs == ours
    assert str(ours) == str(theirs)
    assert not ours != theirs
    assert hash(ours) == hash(theirs)
    return True


@given(TERMS, TERMS, st.integers(0, 3), st.slices(4))
def test_container_agrees_with_e3nn(terms, others, copies, places):
    ours, theirs = Irreps(terms), o3.Irreps(terms)
    assert equal(ours, theirs)
    assert (len(ours), bool(ours)) == (len(theirs), bool(theirs))
    assert (ours.dim, ours.num_irreps, ours.ls) == (theirs.dim, theirs.num_irreps, theirs.ls)
    assert list(ours.slices()) == theirs.slices()
    for n, (mul, ir) in enumerate(ours):
        want = theirs[n - len(terms)]
        assert ours[n] == ours[n - len(terms)] == (mul, ir) == want
        assert (ours[n].mul, ours[n].ir, ours[n].dim) == (mul, ir, want.dim)
        assert (ir.l, ir.p, ir.dim) == (want.ir.l, want.ir.p, want.ir.dim)
        assert (repr(ours[n]), repr(ir), f"{mul}x{ir}") == (repr(want), repr(want.ir), str(want))
    assert equal(ours[places], theirs[places])
    for l, p in [(l, p) for l in range(6) for p in (1, -1)]:
        theirs_of_one = o3.Irrep(l, p)
        for ir in ((l, p), theirs_of_one, str(theirs_of_one), f" {theirs_of_one} "):
            assert (ir in ours) is (theirs_of_one in theirs)
            assert ours.count(ir) == theirs.count(theirs_of_one)
        assert all(ir in theirs for _, ir in ours)
    assert equal(ours + Irreps(others), theirs + o3.Irreps(others))
    assert equal(ours + str(Irreps(others)), theirs + o3.Irreps(others))
    assert equal(ours + o3.Irreps(others), theirs + Irreps(others))
    assert equal(ours * copies, theirs * copies)
    assert equal(copies * ours, copies * theirs)
    assert equal(sum([ours, Irreps(others)], Irreps("")), theirs + o3.Irreps(others))
    assert equal(ours.simplify(), theirs.simplify())
    (irreps, p, inv), want = ours.sort(), theirs.sort()
    assert equal(irreps, want.irreps)
    assert equal(ours.sort().irreps, want.irreps)
    assert (p, inv) == (ours.sort().p, ours.sort().inv) == (want.p, want.inv)
    if ours.num_irreps:
        assert ours.lmax == theirs.lmax
    for _, ir in ours:
        for _, other in Irreps(others):
            assert ir * other == list(o3.Irrep(*ir) * o3.Irrep(*other))
            assert equal(ir + other, o3.Irrep(*ir) + o3.Irrep(*other))
        assert equal(copies * ir, copies * o3.Irrep(*ir))


@given(TERMS, st.lists(st.tuples(st.integers(0, 4), st.sampled_from([1, -1])), max_size=4))
def test_selections_agree_with_e3nn(terms, kinds):
    ours, theirs = Irreps(terms), o3.Irreps(terms)
    texts = [str(o3.Irrep(ir)) for ir in kinds]
    assert equal(ours.regroup(), theirs.regroup())
    assert equal(ours.filter(), theirs.filter())
    for lmax in range(5):
        assert equal(ours.filter(lmax=lmax), theirs.filter(lmax=lmax))
    for name in ("keep", "drop"):
        want = theirs.filter(**{name: texts})
        # e3nn 0.6 documents text and Irreps, but selects nothing by them
        irreps = Irreps([(2, ir) for ir in kinds])
        for given_ in (texts, kinds, "+".join(texts), irreps, o3.Irreps(irreps)):
            assert equal(ours.filter(**{name: given_}), want)
        for kind in ours:
            want = theirs.filter(**{name: o3.Irrep(*kind.ir)})
            for given_ in (kind, kind.ir, tuple(kind.ir), str(kind.ir), o3.Irrep(*kind.ir)):
                assert equal(ours.filter(**{name: given_}), want)
        test = {name: lambda term: term.mul > 1 and term.ir.p == 1}
        assert equal(ours.filter(**test), theirs.filter(**test))


@given(TERMS, st.sampled_from([(-1,), (2, -1), (-1, 3), (2, -1, 3)]))
def test_random_features_agree_with_e3nn(terms, size):
    ours, theirs = Irreps(terms), o3.Irreps(terms)
    for options in ({}, {"normalization": "norm"}, {"dtype": torch.float64}):
        torch.manual_seed(0)
        want = theirs.randn(*size, requires_grad=True, **options)
        torch.manual_seed(0)
        got = ours.randn(*size, requires_grad=True, **options)
        torch.testing.assert_close(got, want, rtol=0, atol=0)
        assert got.requires_grad
        assert got.is_leaf
    columns = ours.with_layout("ir_mul").randn(*size, normalization="norm", generator=generator())
    x = ours.randn(*size, normalization="norm", generator=generator())
    moved = ours.to_layout(x.movedim(size.index(-1), -1), "ir_mul")
    assert torch.equal(columns.movedim(size.index(-1), -1), moved)


def test_text_is_equal_in_any_spelling_and_only_in_its_layout():
    irreps = Irreps("0e + 2x1o")
    assert irreps == "1x0e+2x1o"
    assert "0e+2x1y" == irreps
    assert irreps in ("0e + 2x1o",)
    assert irreps == ((1, (0, 1)), (2, (1, -1)))
    for other in ("2x1o+0e", "0e+1o+1o", "no irreps", "", 3, None, [(1, (0, 1)), (2, (1, -1))]):
        assert irreps != other
        assert other != irreps
    columns = irreps.with_layout("ir_mul")
    assert columns != irreps
    assert columns != "0e+2x1o"
    assert columns != o3.Irreps("0e+2x1o")


def test_containers_keep_their_layout():
    irreps = Irreps("2x1o+0e+1o", "ir_mul")
    assert irreps[1:] == irreps.filter(drop=lambda term: term.mul == 2) == Irreps("0e+1o", "ir_mul")
    assert irreps.regroup() == Irreps("0e+3x1o", "ir_mul") == Irreps("0e", "ir_mul") + "3x1o"
    assert 0 * irreps == Irreps("", "ir_mul")
    assert 1 * irreps == irreps


def test_wrong_uses_of_a_container_are_refused():
    irreps = Irreps("2x1o+0e")
    for bad in ("2x1o", "0e+1o", "", (2, (1, -1)), (1, 0), 3, irreps):
        for call in (irreps.count, irreps.__contains__, irreps[0].ir.__mul__):
            refused('an irrep must be text such as "1o"', call, bad)
    for bad in (3, ["x"], [(1,)]):
        refused(r"drop must hold irreps such as .*, got", irreps.filter, drop=bad)
    refused("one of keep, drop and lmax", irreps.filter, "0e", lmax=1)
    for empty in ("", "0x1o"):
        refused("lmax needs a term", getattr, Irreps(empty), "lmax")
    for size in ((), (2,), (-1, -1)):
        refused("size must contain -1 once", irreps.randn, *size)
    refused("normalization must be", irreps.randn, -1, normalization="integral")
    refused("copies of .* must not be negative, got -1", operator.mul, -1, irreps)
    refused("be interpreted as an integer", operator.mul, irreps, irreps, error=TypeError)
    refused("irreps must be text", operator.add, irreps, 3, error=TypeError)
