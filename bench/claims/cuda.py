"""Figures of kernels on a card."""

from __future__ import annotations

from bench.figures import Claim, record

PAGE = "docs/cuda.md"
THEIRS = "cuEquivariance"
CONTRACTION = "symmetric_contraction, 128 channels, ir_mul"
HARMONICS = "spherical_harmonics, degrees 0 to 3"
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


def products_behind() -> list[float]:
    problem = "channelwise_product, mace-large, ir_mul"
    return [milliseconds(problem, "ours")[2] / milliseconds(problem, THEIRS)[2]]


def share_of_copy() -> list[float]:
    shares = record("gpu_times")["times"]["share of the copy"]
    return [shares["channelwise_product, mace-large"]["ours"]]


def row(label: str, problem: str, who: str, *, memory: bool = True) -> Claim:
    def values() -> list[float]:
        return milliseconds(problem, who) + ([gigabytes(problem, who)] if memory else [])

    cells = " | ".join(["{}"] * 3 + ["{} GB" if memory else ""])
    return Claim(PAGE, f"| {label} | {cells.rstrip()} |", values)


CUDA = [
    Claim(PAGE, "all {} rows of the op table", lambda: cases()[:1]),
    Claim(PAGE, "in {} cases, with gradients of two orders", lambda: cases()[1:2]),
    Claim(PAGE, "largest deviation is {} of what is tolerated", lambda: cases()[2:]),
    Claim(PAGE, "Of {} layers, {} passed in float64 and float32", layers),
    row("product, here", "channelwise_product, mace-large", "ours"),
    row("product, e3nn", "channelwise_product, mace-large", "e3nn"),
    row("product, `ir_mul`, here", "channelwise_product, mace-large, ir_mul", "ours"),
    row("product, `ir_mul`, cuEquivariance", "channelwise_product, mace-large, ir_mul", THEIRS),
    row("convolution, here", "channelwise_conv, mace-large", "ours"),
    row("gather, product and scatter, e3nn", "channelwise_conv, mace-large", "e3nn"),
    row("convolution, `ir_mul`, here", "channelwise_conv, mace-large, ir_mul", "ours"),
    row(
        "product with indices, `ir_mul`, cuEquivariance",
        "channelwise_conv, mace-large, ir_mul",
        THEIRS,
    ),
    *(
        row(f"{label}, {name}", problem, who, memory=False)
        for label, problem, peer in (
            ("symmetric contraction, `ir_mul`", CONTRACTION, THEIRS),
            ("spherical harmonics of a million points", HARMONICS, "e3nn"),
        )
        for name, who in (("here", "ours"), (peer, peer))
    ),
    Claim(PAGE, "by {} times for second derivatives", products_behind),
    Claim(PAGE, "reaches {} of the bandwidth of a copy", share_of_copy),
]
