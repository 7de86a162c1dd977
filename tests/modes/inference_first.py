"""What a process that begins with inference leaves behind: nothing that a gradient meets later.

Constants are computed once and kept. Those that are first asked for in inference mode must not be
tensors of it, which PyTorch refuses to record. Run by ``test_inference_first.py`` in a process of
its own: ``python -m tests.modes.inference_first``.
"""

from __future__ import annotations

import sys

import torch

from tests.modes.row import Row
from tests.modes.table import ROWS


def gradient_after_inference(row: Row) -> None:
    with torch.inference_mode():
        bound = row.bound()
        bound(*row.inputs())
    bound = row.bound()
    inputs = tuple(x.clone().requires_grad_() for x in row.inputs())
    results = [x for x in bound(*inputs) if x.requires_grad]
    torch.autograd.grad([x.sum() for x in results], inputs, allow_unused=True)


def main() -> None:
    """Print the rows that fail."""
    failed = 0
    for row in ROWS:
        try:
            gradient_after_inference(row)
        except Exception as error:
            failed += 1
            print(f"{row.name}: {type(error).__name__}: {error}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
