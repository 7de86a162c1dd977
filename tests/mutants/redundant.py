"""Mutants that nothing can notice, with the reason why the line stays as it is."""

from __future__ import annotations

from tests.mutants.sources import Mutant

# Grids are as large as problems up to 2^20 blocks: no problem of the op table makes a warp go on to
# another item, behind the last barrier of the one before.
_NEXT_ITEM = "orders what a warp does for its next item, which grids below 2^20 blocks do not have"
_QUICKER = "only chooses the quicker of two ways to the same values"
_NO_EDGES = "only leaves out work for rows without edges or paths, whose sums are zero anyway"
_NOTHING_LEFT = "goes on once more with nothing left, where all lanes do nothing"

# By the name of the mutant.
REDUNDANT = {
    "channels.cuh: tile.d == 1 -> false": _QUICKER,
    "differentiate_products.cu: batch.count > 0 -> true": _NO_EDGES,
    "differentiate_products.cu: begin < batch.count -> begin < 1 + batch.count": _NOTHING_LEFT,
    "differentiate_products.cu: first < path.d3 -> first < 1 + path.d3": _NOTHING_LEFT,
    "differentiate_products.cu: first < rows.count -> first < 1 + rows.count": _NOTHING_LEFT,
    "differentiate_products.cu: fit < count -> true": "edges that are left are counted again later",
    "differentiate_products.cu: op.plan.totals->covers_weight -> false": _QUICKER,
    "differentiate_products.cu: path.d3 * stride > kMatrices -> true": _QUICKER,
    "differentiate_products.cu: tile.mul - tile.channel > kWarp -> true": _QUICKER,
    "edge_weights.cuh: without __syncwarp()": "each lane reads and writes numbers of its own",
    "grid_product.cu: without __syncwarp(), 5": _NEXT_ITEM,
    "outside_components.cu: d > kMostComponents -> true": _QUICKER,
    "spherical_harmonics.cu: without __syncwarp()": _NEXT_ITEM,
    "spherical_harmonics.cu: without __syncwarp(), 4": _NEXT_ITEM,
    "sum_products.cu: tile.first < tile.last -> true": _NO_EDGES,
    "sum_products.cu: tile.mul - tile.channel > kWarp -> true": _QUICKER,
}


def reason_of(mutant: Mutant) -> str:
    """Why a mutant is no mistake; empty if it is one."""
    return REDUNDANT.get(str(mutant), "")
