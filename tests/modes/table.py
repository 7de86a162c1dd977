"""Rows and columns of the mode matrix, which cells run, and the page that describes them.

``python -m tests.modes.table --write`` writes the page.
"""

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path

import torch
from torch import Tensor, nn

from equigeo.ops.runtime.declare import SCHEMAS
from tests.modes import deployment, derivatives, programs
from tests.modes.affine_rows import affine_rows
from tests.modes.graph_rows import attention_rows, cloud_rows, mesh_rows, potential_rows
from tests.modes.product_rows import product_rows
from tests.modes.row import Row
from tests.modes.unsupported import reason
from tests.ops.op import Op
from tests.ops.op_table import OF_PYTORCH
from tests.ops.problems import SMALL
from tests.tier import FULL

Column = Callable[[Row], None]


def op_rows() -> list[Row]:
    """Return a row per op and, in the full tier, per set of missing operands."""
    ops = {(op.name, op.missing if FULL else ()): op for op in reversed(OF_PYTORCH)}
    return [_row(op) for op in reversed(ops.values())]


def _row(op: Op) -> Row:
    rest = [x.double() if x.is_floating_point() else x for x in op.rest(SMALL.graph())]
    inputs = partial(_features, op)
    return Row(f"ops.{op}", nn.Identity, inputs, partial(_call, op, rest), op.name, rows=False)


def _features(op: Op) -> tuple[Tensor, ...]:
    return tuple(op.features(SMALL, torch.float64))


def _call(op: Op, rest: list[Tensor], _: nn.Module, *features: Tensor) -> object:
    """Fixed tables have the dtype in which features are computed, as those of layers do."""
    dtype, device = features[0].dtype, features[0].device
    return op.call(*features, *(x.to(device) for x in op.tables(rest, dtype)))


ROWS: list[Row] = [
    *product_rows(),
    *affine_rows(),
    *mesh_rows(),
    *attention_rows(),
    *potential_rows(),
    *cloud_rows(),
    *op_rows(),
]
COLUMNS: list[Column] = [*derivatives.COLUMNS, *programs.COLUMNS, *deployment.COLUMNS]
PAGE = Path(__file__).parents[2] / "docs" / "modes.md"
EVERY = os.environ.get("EQUIGEO_MODES") == "full"
"""Whether every row is compiled to machine code, which takes hours."""

# The op table checks these for every row: values, dtypes, strides, two orders of gradients, shapes.
OP_TABLE = ("backward", "double_backward", "float32", "bfloat16", "strided", "meta", "empty")
# Layers that energies are made of, whose forces are trained; programs of networks take minutes.
TWICE = ("nn.", "tensor_products.")
# Of each family, layers whose programs differ from the others'.
PACKAGED = {
    "nn.Gate",  # PyTorch's own ops alone
    "tensor_products.TensorProduct",  # paths of every kind
    "tensor_products.GauntTensorProduct by Fourier series",  # complex numbers
    "tensor_products.ChannelwiseConv of an EdgeIndex",  # graphs
    "tensor_products.SymmetricContraction",  # lists of numbers as arguments
    "affine.SeparableGroupConv",  # images
    "affine.MomentFrame",  # interpolation
    "affine.PointGroupConv",  # searches
    "mesh.PrimalDualConv",  # two graphs at once
    "mds.embed",  # decompositions
    "points.PointNetPlusPlus",  # loops
    "mds.AttentionModel",  # choices that feed the next
}
# PyTorch's own ops, an op in a layer, and an op with two results and an optional gradient.
# Compiling two orders of gradients takes a minute per layer.
COMPILED = {"nn.Gate", "tensor_products.ChannelwiseConv of an EdgeIndex", "ops.segment_attention"}
PER_FAMILY = PACKAGED | COMPILED
# What the fast tier compiles: seconds each. Programs with images or searches take half a minute.
QUICK = COMPILED | {
    "tensor_products.TensorProduct",
    "tensor_products.SymmetricContraction",
    "mesh.PrimalDualConv",
    "mds.embed",
}
# Networks of layers that have rows of their own, and siblings of other layers.
NETWORKS = {
    "affine.AffinePointNet",
    "affine.AffineResNet",
    "affine.LiftConv",
    "affine.PointGroupConv",
    "affine.PointLiftConv",
    "affine.ProjectConv",
    "affine.SeparableGroupConv",
    "mds.AttentionModel",
    "points.DGCNN",
    "mds.InvariantPointNet",
    "points.PointNet",
    "points.PointNetPlusPlus",
    "points.PointTransformer",
    "mesh.PrimalDualClassifier",
    "mesh.PrimalDualFieldConv",
    "mesh.PrimalDualSegmenter",
    "mesh.ResidualBlock",
    "potentials.MessagePassingPotential",
}
# A descent per call takes seconds; these modes differ most from those of other layers.
OF_DESCENTS = (
    *("backward", "double_backward", "forward_mode", "vmap", "meta", "exported", "bfloat16"),
)


def _has_meaning(row: Row, column: Column) -> bool:
    """Return whether a cell has a meaning."""
    name, op = column.__name__, row.covers in SCHEMAS
    if op and name in (*OP_TABLE, "float16_at_300"):
        return False
    if name == "compiled_double_backward":
        return op or row.name.startswith(TWICE)
    return row.rows if name == "empty" else name != "copied" or not row.is_function


