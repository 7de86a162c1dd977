"""Results of a model of tours, as text."""

from __future__ import annotations

from equigeo.cli.printable import printable
from equigeo.training import DECODINGS, TourEvaluation


def tour_tables(evaluation: TourEvaluation) -> str:
    """Lay out gaps, what transformations change, and the instances of TSPLIB.

    Parameters
    ----------
    evaluation : TourEvaluation
        The results.

    Examples
    --------
    >>> print(tour_tables(TourEvaluation(20, 1000, 3.84, {"greedy": 3.92}, 0, [], [])))
    1000 instances of 20 cities, mean length of the shortest tours 3.8400
    tours                      length      gap
    greedy                     3.9200    2.08%
    """
    lines = [
        f"{evaluation.instances} instances of {evaluation.cities} cities, mean length of the "
        f"shortest tours {evaluation.optimal_length:.4f}",
        f"{'tours':<24}  {'length':>7}  {'gap':>7}",
    ]
    for name, length in evaluation.lengths.items():
        lines.append(f"{name:<24}  {length:7.4f}  {evaluation.gap(name):7.2%}")
    if evaluation.copies:
        lines += ["", f"{'copies':<14}  {'same tour':>9}  {'gap':>7}  {'flagged':>7}"]
    for copy in evaluation.copies:
        lines.append(f"{copy.kind:<14}  {copy.identical:9.2%}  {copy.gap:7.2%}  {copy.flagged:7d}")
    if evaluation.transfer:
        lines += ["", *_transfer(evaluation)]
    return "\n".join(lines)


def _transfer(evaluation: TourEvaluation) -> list[str]:
    """Give a line for every instance of TSPLIB, with gaps to the best known length."""
    lines = [f"{'TSPLIB':<10}  {'best':>8}  " + "  ".join(DECODINGS)]
    for entry in evaluation.transfer:
        gaps = (f"{entry.lengths[d] / entry.best - 1:{len(d)}.2%}" for d in DECODINGS)
        lines.append(f"{printable(entry.name):<10}  {entry.best:8d}  " + "  ".join(gaps))
    means = (f"{evaluation.transfer_gap(d):{len(d)}.2%}" for d in DECODINGS)
    return [*lines, f"{'mean':<20}  " + "  ".join(means)]
