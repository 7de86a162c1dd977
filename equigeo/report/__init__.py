"""Self-contained HTML reports of plain results."""

from equigeo.report.potential import render_potential_report
from equigeo.report.render import render_report

__all__ = ["render_potential_report", "render_report"]
__dir__ = __all__.copy
