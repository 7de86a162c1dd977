"""Connection modes of multiplicities and weights on a path, as in e3nn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Connection:
    """One connection mode; u, v and w are the multiplicities of the inputs and of the output."""

    rule: str
    fits: Callable[[int, int, int, bool], bool]  # the last argument: with weights
    weight_shape: Callable[[int, int, int], tuple[int, ...]]
    num_elements: Callable[[int, int, int], int]  # products added up in one output


def pairs(mul: int) -> int:
    """Return the number of pairs u < v."""
    return mul * (mul - 1) // 2


CONNECTIONS = {
    "uvw": Connection(
        rule="weights",
        fits=lambda u, v, w, weighted: weighted,
        weight_shape=lambda u, v, w: (u, v, w),
        num_elements=lambda u, v, w: u * v,
    ),
    "uvu": Connection(
        rule="mul_out = mul_in1",
        fits=lambda u, v, w, weighted: w == u,
        weight_shape=lambda u, v, w: (u, v),
        num_elements=lambda u, v, w: v,
    ),
    "uvv": Connection(
        rule="mul_out = mul_in2",
        fits=lambda u, v, w, weighted: w == v,
        weight_shape=lambda u, v, w: (u, v),
        num_elements=lambda u, v, w: u,
    ),
    "uuw": Connection(
        rule="mul_in1 = mul_in2, and mul_out = 1 without weights",
        fits=lambda u, v, w, weighted: u == v and (weighted or w == 1),
        weight_shape=lambda u, v, w: (u, w),
        num_elements=lambda u, v, w: u,
    ),
    "uuu": Connection(
        rule="mul_in1 = mul_in2 = mul_out",
        fits=lambda u, v, w, weighted: u == v == w,
        weight_shape=lambda u, v, w: (u,),
        num_elements=lambda u, v, w: 1,
    ),
    "uvuv": Connection(
        rule="mul_out = mul_in1 * mul_in2",
        fits=lambda u, v, w, weighted: w == u * v,
        weight_shape=lambda u, v, w: (u, v),
        num_elements=lambda u, v, w: 1,
    ),
    "uvu<v": Connection(
        rule="mul_in1 = mul_in2 and mul_out = mul_in1 (mul_in1 - 1) / 2",
        fits=lambda u, v, w, weighted: u == v and w == pairs(u),
        weight_shape=lambda u, v, w: (pairs(u),),
        num_elements=lambda u, v, w: 1,
    ),
    "u<vw": Connection(
        rule="weights and mul_in1 = mul_in2",
        fits=lambda u, v, w, weighted: u == v and weighted,
        weight_shape=lambda u, v, w: (pairs(u), w),
        num_elements=lambda u, v, w: pairs(u),
    ),
}
