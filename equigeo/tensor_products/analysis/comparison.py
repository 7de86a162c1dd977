"""Table of the cost and reach of products."""

from __future__ import annotations

from dataclasses import dataclass


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
    times = (
        row.milliseconds,
        row.microseconds_per_freedom,
        row.microseconds_per_published_freedom,
    )
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
