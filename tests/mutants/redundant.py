"""Mutants that nothing can notice, with the reason why the line stays as it is."""

from __future__ import annotations

from tests.mutants.sources import Mutant

# Grids are as large as problems up to 2^20 blocks: no problem of the op table makes a warp go on to
# another item, behind the last barrier of the one before.
_NEXT_ITEM = "orders what a warp does for its next item, which grids below 2^20 blocks do not have"

# By the name of the mutant.
REDUNDANT = {
    "edge_weights.cuh: without __syncwarp()": "each lane reads and writes numbers of its own",
    "grid_product.cu: without __syncwarp(), 5": _NEXT_ITEM,
    "spherical_harmonics.cu: without __syncwarp()": _NEXT_ITEM,
    "spherical_harmonics.cu: without __syncwarp(), 4": _NEXT_ITEM,
}


def reason_of(mutant: Mutant) -> str:
    """Why a mutant is no mistake; empty if it is one."""
    return REDUNDANT.get(str(mutant), "")
