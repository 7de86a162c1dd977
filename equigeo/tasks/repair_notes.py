"""Summary of mesh repairs for a terminal."""

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


def repair_summary(
    reports: Sequence[LoadReport],  # of all meshes, or empty
) -> str:
    """Return the repairs of a data set on one line; empty if there were none."""
    repaired = [report for report in reports if not report.is_clean]
    if not repaired:
        return ""
    totals: dict[str, int] = {}
    for report in repaired:
        for action, count in asdict(report.counts).items():
            totals[action] = totals.get(action, 0) + count
    listed = ", ".join(f"{action.replace('_', ' ')} {n}" for action, n in totals.items() if n)
    return f"{len(repaired)} of {len(reports)} meshes repaired ({listed})"


def warn_of_lost_area(
    names: Sequence[str],  # of all meshes, sanitised here
    reports: Sequence[LoadReport],  # of all meshes, or empty
) -> None:
    """Log one warning if meshes lack more than 1 % of the surface area of their files."""
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
