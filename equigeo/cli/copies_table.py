"""Predictions on transformed copies, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from equigeo.training import CopyResult


def copies_table(
    copies: Sequence[CopyResult], logit_changes: Mapping[str, float] | None = None
) -> str:
    """Lay out what transformations change.

    Parameters
    ----------
    copies : sequence of CopyResult
        One line each.
    logit_changes : mapping, optional
        Relative change of the logits by kind of copy; one column more.

    Examples
    --------
    >>> print(copies_table([CopyResult("rotated", 0.5, ["a"], 0.01)]))
    copies          accuracy  changed  largest change of a probability
    rotated           50.00%        1  1.0e-02
    """
    last = "" if logit_changes is None else "  equivariance error"
    lines = [f"{'copies':<14}  accuracy  changed  largest change of a probability{last}"]
    for copy in copies:
        line = f"{copy.kind:<14}  {copy.accuracy:8.2%}  {len(copy.changed):7d}  "
        if logit_changes is None:
            lines.append(f"{line}{copy.largest_difference:.1e}")
        else:
            change = f"{logit_changes[copy.kind]:.1e}"
            lines.append(f"{line}{f'{copy.largest_difference:.1e}':<31}  {change}")
    return "\n".join(lines)
