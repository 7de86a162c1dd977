"""Self-contained HTML reports, made from plain results and from nothing else of this library.

``render_report`` for classifiers and ``render_potential_report`` for interatomic potentials take a
dictionary of JSON types and return one page that opens offline.
"""

from equigeo.report.potential_report import render_potential_report
from equigeo.report.render_report import render_report

__all__ = ["render_potential_report", "render_report"]


def __dir__() -> list[str]:
    return __all__
