"""Self-contained HTML reports, made from plain results and from nothing else of this library.

``render_report`` takes a dictionary of JSON types and returns one page that opens offline.
"""

from equigeo.report.render_report import render_report

__all__ = ["render_report"]


def __dir__() -> list[str]:
    return __all__
