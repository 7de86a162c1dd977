import itertools
from functools import partial

import pytest
import torch
from e3nn import o3

from equigeo.reps import wigner_3j
from equigeo.reps.wigner import so3_generators_table
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
    g1, g2, g3 = (so3_generators_table(l) for l in degrees)
    moved = (
        torch.einsum("ijk,aip->apjk", c, g1)
        + torch.einsum("ijk,ajq->aiqk", c, g2)
        + torch.einsum("ijk,akr->aijr", c, g3)
    )
    assert moved.abs().max() < 1e-13 * max(degrees)
    close(c.square().sum(), torch.ones((), dtype=c.dtype), c.numel(), degrees)


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
