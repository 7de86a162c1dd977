"""Changes of layouts and orders, without the libraries that have them."""

import subprocess
import sys
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.interop import reorder, sort_irreps
from equigeo.interop.terms import sort_features
from equigeo.nn import Linear
from equigeo.reps import Irreps
from equigeo.tensor_products import FullTensorProduct, FullyConnectedTensorProduct, TensorSquare
from equigeo.testing import tolerance
from tests.draws import random
from tests.wrong_inputs import refused

irreps = st.lists(
    st.tuples(st.integers(0, 3), st.tuples(st.integers(0, 3), st.sampled_from([1, -1]))), max_size=6
).map(Irreps)


def close(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, **tolerance(a.dtype, 256))


def test_the_two_orders():
    both = "2e+2o+1e+1o+0e+0o"
    assert str(sort_irreps(both, "e3nn")[0]) == "1x0o+1x0e+1x1o+1x1e+1x2o+1x2e"
    assert str(sort_irreps(both, "natural")[0]) == "1x0e+1x0o+1x1o+1x1e+1x2e+1x2o"


@given(irreps, st.sampled_from(["e3nn", "natural"]))
def test_sorting_moves_features_with_their_terms_and_keeps_ties(given_irreps, order):
    sorted_irreps, positions = sort_irreps(given_irreps, order)
    assert sorted(positions) == list(range(len(given_irreps.terms)))
    assert [given_irreps.terms[k] for k in positions] == list(sorted_irreps.terms)
    ties = [(given_irreps.terms[k][1], k) for k in positions]
    assert all(a[1] < b[1] for a, b in pairwise(ties) if a[0] == b[0])
    x = torch.arange(given_irreps.dim)
    y = sort_features(x, given_irreps, order)
    for new, old in enumerate(positions):
        assert y[sorted_irreps.slices()[new]].equal(x[given_irreps.slices()[old]])


MAPS = [
    FullyConnectedTensorProduct("2x1e+3x1o+1x0e", "2x0o+1x1o+2x0e", "2x1e+2x0o+1x1o+2x0e"),
    TensorSquare("2x1e+3x1o+1x0e", "2x1e+2x0o+1x1o+2x0e"),
    Linear("2x1e+3x0e+1x0o", "2x0e+3x1e+1x0e+2x0o", biases=True),
    FullTensorProduct("2x0e+2x1o", "1o+0o"),
]


@pytest.mark.parametrize("ours", MAPS)
def test_another_layout_is_the_same_map(ours):
    ours = ours.double()
    reps = ours.rep_in if isinstance(ours.rep_in, tuple) else (ours.rep_in,)
    given = [random(5, rep.dim, seed=k) for k, rep in enumerate(reps)]
    changed = reorder(ours, layout="ir_mul")
    out = changed(*(rep.to_layout(x, "ir_mul") for rep, x in zip(reps, given, strict=True)))
    close(changed.rep_out.to_layout(out, "mul_ir"), ours(*given))
    assert changed.weight.equal(ours.weight)
    again = reorder(changed, layout="mul_ir")
    close(again(*given), ours(*given))


def test_bad_arguments_are_named():
    refused('order must be "e3nn" or "natural"', sort_irreps, "0e", "parity")
    refused(r"features of .* are \(\.\.\., 1\), got \(2,\)", sort_features, torch.zeros(2), "0e")
    foreign = torch.nn.Linear(1, 1)
    refused(r"cannot convert torch\.nn", reorder, foreign, error=TypeError, layout="ir_mul")


def test_no_optional_library_is_needed_or_loaded():
    libraries = ["cuequivariance", "cuequivariance_torch", "torch_geometric", "e3nn"]
    program = (
        f"import sys\nsys.modules.update(dict.fromkeys({libraries}))\n"
        "import equigeo.interop, equigeo.interop.cuequivariance, equigeo.interop.pyg\n"
        "print(equigeo.interop.sort_irreps('0e+0o')[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "1x0o+1x0e"
