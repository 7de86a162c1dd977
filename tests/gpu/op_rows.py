"""Rows of the op table on a device, against the reference implementation on the CPU."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from equigeo.ops.runtime.declare import reads_bfloat16
from tests.ops.op_table import OPS
from tests.ops.problems import PROBLEMS, SMALL
from tests.ops.simulated_cases import Case, references, results, selected
from tests.ops.test_ops import DTYPES


def op_names(select: Sequence[str] = ()) -> list[str]:
    """Rows of which a case is selected."""
    return list(dict.fromkeys(str(case.op) for case in selected(all_cases(), select)))


def check_ops(
    device: torch.device, select: Sequence[str] = (), names: Sequence[str] | None = None
) -> dict[str, Any]:
    """Values and two orders of gradients of every row, problem and dtype, twice."""
    rows: dict[str, dict[str, Any]] = {}
    failures = []
    for case in selected(all_cases(), select):
        name, op = str(case), case.op
        if names is not None and str(op) not in names:
            continue
        row = rows.setdefault(
            str(op), {"cases": 0, "largest share of the tolerance": 0.0, "where": "", "unequal": []}
        )
        row["cases"] += 1
        try:
            share, same = check_case(case, device)
        except RuntimeError as error:  # a launch that fails may end all that follow: say where
            failures.append(f"{name}: {error}")
            continue
        if not share <= row["largest share of the tolerance"]:
            row["largest share of the tolerance"], row["where"] = share, name
        if not share <= 1:
            failures.append(f"{name}: {share:.3g} times what is tolerated")
        if not (same or op.blas):
            row["unequal"].append(name)
            failures.append(f"{name}: two runs give different bits")
    return {"rows": rows, "failures": failures}


def all_cases() -> Iterator[Case]:
    """Every row with every problem at its full size, in all dtypes that kernels have."""
    for op in OPS:
        for problem in op.problems([SMALL, *PROBLEMS]):
            for dtype in (*DTYPES, torch.bfloat16) if reads_bfloat16(op.name) else DTYPES:
                yield Case(op, problem, dtype)


def check_case(case: Case, device: torch.device) -> tuple[float, bool]:
    """Largest error in units of what is tolerated, and whether two runs give the same bits."""
    first, again = results(case, device), results(case, device)
    groups = references(case)
    # Every kernel is an op, so that values are made by kernels alone. Gradients may have sums of
    # PyTorch's own, which on a card have no order.
    pairs = list(zip(first, again, strict=True))[: len(groups[0])]
    same = all(torch.equal(x.nan_to_num(), y.nan_to_num()) for x, y in pairs)
    want = [x.detach() for group in groups for x in group]
    return max(map(case.share, first, want), default=0.0), same