def _runs(row: Row, column: Column) -> bool:
    """Return whether the tier runs a cell that has a meaning."""
    name, op = row.name, row.covers in SCHEMAS
    first = row is next(other for other in ROWS if other.covers == row.covers)
    per_family, quick, compiled = name in PER_FAMILY, name in QUICK, name in COMPILED
    layer = first and not op and name not in NETWORKS
    in_package = name in PACKAGED or (op and first)
    # Whether the fast and the full tier run a cell; all others are run by both.
    fast, full = {
        # `hessian` computes these for every row.
        derivatives.jacrev: (per_family, True),
        derivatives.forward_over_reverse: (per_family, True),
        programs.exported: (per_family, True),
        # opcheck traces the same.
        programs.compiled: (quick, True),
        deployment.after_transforms: (quick, True),
        programs.compiled_double_backward: (quick or EVERY, quick or first or EVERY),
        programs.compiled_grad: (compiled, quick or (first and not op)),
        programs.inductor: (compiled or EVERY, compiled or EVERY),
        programs.aot_inductor: (in_package or EVERY, in_package or EVERY),
        deployment.default_device: (layer, True),
        deployment.after_inference: (layer, True),
        # Processes and threads cost seconds.
        deployment.threads: (op or per_family, True),
        deployment.forked: (op or per_family, True),
    }.get(column, (True, True))
    if row.covers == "mds.Canonicalized":
        fast = column.__name__ in OF_DESCENTS
    return full if FULL else fast


def cells() -> Iterator[tuple[Row, Column, str | None]]:
    """Yield rows and columns of all cells that run, and why a cell is not supported."""
    for row, column in product(ROWS, COLUMNS):
        if _has_meaning(row, column) and _runs(row, column):
            yield row, column, reason(row.name, column.__name__)


GROUPS: dict[str, list[Column]] = {
    "gradients": derivatives.COLUMNS[:5],
    "func": derivatives.COLUMNS[5:],
    "compile": [
        programs.compiled,
        programs.compiled_double_backward,
        programs.compiled_grad,
        programs.inductor,
    ],
    "export": [programs.exported, programs.aot_inductor],
    "dtypes": deployment.COLUMNS[:5],
    "environment": deployment.COLUMNS[5:],
}

_HEAD = """# Modes: what every layer supports

`tests/modes` runs every public layer and every op in the modes below and compares the result with
eager mode. An unsupported mode raises an error; no mode returns different values.

A check mark means that every layer of the package passes every mode of the group; letters refer to
the exceptions. The groups func, compile and export are modes of `torch.func`, `torch.compile` and
`torch.export`.

"""

_HALF = """
## Half precision

bfloat16 and float16 are storage formats on every device and in every op. Ops compute in float32 and
round results and gradients once; tables and sums are float32. Networks round the features between
layers, and convolutions round their kernels. Under `torch.autocast`, geometric layers compute in
float32 for every input dtype; linear layers and networks follow PyTorch. A gradient has the dtype
of its input.

## Older PyTorch

The tables are for PyTorch 2.13. Second-order gradients of `affine.MomentFrame` and
`affine.AffineResNet` require a PyTorch newer than 2.11, because its interpolation has no second
derivative.
"""


def _exceptions() -> dict[str, tuple[list[Row], set[str]]]:
    """Return rows and columns of unsupported cells by reason."""
    found: dict[str, tuple[list[Row], set[str]]] = {}
    for row, column in product(ROWS, COLUMNS):
        why = reason(row.name, column.__name__)
        if why and _has_meaning(row, column):
            rows, columns = found.setdefault(why, ([], set()))
            columns.add(column.__name__)
            if row not in rows:
                rows.append(row)
    return found


def _names(rows: list[Row]) -> str:
    """Format the rows, by package; layers of which every row is listed without the option."""
    packages: dict[str, list[str]] = {}
    for row in rows:
        package, _, name = row.name.partition(".")
        if all(other in rows for other in ROWS if other.covers == row.covers):
            name = row.covers.removeprefix(f"{package}.")
        names = packages.setdefault(package, [])
        if name not in names:
            names.append(name)
    return "; ".join(f"`{package}`: {', '.join(names)}" for package, names in packages.items())


def _modes(columns: set[str]) -> str:
    """Format the columns, whole groups by their heading."""
    parts = []
    for group, members in GROUPS.items():
        names = [each.__name__ for each in members]
        inside = [name.replace("_", " ") for name in names if name in columns]
        parts += [group] if len(inside) == len(names) else inside
    return ", ".join(parts)


def page() -> str:
    """Return the page as Markdown."""
    exceptions = {
        letter: (why, *found)
        for letter, (why, found) in zip("abcdefghij", _exceptions().items(), strict=False)
    }
    lines = ["| package | " + " | ".join(GROUPS) + " |", "|---" * (1 + len(GROUPS)) + "|"]
    for package in dict.fromkeys(row.name.partition(".")[0] for row in ROWS):
        cells = []
        for members in GROUPS.values():
            names = {each.__name__ for each in members}
            letters = [
                letter
                for letter, (_, rows, columns) in exceptions.items()
                if names & columns and any(row.name.startswith(f"{package}.") for row in rows)
            ]
            cells.append(", ".join(letters) or "✓")
        lines.append(f"| `{package}` | " + " | ".join(cells) + " |")
    lines += ["", "| | layers | unsupported modes | reason |", "|---|---|---|---|"]
    for letter, (why, rows, columns) in exceptions.items():
        lines.append(f"| {letter} | {_names(rows)} | {_modes(columns)} | {why} |")
    lines += ["", "## Modes"]
    for group, members in GROUPS.items():
        lines += ["", f"### {group[:1].upper()}{group[1:]}", ""]
        lines += [
            f"- **{each.__name__.replace('_', ' ')}**: {(each.__doc__ or '').splitlines()[0]}"
            for each in members
        ]
    return _HEAD + "\n".join(lines) + "\n" + _HALF


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page())
    count = sum(1 for _ in cells())
    sys.stdout.write(f"{len(ROWS)} rows, {len(COLUMNS)} columns, {count} cells\n")
