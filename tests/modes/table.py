"""All rows and columns of the mode matrix, and the page that shows them.

``python -m tests.modes.table --write`` writes the page anew.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from tests.modes import deployment, derivatives, programs
from tests.modes.affine_rows import affine_rows
from tests.modes.cloud_rows import cloud_rows
from tests.modes.mesh_rows import mesh_rows
from tests.modes.op_rows import op_rows
from tests.modes.potential_rows import potential_rows
from tests.modes.product_rows import product_rows
from tests.modes.row import Row
from tests.modes.unsupported import reason

ROWS: list[Row] = [
    *product_rows(),
    *affine_rows(),
    *mesh_rows(),
    *potential_rows(),
    *cloud_rows(),
    *op_rows(),
]
COLUMNS: list[Callable[[Row], None]] = [
    *derivatives.COLUMNS,
    *programs.COLUMNS,
    *deployment.COLUMNS,
]
PAGE = Path(__file__).parents[2] / "docs" / "modes.md"

_HEAD = """# What works in which mode

Every public layer and every op, in every mode in which PyTorch can use it. A cell passes where the
mode gives what plain eager mode gives; `tests/modes` runs all of them. A number stands for a note
below: what is not supported raises an error, and never gives other numbers. A dash stands for a
program that takes too long to be compiled at every run.

"""


_HALF = """
## Half precision

bfloat16 and float16 are formats to store numbers in, on every device and in every op: what is
computed is computed in float32, and results and gradients are rounded once. Tables and sums have
float32 all the way. Under `torch.autocast`, layers of geometry compute in float32 whatever their
inputs are stored in; linear layers and networks follow PyTorch. Gradients arrive in the dtype of
the input that they belong to.

## Older PyTorch

The table is that of PyTorch 2.13. Two backward passes through images, of `affine.MomentFrame` and
`affine.AffineResNet`, need a PyTorch newer than 2.11, whose interpolation has no second derivative.
"""


def page() -> str:
    """The table as Markdown; all rows of one op are one line."""
    notes: list[str] = []
    lines: dict[str, list[set[str]]] = {}
    for row in ROWS:
        name = row.name if not row.name.startswith("ops.") else f"ops.{row.covers}"
        cells = lines.setdefault(name, [set() for _ in COLUMNS])
        for cell, column in zip(cells, COLUMNS, strict=True):
            why = reason(row.name, column.__name__)
            if not programs.is_tried(row, column, ROWS):
                cell.add("–")
            elif why is not None:
                notes += [why] if why not in notes else []
                cell.add(str(notes.index(why) + 1))
            else:
                cell.add("✓")
    names = [column.__name__.replace("_", " ") for column in COLUMNS]
    table = [
        "| | " + " | ".join(names) + " |",
        "|---" * (len(names) + 1) + "|",
        *(
            f"| `{name}` | " + " | ".join(_cell(c) for c in cells) + " |"
            for name, cells in lines.items()
        ),
    ]
    meaning = [
        f"- **{name}**: {(column.__doc__ or '').splitlines()[0]}"
        for name, column in zip(names, COLUMNS, strict=True)
    ]
    listed = [f"{number}. {why}." for number, why in enumerate(notes, 1)]
    share = f"{share_that_passes():.1%} of {len(tried())} cells pass."
    return _HEAD + "\n".join([share, "", *meaning, "", *table, "", *listed]) + "\n" + _HALF


def _cell(found: set[str]) -> str:
    """What rows of one line have: a note of any, or a check of any that is tried."""
    return ",".join(sorted(found - {"✓", "–"})) or min(found, key="✓–".index)


def tried() -> list[str | None]:
    """Reasons of all cells that are tried at every run, None of those that pass."""
    return [
        reason(row.name, column.__name__)
        for row in ROWS
        for column in COLUMNS
        if programs.is_tried(row, column, ROWS)
    ]


def share_that_passes() -> float:
    """Of the cells that are tried."""
    cells = tried()
    return cells.count(None) / len(cells)


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(page())
    share = f"{len(ROWS)} rows, {len(COLUMNS)} columns, {share_that_passes():.1%} pass"
    sys.stdout.write(share + "\n")
