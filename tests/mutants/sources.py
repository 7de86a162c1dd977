"""Which mistakes are made: every barrier and wait, shared memory and bound of an index in turn.

Barriers, waits and bounds of loops are found by their form, so that new ones are mutated too; what
else guards an index, and sizes of shared memory, are listed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KERNELS = "csrc/kernels/cuda"
# Warps share rows there; what else is in csrc/math belongs to one thread.
TEAMS = ("csrc/math/copy_rows.h", "csrc/math/mixing_rows.h")

BARRIER = re.compile(
    r"^(\s*)(__syncwarp|__syncthreads|team\.sync|wait_for_copies"
    r"|__pipeline_commit|__pipeline_wait_prior)\(\w*\);"
)
# Loops whose items are dealt out to threads, warps or blocks.
LOOP = re.compile(r"for \(.*?[ (](\w+) < (?=[^;]*; \1 \+= .*(kWarp|lanes|threads|stride|Dim)\b)")

# A condition, or a part of one, without which an index may leave its array.
GUARDS = [
    ("channels.cuh", "channels.has(n + m) && i < count", "i < count"),
    ("channels.cuh", "channels.has(n + m) && i < count", "channels.has(n + m)"),
    ("channels.cuh", "k < tile.rows && channels.has(n)", "channels.has(n)"),
    ("channels.cuh", "k < tile.rows && channels.has(n)", "k < tile.rows"),
    ("channels.cuh", "if (k < tile.d) {", "if (true) {"),
    ("channels.cuh", "N * kWarp < tile.mul - tile.channel ?", "true ?"),
    ("differentiate_products.cu", "      if (k < left) {", "      if (true) {"),
    ("differentiate_products.cu", "k < kRows && k < left", "k < left"),
    ("differentiate_products.cu", "k < kRows && k < left", "k < kRows"),
    ("differentiate_products.cu", "grad_weights != nullptr && channels.has(n)", "channels.has(n)"),
    (
        "differentiate_products.cu",
        "grad_weights != nullptr && channels.has(n)",
        "grad_weights != nullptr",
    ),
    ("differentiate_products.cu", "k >= 0 && k < rows.count", "k < rows.count"),
    ("differentiate_products.cu", "k >= 0 && k < rows.count", "k >= 0"),
    ("differentiate_products.cu", "batch.count > 0 && tile.first < tile.last", "batch.count > 0"),
    (
        "differentiate_products.cu",
        "batch.count > 0 && tile.first < tile.last",
        "tile.first < tile.last",
    ),
    ("differentiate_products.cu", "fit < count ? fit : count", "fit"),
    ("differentiate_products.cu", "staging.edges < left ? staging.edges : left", "staging.edges"),
    ("differentiate_products.cu", "staging.rows < behind ? staging.rows : behind", "staging.rows"),
    ("edge_batch.cuh", "static_cast<int>(threadIdx.x) < count", "threadIdx.x < kBatch"),
    ("edge_batch.cuh", "most < end - k ? most : end - k", "most"),
    ("edge_weights.cuh", "from != nullptr && channels.has(n)", "channels.has(n)"),
    ("edge_weights.cuh", "from != nullptr && channels.has(n)", "from != nullptr"),
    ("edge_weights.cuh", "channels.has(n) ? load(", "true ? load("),
    ("edge_weights.cuh", "b < count ? load(", "true ? load("),
    ("edge_weights.cuh", "int>(layer.size - begin <", "int>(layer.size <"),
    ("plan.cu", "blockIdx.x < table.count", "blockIdx.x <= table.count"),
    ("plan.cu", "path.last - begin < kWarp ? path.last - begin : kWarp", "kWarp"),
    ("plan.cu", "if (lane < count)", "if (true)"),
    ("linear_plan.cu", "b + 1 == plan.blocks.count", "true"),
    ("linear_tiles.cuh", "spot[e].at >= 0 && first", "first"),
    (
        "linear_tiles.cuh",
        "spot[e].at >= 0 && first + spot[e].copy < segment.mul",
        "spot[e].at >= 0",
    ),
    ("block_linear.cu", "row < block.mul && column < block.mul_out", "column < block.mul_out"),
    ("block_linear.cu", "row < block.mul && column < block.mul_out", "row < block.mul"),
    ("block_linear.cu", "if (tile.copy + spot.copy < segment.mul)", "if (true)"),
    ("block_linear_backward.cu", "u < block.mul && w < block.mul_out", "w < block.mul_out"),
    ("block_linear_backward.cu", "u < block.mul && w < block.mul_out", "u < block.mul"),
    ("block_linear_backward.cu", "left < op.part ? left : op.part", "op.part"),
    ("plan.cu", "last < plan.count && !is_first", "!is_first"),
    ("plan.cu", "r == 0 || span(plan, r).begin", "span(plan, r).begin"),
    ("spherical_harmonics.cu", "  if (active) {\n    harmonics(", "  if (true) {\n    harmonics("),
    (
        "spherical_harmonics.cu",
        "  if (active) {\n    store_point(",
        "  if (true) {\n    store_point(",
    ),
    ("spherical_harmonics.cu", "  if (active) {\n    const V", "  if (true) {\n    const V"),
    ("spherical_harmonics.cu", "left < kWarp ? left : kWarp", "kWarp"),
    (
        "staged_channels.cuh",
        "left < N * kWarp ? left : N * kWarp",
        "N * kWarp",
    ),
    ("staged_channels.cuh", "channels.has(n + m) && i < count", "i < count"),
    ("staged_channels.cuh", "channels.has(n + m) && i < count", "channels.has(n + m)"),
    ("staged_channels.cuh", "d > 1 && d <= numbers / (N * kWarp)", "d > 1"),
    ("staged_matrices.cuh", "      if (b < count) {", "      if (true) {"),
    ("staged_matrices.cuh", "    if (b < count) {\n      to", "    if (true) {\n      to"),
    ("staged_matrices.cuh", "k < 0 || k >= rows.count", "k >= rows.count"),
    ("staged_matrices.cuh", "k < 0 || k >= rows.count", "k < 0"),
    ("sum_products.cu", "tile.first < tile.last ? positions_of", "true ? positions_of"),
    ("sum_products.cu", "op.layer.hidden != nullptr && path.weight >= 0", "op.layer.hidden"),
    ("symmetric_contraction.cu", "active ? channel : channels - 1", "channel"),
    (
        "symmetric_contraction.cu",
        "if (column.active) {\n      row[",
        "if (true) {\n      row[",
    ),
    (
        "symmetric_contraction.cu",
        "if (column.active) {\n      set[",
        "if (true) {\n      set[",
    ),
    ("symmetric_contraction.cu", "Full && column.active && (", "Full && ("),
]

# Shared memory that is one element smaller than it is used.
SIZES = [
    ("differentiate_products.cu", "int kMatrices = 512", "int kMatrices = 511"),
    ("differentiate_products.cu", "weights[kWeights]", "weights[kWeights - 1]"),
    ("differentiate_products.cu", "edges[kBatch];", "edges[kBatch - 1];"),
    (
        "differentiate_products.cu",
        "launch_kernel(kernel, grid, block, bytes,",
        "launch_kernel(kernel, grid, block, bytes - sizeof(T),",
    ),
    ("differentiate_products.cu", "WarpMemory<T>[kWarps]", "WarpMemory<T>[kWarps - 1]"),
    ("fully_connected_product.cu", "[2][kTile]>", "[2][kTile - 1]>"),
    ("fully_connected_product.cu", "T[kThreads / kWarp]", "T[kThreads / kWarp - 1]"),
    ("grid_product.cu", "warps * bytes, stream", "warps * bytes - sizeof(T), stream"),
    (
        "spherical_harmonics.cu",
        "staged ? warps * tile : 0",
        "staged ? warps * tile - sizeof(T) : 0",
    ),
    ("sum_products.cu", "numbers[kNumbers]", "numbers[kNumbers - 1]"),
    (
        "sum_products.cu",
        "weights[kBatch * kChannels * kWarp]",
        "weights[kBatch * kChannels * kWarp - 1]",
    ),
    ("sum_products.cu", "edges[kBatch];", "edges[kBatch - 1];"),
    ("sum_products.cu", "WarpMemory<Compute<S>>[kWarps]", "WarpMemory<Compute<S>>[kWarps - 1]"),
    ("symmetric_contraction.cu", "together * bytes, stream", "together * bytes - 4, stream"),
]

# Rows of the op table that run through a file, as parts of their names; others through everything
# that multiplies channels.
ROWS = {
    "axis_flags.cu": ["axis_flags"],
    "block_linear.cu": ["block_linear"],
    "block_linear_backward.cu": ["block_linear"],
    "linear_plan.cu": ["block_linear"],
    "linear_tiles.cuh": ["block_linear"],
    "copy_rows.h": ["copywise", "fully_connected"],
    "copywise_product.cu": ["copywise"],
    "fully_connected_product.cu": ["fully_connected"],
    "mixing_rows.h": ["fully_connected"],
    "gather_sum.cu": ["gather_sum"],
    "grid_product.cu": ["grid_product"],
    "principal_axes.cu": ["principal_axes"],
    "segment_attention.cu": ["segment_attention"],
    "segment_attention_backward.cu": ["segment_attention"],
    "spherical_harmonics.cu": ["spherical_harmonics"],
    "symmetric_contraction.cu": ["symmetric_contraction"],
    "symmetric_eigen.cu": ["symmetric_eigen"],
}
CHANNELWISE = ["channelwise", "radial_conv"]


@dataclass(frozen=True)
class Mutant:
    """A source with one mistake: ``after`` in the place of ``before``, the ``number``-th such."""

    kind: str
    file: str
    line: int
    before: str
    after: str
    number: int = 1

    @property
    def rows(self) -> list[str]:
        return ROWS.get(Path(self.file).name, CHANNELWISE)

    @property
    def skipped(self) -> str:
        """The place of a call that the simulator can skip, else nothing."""
        called = self.kind == "barrier" and self.before.strip().startswith("__")
        return f"{self.file}:{self.line}" if called else ""

    def apply(self, text: str) -> str:
        """The source with the mistake."""
        start = _start_of_line(text, self.line)
        assert text.startswith(self.before, start)
        return text[:start] + self.after + text[start + len(self.before) :]

    def __str__(self) -> str:
        before, after = (" ".join(x.split()) for x in (self.before, self.after))
        change = f"without {before}" if after == ";" else f"{before} -> {after}"
        return f"{Path(self.file).name}: {change}" + f", {self.number}" * (self.number > 1)


def mutants(root: Path = ROOT) -> list[Mutant]:
    """All mistakes, in the order of files and lines."""
    found: list[Mutant] = []
    kernels = sorted((root / KERNELS).iterdir())
    for path in [*kernels, *(root / name for name in TEAMS)]:
        name = str(path.relative_to(root))
        text = path.read_text(encoding="utf-8")
        found += [*_barriers(name, text), *_loops(name, text)]
        for kind, table in (("guard", GUARDS), ("size", SIZES)):
            pairs = [(b, a) for file, b, a in table if file == path.name]
            found += [_replacement(kind, name, text, b, a) for b, a in pairs]
    return list(_numbered(sorted(found, key=lambda m: (m.file, m.line))))


def _numbered(found: list[Mutant]) -> Iterator[Mutant]:
    """Tell mistakes that look the same apart."""
    times: Counter[str] = Counter()
    for mutant in found:
        times[str(mutant)] += 1
        yield replace(mutant, number=times[str(mutant)])


def _barriers(name: str, text: str) -> Iterator[Mutant]:
    for number, line in enumerate(text.splitlines(), 1):
        # Warp::sync stands for all calls of it, which are mutated one by one.
        if (match := BARRIER.match(line)) and not name.endswith("warp.cuh"):
            yield Mutant("barrier", name, number, line, f"{match[1]};")


def _loops(name: str, text: str) -> Iterator[Mutant]:
    for number, line in enumerate(text.splitlines(), 1):
        if match := LOOP.search(line):
            end = match.end() - len("< ")
            yield Mutant("bound", name, number, line, f"{line[:end]}<={line[end + 1 :]}")


def _replacement(kind: str, name: str, text: str, before: str, after: str) -> Mutant:
    if text.count(before) != 1:
        raise ValueError(f"{name} must have {before!r} once, has it {text.count(before)} times")
    position = text.index(before)
    start = text.rfind("\n", 0, position) + 1
    head = text[start:position]
    number = text.count("\n", 0, position) + 1
    return Mutant(kind, name, number, head + before, head + after)


def _start_of_line(text: str, line: int) -> int:
    return sum(len(x) for x in text.splitlines(keepends=True)[: line - 1])
