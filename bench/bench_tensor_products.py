"""Every equivariant product in the settings of "The Price of Freedom".

Run with ``make bench``; choose by id, as in ``-k "mimo-L4-forward-1"``. Multiply-adds and bytes are
those of a forward pass. Bytes are both inputs and the output, each moved once, so that GB/s tells
how far a product is from the memory bound. The tables and plots come from
``python -m equigeo.examples.price_of_freedom``.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from equigeo.ops import kernels_info
from equigeo.tensor_products import Product, interactability
from equigeo.tensor_products.analysis.coefficients import in_double, path_coefficients
from equigeo.tensor_products.analysis.compare import check_couplings
from equigeo.tensor_products.analysis.compared_product import compared_product, compared_products

BATCH = 1000


def forward(product: Product, x: Tensor, y: Tensor) -> Tensor:
    with torch.no_grad():
        return product(x, y)


def backward(product: Product, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    z = product(x.requires_grad_(), y.requires_grad_())
    return torch.autograd.grad(z, (x, y), torch.ones_like(z))


@pytest.mark.parametrize("threads", [1, 2], ids=["1 thread", "2 threads"])
@pytest.mark.parametrize("run", [forward, backward], ids=["forward", "forward and backward"])
@pytest.mark.parametrize("lmax", [1, 2, 3, 4, 6, 8, 10], ids=lambda lmax: f"L{lmax}")
@pytest.mark.parametrize("setting", ["siso", "simo", "mimo"])
@pytest.mark.parametrize("name", compared_products(), ids=lambda name: name.replace(" ", "_"))
def bench_tensor_products(benchmark, name, setting, lmax, run, threads):
    product = compared_product(name, lmax, setting)
    if not interactability(product):
        pytest.skip(f"{name} makes nothing in {setting} at L = {lmax}")
    torch.set_num_threads(threads)
    generator = torch.Generator().manual_seed(0)
    dims = product.irreps_in1.dim, product.irreps_in2.dim
    x, y = (torch.randn(BATCH, dim, generator=generator) for dim in dims)

    check_couplings(product, path_coefficients(in_double(product)), x[:8], y[:8])

    moved = BATCH * (sum(dims) + product.irreps_out.dim) * x.element_size()
    benchmark.extra_info.update(
        batch=BATCH,
        multiply_adds=BATCH * product.multiply_adds(),
        bytes=moved,
        dtype=str(x.dtype),
        threads=threads,
        isa=kernels_info()["isa"],
        torch=torch.__version__,
    )
    benchmark(run, product, x, y)
    if run is forward and benchmark.stats is not None:  # None where timing is switched off
        benchmark.extra_info["GB/s"] = moved / benchmark.stats["median"] / 1e9
