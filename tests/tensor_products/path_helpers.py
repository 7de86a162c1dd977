"""What tests of products by paths share: e3nn in double precision and random instructions."""

from typing import Any

import pytest
import torch
from e3nn import o3
from hypothesis import strategies as st
from torch import Tensor

from equigeo.tensor_products import TensorProduct
from equigeo.testing import tolerance
from tests.draws import random

LAYOUTS = ("mul_ir", "ir_mul")
both_layouts = pytest.mark.parametrize("layout", LAYOUTS)
MATCHED = ("uuw", "uuu", "uvu<v", "u<vw")
CONNECTIONS = ("uvw", "uvu", "uvv", "uvuv", *MATCHED)

degrees_and_parities = st.tuples(st.integers(0, 2), st.sampled_from([1, -1]))
terms = st.tuples(st.integers(0, 3), degrees_and_parities)
irreps = st.lists(terms, min_size=1, max_size=3)
irrep_normalizations = st.sampled_from([None, "component", "norm", "none"])
path_normalizations = st.sampled_from([None, "element", "path", "none"])


def inputs_of(product: Any, *batch: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Random x, y and, where the product is given its weights, weights."""
    sizes = [product.irreps_in1.dim, product.irreps_in2.dim]
    if product.weight_numel and not product.internal_weights:
        sizes.append(product.weight_numel)
    return [random(*batch, size, seed=seed, dtype=dtype) for seed, size in enumerate(sizes)]


def assert_same(got: Tensor, want: Tensor) -> None:
    # nine pairs of channels of a path and the 25 numbers of their couplings
    torch.testing.assert_close(got, want, **tolerance(torch.float64, 225))


def assert_equals_e3nn(product: TensorProduct, reference: o3.TensorProduct) -> None:
    """Compare all that both have, for the same weights and inputs in the layout of e3nn."""
    assert product.weight_numel == reference.weight_numel
    assert str(product.irreps_out) == str(reference.irreps_out)
    factors = [path.path_weight for path in product.instructions]
    wanted = [path.path_weight for path in reference.instructions]
    assert_same(torch.tensor(factors), torch.tensor(wanted))
    assert product.output_mask.tolist() == reference.output_mask.tolist()
    product.load_state_dict(reference.state_dict(), strict=True)
    layout = product.layout
    x, y, *weight = inputs_of(reference, 3)
    irreps_in = (product.irreps_in1, product.irreps_in2)
    x_own, y_own = (
        irreps.with_layout("mul_ir").to_layout(value, layout)
        for irreps, value in zip(irreps_in, (x, y), strict=True)
    )
    got = product.irreps_out.to_layout(product(x_own, y_own, *weight), "mul_ir")
    assert_same(got, reference(x, y, *weight))


@st.composite
def path_arguments(draw: st.DrawFn) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a tensor product: terms of any multiplicity, all connections that fit them."""
    in1, in2 = draw(irreps), draw(irreps)
    out = draw(st.lists(terms, max_size=1))
    instructions = []
    for _ in range(draw(st.integers(1, 5))):
        i1, i2 = draw(st.integers(0, len(in1) - 1)), draw(st.integers(0, len(in2) - 1))
        (u, (l1, p1)), (v, (l2, p2)) = in1[i1], in2[i2]
        mode = draw(st.sampled_from(CONNECTIONS if u == v else CONNECTIONS[:4]))
        weighted = mode in ("uvw", "u<vw") or draw(st.booleans())
        free = draw(st.integers(1, 3))
        pairs = u * (u - 1) // 2
        mul_out = {"uvu": u, "uvv": v, "uuu": u, "uvuv": u * v, "uvu<v": pairs}.get(mode, free)
        if mode == "uuw" and not weighted:
            mul_out = 1
        made = (mul_out, (draw(st.integers(abs(l1 - l2), l1 + l2)), p1 * p2))
        if made not in out or draw(st.booleans()):
            out.append(made)
        path_weight = draw(st.sampled_from([1.0, 4.0, 0.3, 0.0]))
        instructions.append((i1, i2, out.index(made), mode, weighted, path_weight))
    options = {
        "irrep_normalization": draw(irrep_normalizations),
        "path_normalization": draw(path_normalizations),
        "shared_weights": draw(st.sampled_from([None, True, False])),
    }
    variances = st.sampled_from([1.0, 2.0, 0.5])
    for name, operand in (("in1_var", in1), ("in2_var", in2), ("out_var", out)):
        values = st.lists(variances, min_size=len(operand), max_size=len(operand))
        options[name] = draw(st.none() | values)
    return (in1, in2, out, instructions), options


def count_paths(lmax: int, parity: str = "all") -> int:
    """Count paths of degrees up to lmax, by the parity of the sum of degrees."""
    n = lmax + 1
    return {
        "all": n * (2 * n * n + 1) // 3,
        "even": n * (n + 1) * (2 * n + 1) // 6,
        "odd": lmax * n * (2 * lmax + 1) // 6,
    }[parity]
