"""Results as text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from equigeo._text import printable
from equigeo.tasks.measures.copy_result import CopyResult


def class_table(classes: Sequence[str], confusion: Sequence[Sequence[int]], samples: str) -> str:
    """Lay out how many samples of each class are classified correctly.

    Parameters
    ----------
    classes : sequence of str
        Class names; data, made safe here.
    confusion : sequence of sequence of int
        Samples by true class (row) and predicted class (column).
    samples : str
        What they are, in the plural.

    Examples
    --------
    >>> print(class_table(["cat", "dog"], [[3, 1], [0, 6]], "images"))
    class  correct  images  accuracy
    cat          3       4     75.0%
    dog          6       6    100.0%
    all          9      10    90.00%
    """
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
