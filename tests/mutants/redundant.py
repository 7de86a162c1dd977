"""Mutants that nothing can notice, with the reason why the line stays as it is."""

from __future__ import annotations

from tests.mutants.sources import Mutant

# Grids are as large as problems up to 2^20 blocks: no problem of the op table makes a warp go on to
# another item, behind the last barrier of the one before.
_NEXT_ITEM = "orders what a warp does for its next item, which grids below 2^20 blocks do not have"
_QUICKER = "only chooses the quicker of two ways to the same values"
_NO_EDGES = "only leaves out work for rows without edges or paths, whose sums are zero anyway"
_NOTHING_LEFT = "goes on once more with nothing left, where all lanes do nothing"

_UNROLLED = "the loop is unrolled: what is inside leaves out what is beyond the rows of the tile"
_ROOM = "only makes room for more tiles than there are, and threads that find none"
_CLEARS = "only leaves out clearing what is written later anyway"
_PARTS = "only says in how many parts rows are summed"
_ONE_BATCH = "spares registers: rows with an edge each take one batch, the first and the last"
_NO_TANGENTS = "only says it to the compiler: without second derivatives there are no tangents"

# By the name of the mutant.
REDUNDANT = {
    "block_linear.cu: copy < segment.mul -> copy < 1 + segment.mul": _NOTHING_LEFT,
    "block_linear.cu: !reached -> true": _CLEARS,
    "block_linear.cu: !reached -> true, 2": _CLEARS,
    "block_linear.cu: e < kCount / kTileThreads -> e < 1 + kCount / kTileThreads": (
        "stages weights that no product reads, in memory that only results need"
    ),
    "block_linear_backward.cu: n < tiles -> n < 1 + tiles": _NOTHING_LEFT,
    "block_linear_backward.cu: wanted < kLeast -> true": _PARTS,
    "block_linear_backward.cu: wanted > kMost -> true": _PARTS,
    "block_matrices.cuh: begin < count -> begin < 1 + count": _NOTHING_LEFT,
    "channels.cuh: k < R -> k < 1 + R": _UNROLLED,
    "channels.cuh: k < R -> k < 1 + R, 2": _UNROLLED,
    "channels.cuh: tile.d == 1 -> false": _QUICKER,
    "differentiate_products.cu: Second -> true": _NO_TANGENTS,
    "differentiate_products.cu: own -> false": _ONE_BATCH,
    "differentiate_products.cu: own -> false, 2": _ONE_BATCH,
    "differentiate_products.cu: op.grad_y != nullptr -> true": "clears sums that are not read",
    "differentiate_products.cu: op.plan.totals->covers_weight -> false": _CLEARS,
    "differentiate_tile.cuh: D == 1 -> false": _QUICKER,
    "differentiate_tile.cuh: Second -> true": _NO_TANGENTS,
    "differentiate_tile.cuh: begin < end -> true": _NO_EDGES,
    "differentiate_edge.cuh: first < edge.rows -> first < 1 + edge.rows": _NOTHING_LEFT,
    "differentiate_tile.cuh: tile.first < tile.last -> true": _NO_EDGES,
    "differentiate_tile.cuh: tile.mul - tile.channel > kWarp -> true": _QUICKER,
    "edge_weights.cuh: begin < layer.size -> begin < 1 + layer.size": _NOTHING_LEFT,
    "edge_weights.cuh: without __syncwarp()": "each lane reads and writes numbers of its own",
    "grid_product.cu: without __syncwarp(), 5": _NEXT_ITEM,
    "linear_plan.h: use == LinearUse::kMap -> true": _ROOM,
    "linear_plan.h: use == LinearUse::kWeights -> true": _ROOM,
    "linear_tiles.cuh: [kOperands > kResult ? kOperands : kResult] -> "
    "[kOperands > kResult ? kOperands : kResult - 1]": (
        "the last row ends with numbers that only keep rows in banks of their own"
    ),
    "linear_tiles.cuh: d == 1 -> false": _QUICKER,
    "mixing_rows.h: begin < all -> begin < 1 + all": _NOTHING_LEFT,
    "mixing_rows.h: u < path.x.mul -> u < 1 + path.x.mul": "pairs behind the last are in no range",
    "outside_components.cu: d > kMostComponents -> true": _QUICKER,
    "outside_components.cu: first < mul -> first < 1 + mul": _NOTHING_LEFT,
    "plan.cu: begin < path.last -> begin < 1 + path.last": _NOTHING_LEFT,
    "plan.cu: begin < table.count -> begin < 1 + table.count": _NOTHING_LEFT,
    "plan.h: side == Side::kOut -> true": _ROOM,
    "plan.cu: table.path[p].weight < 0 -> true": _CLEARS,
    "spherical_harmonics.cu: first < op.points -> first < 1 + op.points": _NOTHING_LEFT,
    "spherical_harmonics.cu: tile == nullptr -> true": _QUICKER,
    "spherical_harmonics.cu: without __syncwarp()": _NEXT_ITEM,
    "spherical_harmonics.cu: without __syncwarp(), 4": _NEXT_ITEM,
    "staged_matrices.cuh: b < count -> b < 1 + count": _NOTHING_LEFT,
    "sum_products.cu: k < segment.end -> k < 1 + segment.end": _NOTHING_LEFT,
    "sum_products.cu: tile.first < tile.last -> true": _NO_EDGES,
    "sum_products.cu: tile.mul - tile.channel > kWarp -> true": _QUICKER,
    "symmetric_contraction.cu: i < op.runs * blocks -> i < 1 + op.runs * blocks": (
        "a run behind the last is empty and not the first of its set"
    ),
}


def reason_of(mutant: Mutant) -> str:
    """Why a mutant is no mistake; empty if it is one."""
    return REDUNDANT.get(str(mutant), "")
