"""Figures of kernels on GPUs."""

from __future__ import annotations

from bench.figures import Claim, record

PAGE = "docs/cuda.md"
THEIRS = "cuEquivariance"
CONTRACTION = "symmetric_contraction, 128 channels, ir_mul"
HARMONICS = "spherical_harmonics, degrees 0 to 3"
PRODUCT, CONV = (f"channelwise_{one}, mace-large, ir_mul" for one in ("product", "conv"))
ORDERS = "so2_conv, degrees up to 4, orders up to 2"
PASSES = ("forward", "both", "second")


def milliseconds(problem: str, who: str) -> list[float]:
    found = record("gpu_times")["times"]["microseconds"]
    return [found[f"{problem}, {kind}"][who] / 1e3 for kind in PASSES]


def gigabytes(problem: str, who: str) -> float:
    return float(record("gpu_times")["times"]["megabytes"][f"{problem}, second"][who]) * 2**20 / 1e9


def op_rows() -> list[dict[str, float]]:
    return list(record("gpu")["ops"]["rows"].values())


def cases() -> list[float]:
    rows = op_rows()
    largest = max(row["largest share of the tolerance"] for row in rows)
    return [len(rows), sum(row["cases"] for row in rows), largest]


def layers() -> list[float]:
    rows = record("gpu")["layers"]["rows"].values()
    return [len(rows), sum(row["eager"] == row["float32"] == "passed" for row in rows)]


def behind(problem: str) -> list[float]:
    pairs = zip(milliseconds(problem, "ours"), milliseconds(problem, THEIRS), strict=True)
    return [ours / theirs for ours, theirs in pairs]


def shares_of_copy() -> list[float]:
    shares = record("gpu_times")["times"]["share of the copy"][PRODUCT]
    return [shares["ours"], shares[THEIRS]]


def row(label: str, problem: str, who: str, *, memory: bool = True) -> Claim:
    def values() -> list[float]:
        return milliseconds(problem, who) + ([gigabytes(problem, who)] if memory else [])

    cells = " | ".join(["{}"] * 3 + ["{} GB" if memory else ""])
    return Claim(PAGE, f"| {label} | {cells.rstrip()} |", values)


CUDA = [
    Claim(PAGE, "all {} rows of the op table", lambda: cases()[:1]),
    Claim(PAGE, "in {} cases, with gradients of two orders", lambda: cases()[1:2]),
    Claim(PAGE, "largest deviation is {} of the tolerance", lambda: cases()[2:]),
    Claim(PAGE, "Of {} layers, {} passed in float64 and float32", layers),
    row("product, here", "channelwise_product, mace-large", "ours"),
    row("product, e3nn", "channelwise_product, mace-large", "e3nn"),
    row("product, `ir_mul`, here", PRODUCT, "ours"),
    row("product, `ir_mul`, cuEquivariance", PRODUCT, THEIRS),
    row("convolution, here", "channelwise_conv, mace-large", "ours"),
    row("gather, product and scatter, e3nn", "channelwise_conv, mace-large", "e3nn"),
    row("convolution, `ir_mul`, here", CONV, "ours"),
    row("product with indices, `ir_mul`, cuEquivariance", CONV, THEIRS),
    *(
        row(f"{label}, {name}", problem, who, memory=False)
        for label, problem, peer in (
            ("symmetric contraction, `ir_mul`", CONTRACTION, THEIRS),
            ("spherical harmonics of a million points", HARMONICS, "e3nn"),
        )
        for name, who in (("here", "ours"), (peer, peer))
    ),
    row("convolution by orders, here", ORDERS, "ours"),
    row("convolution by orders, fairchem-core", ORDERS, "fairchem-core"),
    Claim(PAGE, "faster than ours by factors of {}, {} and {}", lambda: behind(PRODUCT)),
    Claim(PAGE, "its convolutions with gradients, by {} and {}.", lambda: behind(CONV)[1:]),
    Claim(
        PAGE, "reaches {} of the bandwidth of a copy, that of cuEquivariance {}.", shares_of_copy
    ),
]
