"""What loading did to the meshes of a data set, for a terminal."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict

from equigeo._text import printable, shorten
from equigeo.mesh import LoadReport

_log = logging.getLogger(__name__)

_MUCH = 0.01  # share of the area of a mesh, beyond which its loss is worth a warning
_NAMED = 3  # meshes that the warning names
_LONGEST = 100  # characters of a name


def repair_summary(reports: Sequence[LoadReport]) -> str:
    """Count the repairs of a data set on one line; empty where there were none.

    Parameters
    ----------
    reports : sequence of LoadReport
        Of all meshes, or of none.

    Examples
    --------
    >>> repair_summary([])
    ''
    """
    repaired = [report for report in reports if not report.is_clean]
    if not repaired:
        return ""
    totals: dict[str, int] = {}
    for report in repaired:
        for action, count in asdict(report.counts).items():
            totals[action] = totals.get(action, 0) + count
    listed = ", ".join(f"{action.replace('_', ' ')} {n}" for action, n in totals.items() if n)
    return f"{len(repaired)} of {len(reports)} meshes repaired ({listed})"


def warn_of_lost_area(names: Sequence[str], reports: Sequence[LoadReport]) -> None:
    """Log one warning where meshes lack more than 1 % of the area of their files.

    Parameters
    ----------
    names : sequence of str
        Of all meshes; data, made safe here.
    reports : sequence of LoadReport
        Of all meshes, or of none.

    Examples
    --------
    >>> warn_of_lost_area(["cat/train/1.obj"], [])
    """
    if not reports:
        return
    pairs = zip(names, reports, strict=True)
    lossy = [(report.lost_area, name) for name, report in pairs if report.lost_area > _MUCH]
    if lossy:
        lossy.sort(key=lambda pair: (-pair[0], pair[1]))
        worst = (f"{printable(shorten(n, _LONGEST))} {share:.1%}" for share, n in lossy[:_NAMED])
        _log.warning(
            "%d of %d meshes lack more than %.0f %% of the area of their files, most of all %s; "
            "repair these files, or load them alone to see what was dropped",
            len(lossy), len(reports), 100 * _MUCH, ", ".join(worst),
        )  # fmt: skip
