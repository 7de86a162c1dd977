"""Mutants that nothing can notice, with the reason why the line stays as it is."""

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
_TOGETHER = "only says how many edges, or rows, are taken together"
_WARPS = "only says how many warps share the tiles of a row"
_CHUNK = "only says how many edges have their numbers in memory at once"
_UNREAD = "fills what nothing reads"
_ALL_OR_NONE = "either all paths of a table have weights or none"
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
    "block_matrices.cuh: of_edge > available -> true": _TOGETHER,
    "block_matrices.cuh: begin < count -> begin < 1 + count": _NOTHING_LEFT,
    "carver.h: piece != nullptr -> true": "forbids addresses that lie before all memory",
    "channels.cuh: k < R -> k < 1 + R": _UNROLLED,
    "channels.cuh: k < R -> k < 1 + R, 2": _UNROLLED,
    "channels.cuh: tile.d == 1 -> false": _QUICKER,
    "differentiate_products.cu: Second -> true": _NO_TANGENTS,
    "differentiate_products.cu: kSplines<Second, S> -> true": (
        "only says it to the compiler: there are no positions otherwise"
    ),
    "differentiate_products.cu: own -> false": _ONE_BATCH,
    "differentiate_products.cu: own -> false, 2": _ONE_BATCH,
    "differentiate_products.cu: op.grad_y != nullptr -> true": "clears sums that are not read",
    "differentiate_products.cu: op.plan.totals->covers_weight -> false": _CLEARS,
    "differentiate_tile.cuh: D == 1 -> false": _QUICKER,
    "differentiate_tile.cuh: ir_mul -> false": _QUICKER,
    "differentiate_tile.cuh: path.weight >= 0 -> true": _ALL_OR_NONE,
    "differentiate_tile.cuh: path.weight >= 0 -> true, 2": _ALL_OR_NONE,
    "differentiate_tile.cuh: path.weight >= 0 -> true, 3": _ALL_OR_NONE,
    "differentiate_tile.cuh: Second -> true": _NO_TANGENTS,
    "differentiate_tile.cuh: begin < end -> true": _NO_EDGES,
    "differentiate_edge.cuh: first < edge.rows -> first < 1 + edge.rows": _NOTHING_LEFT,
    "differentiate_tile.cuh: tile.first < tile.last -> true": _NO_EDGES,
    "differentiate_tile.cuh: tile.mul - tile.channel > kWarp -> true": _QUICKER,
    "edge_weights.cuh: begin < radial.num_hidden -> begin < 1 + radial.num_hidden": _NOTHING_LEFT,
    "grid_product.cu: without __syncwarp(), 5": _NEXT_ITEM,
    "launch.cuh: blocks < kMostBlocks -> true": "problems of the op table need fewer blocks",
    "linear_plan.h: use == LinearUse::kMap -> true": _ROOM,
    "linear_plan.h: use == LinearUse::kWeights -> true": _ROOM,
    "linear_tiles.cuh: [kOperands > kResult ? kOperands : kResult] -> "
    "[kOperands > kResult ? kOperands : kResult - 1]": (
        "the last row ends with numbers that only keep rows in banks of their own"
    ),
    "linear_tiles.cuh: d == 1 -> false": _QUICKER,
    "matrix_products.cuh: [kTerms * kColumnLine] -> [kTerms * kColumnLine - 1]": (
        "the last line ends with numbers that only keep lines in banks of their own"
    ),
    "matrix_products.cuh: count < kTileRows -> true": "only keeps a number of rows below 2^31",
    "matrix_products.cuh: step > 0 -> true": "stages what the next step replaces",
    "matrix_products.cuh: t < tiles -> t < 1 + tiles": _NOTHING_LEFT,
    "matrix_products.cuh: n < list.count -> n < 1 + list.count": (
        "behind the last product is one without tiles"
    ),
    "mixing_rows.h: begin < all -> begin < 1 + all": _NOTHING_LEFT,
    "mixing_rows.h: u < path.x.mul -> u < 1 + path.x.mul": "pairs behind the last are in no range",
    "outside_components.cu: d > kMostComponents -> true": _QUICKER,
    "outside_components.cu: first < mul -> first < 1 + mul": _NOTHING_LEFT,
    "plan.cu: begin < path.last -> begin < 1 + path.last": _NOTHING_LEFT,
    "plan.cu: begin < table.count -> begin < 1 + table.count": _NOTHING_LEFT,
    "plan.h: side == Side::kOut -> true": _ROOM,
    "plan.cu: table.path[p].weight < 0 -> true": _CLEARS,
    "so2_conv.cu: op.modulation.radial != nullptr -> true": _CHUNK,
    "so2_conv_backward.cu: op.modulation.radial != nullptr -> true": _CHUNK,
    "so2_conv_backward.cu: op.of_weights -> true": "there are no parts to sum then",
    "so2_edges.cuh: l >= 2 -> true": _UNREAD,
    "so2_edges.cuh: m <= l -> true": _UNREAD,
    "so2_edges.cuh: first < count -> first < 1 + count": _NOTHING_LEFT,
    "so2_edges.cuh: m <= last -> m <= 1 + last": _CHUNK,
    "so2_edges.cuh: m == 0 -> true": _CHUNK,
    "so2_edges.cuh: m <= last -> m <= 1 + last, 2": "makes room for an order that nothing reads",
    "so2_edges.cuh: n % dim == 0 -> true": "looks at the offsets of a row again",
    "so2_gradients.cuh: op.messages -> true": "adds up what is not kept",
    "so2_gradients.cuh: term.l > 0 -> true": "nothing turns a scalar",
    "so2_mix.cuh: size < 1 -> true": _PARTS,
    "so2_mix.cuh: chunk / kLeastOfPart < fit -> true": _PARTS,
    "so2_mix.cuh: wanted < 1 -> true": _PARTS,
    "so2_mix.cuh: wanted < kMost -> true": _PARTS,
    "so2_turn.cuh: first < op.edges.count -> first < 1 + op.edges.count": _NOTHING_LEFT,
    "so2_turn_back.cuh: begin < term.mul -> begin < 1 + term.mul": _NOTHING_LEFT,
    "so2_turn_back.cuh: tile < op.edges.count -> tile < 1 + op.edges.count": _NOTHING_LEFT,
    "so2_turn_back.cuh: op.edges.row[e] != row -> true": "adds to a row after each of its edges",
    "so2_turn_back.cuh: edges.row[e] != edges.row[e - 1] -> false": (
        "leaves all edges of a chunk to one block"
    ),
    "so2_turn_back.cuh: first < last -> true": "what begins behind a tile ends it, too",
    "so2_turn_back.cuh: term.l == 0 -> true": _QUICKER,
    "so2_turn_back.cuh: term.l == 1 -> true": _QUICKER,
    "spherical_harmonics.cu: first < op.points -> first < 1 + op.points": _NOTHING_LEFT,
    "spherical_harmonics.cu: tile == nullptr -> true": _QUICKER,
    "spherical_harmonics.cu: without __syncwarp()": _NEXT_ITEM,
    "spherical_harmonics.cu: without __syncwarp(), 4": _NEXT_ITEM,
    "staged_matrices.cuh: b < count -> b < 1 + count": _NOTHING_LEFT,
    "sum_edges.cuh: Second -> true": _NO_TANGENTS,
    "sum_edges.cuh: op.tangents.weight != nullptr -> true": "fetches what is left out later",
    "sum_edges.cuh: path.weight >= 0 -> true": _ALL_OR_NONE,
    "sum_edges.cuh: path.weight >= 0 -> true, 2": _ALL_OR_NONE,
    "sum_edges.cuh: path.weight >= 0 -> true, 3": "fetches what is left out later",
    "sum_edges.cuh: path.weight >= 0 -> true, 4": _ALL_OR_NONE,
    "sum_edges.cuh: Second -> true, 2": _NO_TANGENTS,
    "sum_edges.cuh: Second -> true, 3": _NO_TANGENTS,
    "sum_edges.cuh: begin < count -> begin < 1 + count": _NOTHING_LEFT,
    "sum_products.cu: own -> true, 2": _TOGETHER,
    "sum_products.cu: !alone -> true": _TOGETHER,
    "sum_products.cu: fit < 1 -> true": _TOGETHER,
    "sum_products.cu: fit < kEdges<Second> -> true": _TOGETHER,
    "sum_products.cu: op.plan.count < 1 -> true": _WARPS,
    "sum_products.cu: wanted < most -> true": _WARPS,
    "sum_products.cu: slices < 1 -> true": _WARPS,
    "sum_products.cu: k < segment.end -> k < 1 + segment.end": _NOTHING_LEFT,
    "sum_products.cu: tile.first < tile.last -> true": _NO_EDGES,
    "sum_products.cu: part.channel < part.mul -> part.channel < 1 + part.mul": _NOTHING_LEFT,
    "sum_products.cu: tile.mul - tile.channel > kWarp -> true": _QUICKER,
    "symmetric_contraction.cu: i < op.runs * blocks -> i < 1 + op.runs * blocks": (
        "a run behind the last is empty and not the first of its set"
    ),
}


def reason_of(mutant: Mutant) -> str:
    """Why a mutant is no mistake; empty if it is one."""
    return REDUNDANT.get(str(mutant), "")
