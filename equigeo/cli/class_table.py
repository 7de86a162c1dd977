"""Accuracy by class, as text."""

from __future__ import annotations

from collections.abc import Sequence

from equigeo.cli.printable import printable


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
