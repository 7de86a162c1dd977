import itertools
from functools import partial

import pytest
import torch
from e3nn import o3

from equigeo.groups import SO
from equigeo.reps import so3_generators, wigner_3j, wigner_d
from equigeo.testing import tolerance

DEGREES = [
    (l1, l2, l3)
    for l1, l2 in itertools.product(range(5), repeat=2)
    for l3 in range(abs(l1 - l2), l1 + l2 + 1)
]


def close(found, want, terms, degrees):
    named = partial("{}: {}".format, degrees)
    torch.testing.assert_close(found, want, msg=named, **tolerance(torch.float64, terms))


def test_symbols_equal_the_table_of_e3nn():
    for degrees in [*DEGREES, (11, 11, 11), (10, 9, 5), (11, 3, 8)]:
        want = o3.wigner_3j(*degrees, dtype=torch.float64)
        close(wigner_3j(*degrees), want, 9 if max(degrees) < 9 else 23, degrees)


@pytest.mark.parametrize("degrees", [(1, 1, 1), (2, 3, 4), (12, 7, 9), (20, 20, 33)], ids=str)
def test_is_invariant_under_generators(degrees):
    c = wigner_3j(*degrees)
    g1, g2, g3 = (so3_generators(l) for l in degrees)
    moved = (
        torch.einsum("ijk,aip->apjk", c, g1)
        + torch.einsum("ijk,ajq->aiqk", c, g2)
        + torch.einsum("ijk,akr->aijr", c, g3)
    )
    assert moved.abs().max() < 1e-13 * max(degrees)


def test_is_invariant_under_finite_rotations():
    rotation = SO(3).haar(1, generator=torch.Generator().manual_seed(0))[0]
    c, (d2, d3, d4) = wigner_3j(2, 3, 4), (wigner_d(l, rotation) for l in (2, 3, 4))
    torch.testing.assert_close(torch.einsum("ijk,il,jm,kn->lmn", c, d2, d3, d4), c)


def test_every_pair_of_indices_is_orthonormal_up_to_dimension():
    for degrees, (axis, l) in ((d, pair) for d in DEGREES for pair in enumerate(d)):
        c = wigner_3j(*degrees)
        gram = torch.tensordot(c, c, dims=([a for a in range(3) if a != axis],) * 2)
        close(gram, torch.eye(2 * l + 1, dtype=c.dtype) / (2 * l + 1), 81, degrees)


def test_all_third_degrees_together_are_complete():
    for l1, l2 in itertools.product(range(5), repeat=2):
        total = sum(
            (2 * l3 + 1) * torch.einsum("ijk,pqk->ijpq", c, c)
            for l3 in range(abs(l1 - l2), l1 + l2 + 1)
            for c in [wigner_3j(l1, l2, l3)]
        )
        eye1, eye2 = (torch.eye(2 * l + 1, dtype=torch.float64) for l in (l1, l2))
        close(total, torch.einsum("ip,jq->ijpq", eye1, eye2), 81, (l1, l2))


def test_exchange_gives_a_sign_and_a_cycle_none():
    for l1, l2, l3 in DEGREES:
        c = wigner_3j(l1, l2, l3)
        exchanged, cycled = wigner_3j(l2, l1, l3).permute(1, 0, 2), wigner_3j(l3, l1, l2)
        close(exchanged, (-1) ** (l1 + l2 + l3) * c, 1, (l1, l2, l3))
        close(cycled.permute(1, 2, 0), c, 1, (l1, l2, l3))


def test_published_values():
    # a unit of the fifteenth decimal, the last that is given
    assert float(wigner_3j(1, 1, 1)[0, 1, 2]) == pytest.approx(0.408248290463863, abs=1e-15)
    torch.testing.assert_close(
        wigner_3j(0, 2, 2)[0], 0.447213595499958 * torch.eye(5, dtype=torch.float64)
    )
    two, three = wigner_3j(1, 1, 2), wigner_3j(2, 2, 2)
    low, high, side = -0.182574186, 0.365148372, 0.316227766
    assert [round(float(v), 9) for v in two[:, :, 2].diagonal()] == [low, high, low]
    assert [round(float(two[i, i, 4]), 9) for i in (2, 0)] == [side, -side]
    assert [round(float(two[i]), 9) for i in ((0, 2, 0), (0, 1, 1), (1, 2, 3))] == [side] * 3
    entries = {
        (-2, -2, 0): -0.239045722,
        (0, 2, 2): -0.239045722,
        (0, 0, 0): 0.239045722,
        (-1, -1, 0): 0.119522861,
        (0, 1, 1): 0.119522861,
        (-2, -1, 1): 0.207019668,
        (1, 1, 2): 0.207019668,
        (-1, -1, 2): -0.207019668,
    }
    for index, value in entries.items():
        for i, j, k in itertools.permutations(index):
            # half a unit of the ninth decimal, the last that is given
            assert float(three[i + 2, j + 2, k + 2]) == pytest.approx(value, abs=5.1e-10)


def test_sparsity_follows_the_selection_rule_of_components():
    counts = [int(wigner_3j(l, l, l).count_nonzero()) for l in range(1, 9)]
    assert counts == [6, 25, 42, 97, 126, 217, 258, 361]
    singles = {(1, 1, 2): 11, (1, 2, 2): 16, (1, 2, 3): 21, (2, 2, 3): 28, (2, 2, 4): 37}
    assert {d: int(wigner_3j(*d).count_nonzero()) for d in singles} == singles
    for l1, l2, l3 in DEGREES:
        for i, j, k in wigner_3j(l1, l2, l3).nonzero().tolist():
            m1, m2, m3 = i - l1, j - l2, k - l3
            assert abs(m3) in {abs(m1) + abs(m2), abs(abs(m1) - abs(m2))}
            assert ((m1 < 0) + (m2 < 0) + (m3 < 0) - l1 - l2 - l3) % 2 == 0


def test_broken_triangles_give_zero_and_negative_degrees_an_error():
    assert wigner_3j(1, 1, 3).shape == (3, 3, 7)
    assert not wigner_3j(1, 1, 3).any()
    with pytest.raises(ValueError, match=r"degrees must not be negative, got \(1, -1, 1\)"):
        wigner_3j(1, -1, 1)


def test_a_caller_may_write_to_its_copy():
    wigner_3j(1, 1, 1).zero_()
    assert wigner_3j(1, 1, 1).any()
