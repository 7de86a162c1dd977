"""Text tables of results for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from equigeo._text import printable
from equigeo.tasks.measures.copy_result import CopyResult


def class_table(
    classes: Sequence[str],  # sanitised here
    confusion: Sequence[Sequence[int]],  # (true class, predicted class)
    samples: str,  # plural noun
) -> str:
    """Format the correct predictions per class as a table."""
    names = [printable(name) for name in classes]
    width, column = max(5, *map(len, names)), max(6, len(samples))
    lines = [f"{'class':<{width}}  correct  {samples:>{column}}  accuracy"]
    for i, (name, row) in enumerate(zip(names, confusion, strict=True)):
        if sum(row):
            share = f"{row[i] / sum(row):8.1%}"
            lines.append(f"{name:<{width}}  {row[i]:7d}  {sum(row):{column}d}  {share}")
    correct, total = sum(row[i] for i, row in enumerate(confusion)), sum(map(sum, confusion))
    share = f"{correct / total:8.2%}"
    lines.append(f"{'all':<{width}}  {correct:7d}  {total:{column}d}  {share}")
    return "\n".join(lines)


def copies_table(
    copies: Sequence[CopyResult],
    logit_changes: Mapping[str, float] | None = None,  # by kind of copy: one more column
) -> str:
    """Format the effect of transformations as a table."""
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
