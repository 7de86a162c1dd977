"""Every product in the settings of the published comparison."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor

from equigeo.reps.wigner import wigner_3j_table
from equigeo.tensor_products.analysis.coefficients import (
    in_double,
    path_coefficients,
    single_irreps,
)
from equigeo.tensor_products.analysis.compared_product import (
    Setting,
    compared_inputs,
    compared_product,
    compared_products,
    published_freedom,
)
from equigeo.tensor_products.analysis.expressivity import expressivity
from equigeo.tensor_products.products.base import Product


@dataclass(frozen=True)
class ComparisonRow:
    """Measurements of one product in one setting."""

    product: str
    paths: int  # triples of irreps that are coupled
    degrees_of_freedom: int  # rank, see expressivity
    published_degrees_of_freedom: int | None  # divisor of the published comparison
    multiply_adds: int  # per sample, as implemented
    bytes: int  # both inputs and the output of a sample, each moved once
    milliseconds: float | None  # median over calls on the whole batch; None without outputs

    @property
    def microseconds_per_freedom(self) -> float | None:
        """Time per degree of freedom that was computed."""
        return _ratio(self.milliseconds, self.degrees_of_freedom)

    @property
    def microseconds_per_published_freedom(self) -> float | None:
        """Time per published degree of freedom; odd Clebsch-Gordan paths are included there."""
        return _ratio(self.milliseconds, self.published_degrees_of_freedom)


@dataclass(frozen=True)
class Comparison:
    """Table of products, formatted by ``print``.

    Examples
    --------
    >>> row = ComparisonRow("gaunt grid", 14, 9, 9, 1115, 172, 0.5)
    >>> print(Comparison(2, "mimo", 100, "float32", "cpu", 1, (row,)))
    L = 2, mimo, batch 100, float32 on cpu, 1 thread
    product     paths  freedom  published  multiply-adds  bytes   ms  us/freedom  us/published
    gaunt grid     14        9          9           1115    172  0.5       55.56         55.56
    """

    lmax: int  # largest degree of the inputs
    setting: str  # "siso", "simo" or "mimo"
    batch: int  # samples per call
    dtype: str
    device: str
    threads: int  # of PyTorch on the CPU
    rows: tuple[ComparisonRow, ...]

    def __getitem__(self, product: str) -> ComparisonRow:
        """Return the row of a product, or raise ``KeyError``."""
        for row in self.rows:
            if row.product == product:
                return row
        raise KeyError(product)

    def __str__(self) -> str:
        """Return the table as text."""
        header = ["product", "paths", "freedom", "published", "multiply-adds", "bytes", "ms"]
        lines = [[*header, "us/freedom", "us/published"], *map(_cells, self.rows)]
        widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        title = (
            f"L = {self.lmax}, {self.setting}, batch {self.batch}, {self.dtype} on {self.device}, "
            f"{threads}"
        )
        table = [
            "  ".join(
                cell.ljust(width) if k == 0 else cell.rjust(width)
                for k, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
            for line in lines
        ]
        return "\n".join([title, *table])


def _cells(row: ComparisonRow) -> list[str]:
    times = (row.milliseconds, row.microseconds_per_freedom, row.microseconds_per_published_freedom)
    published = row.published_degrees_of_freedom
    return [
        row.product,
        str(row.paths),
        str(row.degrees_of_freedom),
        "-" if published is None else str(published),
        str(row.multiply_adds),
        str(row.bytes),
        *("-" if time is None else f"{time:.4g}" for time in times),
    ]


def _ratio(milliseconds: float | None, freedom: int | None) -> float | None:
    return None if milliseconds is None or not freedom else 1e3 * milliseconds / freedom


_CHECKED = 8  # samples that are compared with couplings before a product is timed
_WARM_UP = 3


def compare(
    lmax: int,
    setting: Setting = "mimo",
    *,
    products: Sequence[str] | None = None,
    batch: int = 1000,
    repetitions: int = 20,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Comparison:
    """Measure the forward pass of every product, without channels and without gradients.

    Each product is compared with its sum of couplings before it is timed; a deviation raises
    ``RuntimeError``. Inputs have natural parity, and so have outputs except for "full all", "curl"
    and "vector_signal". In settings of single degrees, products of signals run on whole signals
    padded with zeros. The settings are those of Xie et al., "The Price of Freedom", ICML 2025.

    Parameters
    ----------
    lmax : int
        Degree of the inputs, at least 1.
    setting : {"siso", "simo", "mimo"}
        Single or multiple input and output: one irrep of degree ``lmax`` or one of each degree up
        to it; outputs of degree ``lmax``, or all up to ``2 lmax``.
    products : sequence of str, optional
        Row names, all by default.
    batch, repetitions : int
        Samples per call, and timed calls, of which the median counts.

    Returns
    -------
    Comparison
        One row per product. A product without outputs, such as a Gaunt product of odd degrees
        alone, has no paths and no time.

    Examples
    --------
    >>> table = compare(2, batch=10, repetitions=1)
    >>> [(row.product, row.paths, row.degrees_of_freedom) for row in table.rows[:3]]
    [('full all', 19, 19), ('full even', 14, 14), ('full_sparse even', 14, 14)]
    """
    if min(lmax, batch, repetitions) < 1:
        raise ValueError(
            f"lmax, batch and repetitions must be at least 1, got {lmax}, {batch} and {repetitions}"
        )
    generator = torch.Generator().manual_seed(0)
    rows = []
    for name in compared_products() if products is None else products:
        # Measured on the CPU, where generators draw, for any default device; timed below, outside.
        with torch.device("cpu"):
            product = compared_product(name, lmax, setting)
            kappa = path_coefficients(in_double(product))
        natural = compared_inputs(lmax, setting)
        sides = product.irreps_in1.dim, product.irreps_in2.dim
        x, y = (
            torch.randn(batch, dim, generator=generator, device="cpu").to(device, dtype)
            for dim in sides
        )
        row = ComparisonRow(
            product=name,
            paths=int(kappa.count_nonzero()),
            degrees_of_freedom=expressivity(product, natural, natural),
            published_degrees_of_freedom=published_freedom(name, lmax, setting),
            multiply_adds=product.multiply_adds(),
            bytes=(sum(sides) + product.irreps_out.dim) * x.element_size(),
            milliseconds=_checked_milliseconds(
                product.to(device, dtype), kappa, (x, y), repetitions
            ),
        )
        rows.append(row)
    return Comparison(
        lmax=lmax,
        setting=setting,
        batch=batch,
        dtype=str(dtype).removeprefix("torch."),
        device=str(device),
        threads=torch.get_num_threads(),
        rows=tuple(rows),
    )


def check_couplings(
    product: Product,
    kappa: Tensor,  # (irreps of in1, irreps of in2, irreps of out), from interactability
    x: Tensor,  # (samples, dim)
    y: Tensor,  # (samples, dim)
) -> None:
    """Raise if a product deviates from its sum of couplings in float64 beyond rounding."""
    reps = product.irreps_in1, product.irreps_in2, product.irreps_out
    first, second, third = (single_irreps(rep) for rep in reps)
    x64, y64 = x.double().cpu(), y.double().cpu()
    want = x64.new_zeros(len(x), product.irreps_out.dim)
    for a, b, c in kappa.nonzero().tolist():
        ((l1, _), at1), ((l2, _), at2), ((l3, _), at3) = first[a], second[b], third[c]
        left = torch.tensordot(x64[:, at1], wigner_3j_table(l1, l2, l3), 1)
        want[:, at3] += kappa[a, b, c] * torch.einsum("sjk,sj->sk", left, y64[:, at2])
    with torch.no_grad():
        got = product(x, y).double().cpu()
    error = float((got - want).abs().max()) / float(want.abs().max())
    # Rounding grows as the root of the number of terms; 32 leaves room for the transforms of the
    # methods, and a missing path is off by orders of magnitude more.
    bound = 32 * torch.finfo(x.dtype).eps * max(rep.dim for rep in reps) ** 0.5
    if not error <= bound:
        raise RuntimeError(
            f"{type(product).__name__} must be a sum of couplings to {bound:.2g}, but is off by "
            f"{error:.2g}"
        )


def _checked_milliseconds(
    product: Product, kappa: Tensor, inputs: tuple[Tensor, Tensor], repetitions: int
) -> float | None:
    """Return the median time of a call after verifying its result, or None without couplings."""
    if not kappa.any():
        return None
    x, y = inputs
    with torch.device("cpu"):
        check_couplings(product, kappa, x[:_CHECKED], y[:_CHECKED])
    seconds = []
    with torch.no_grad():
        for _ in range(_WARM_UP + repetitions):
            _wait(x.device)
            start = time.perf_counter()
            product(x, y)
            _wait(x.device)
            seconds.append(time.perf_counter() - start)
    return 1e3 * median(seconds[_WARM_UP:])


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
