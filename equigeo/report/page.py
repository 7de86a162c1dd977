"""Page frame of a report: style, scripts and content security policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from equigeo.report.html import escape_json, escape_text
from equigeo.report.plots import get_plotlyjs, go

# Nothing may be fetched; plotly compiles its array loops and decodes images from memory.
_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:; worker-src blob:"
)

_STYLE: Final = """
:root { color: #222; background: #fff; }
body { font: 15px/1.5 system-ui, -apple-system, 'Segoe UI', sans-serif; max-width: 1040px;
  margin: 2rem auto; padding: 0 1.25rem; }
h1 { font-size: 1.7rem; margin: 0 0 .25rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .5rem; border-bottom: 1px solid #ddd;
  padding-bottom: .2rem; }
p.lead { margin: 0 0 1rem; color: #555; }
code { font: 13px/1.5 ui-monospace, Menlo, Consolas, monospace; background: #f4f4f4;
  padding: .1rem .3rem; overflow-wrap: anywhere; }
table { border-collapse: collapse; margin: .5rem 0; font-size: 14px; max-width: 100%; }
th, td { text-align: left; padding: .2rem .9rem .2rem 0; border-bottom: 1px solid #eee;
  vertical-align: top; overflow-wrap: break-word; }
td { max-width: 50rem; }
th { white-space: nowrap; color: #555; font-weight: 600; border-bottom-color: #bbb; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.columns { display: grid;
  grid-template-columns: repeat(auto-fit, minmax(min(400px, 100%), 1fr));
  gap: 0 2.5rem; align-items: start; }
.columns table { width: 100%; }
.columns td { max-width: 11rem; }
figure { margin: .5rem 0 1rem; }
figcaption { color: #555; font-size: 13.5px; overflow-wrap: anywhere; }
.shapes { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(min(460px, 100%), 1fr)); }
.shapes.one { grid-template-columns: 1fr; }
.shapes figure { border: 1px solid #e3e3e3; border-radius: 6px; padding: .6rem; margin: 0;
  min-width: 0; }
p.key { color: #555; font-size: 13.5px; min-height: 3.2em; }
p.key[hidden] { display: none; }
.named { white-space: nowrap; margin-right: .9em; }
.patch { display: inline-block; width: .8em; height: .8em; border-radius: 2px; }
.ramp { display: inline-flex; gap: .6em; align-items: center; color: #222; }
.bar { width: min(220px, 40vw); border-radius: 2px; text-align: center; }
.wrong { color: #b3261e; font-weight: 600; }
.warning { border-left: 4px solid #b3261e; background: #fbeeec; padding: .5rem .8rem; }
.plot { min-height: 300px; }
@media (max-width: 700px) { th { white-space: normal; } th, td { padding-right: .5rem; }
  td { overflow-wrap: anywhere; } }
@media print { body { max-width: none; margin: 0; } figure, table { break-inside: avoid; }
  h2 { break-after: avoid; } select { display: none; } }
"""

_DRAW: Final = """
for (const source of document.querySelectorAll('script.figure')) {
  const figure = JSON.parse(source.textContent);
  if (figure.layout.scene) {  // a shape fills the height, and shall not be cut off at the sides
    const width = document.getElementById(source.dataset.target).clientWidth;
    figure.layout.height = Math.min(figure.layout.height, width);
  }
  Plotly.newPlot(source.dataset.target, figure.data, figure.layout,
    {responsive: true, displaylogo: false, displayModeBar: false});
}
const coloring = document.getElementById('coloring');
if (coloring) {
  const colors = JSON.parse(document.getElementById('colorings').textContent);
  const show = () => {
    for (const [target, choices] of Object.entries(colors)) {
      if (choices[coloring.value]) {
        Plotly.restyle(target, {facecolor: [choices[coloring.value]]}, [0]);
      }
    }
    for (const key of document.querySelectorAll('p.key')) {
      key.hidden = key.dataset.kind !== coloring.selectedOptions[0].dataset.kind;
    }
  };
  coloring.addEventListener('change', show);
  show();
}
"""


def render_page(title: str, body: str) -> str:
    """Wrap the body of a report in a page with one embedded copy of plotly."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape_text(_POLICY)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape_text(title)}</title><style>{_STYLE}</style></head>\n<body>\n{body}\n"
        f"<script>{get_plotlyjs()}</script>\n<script>{_DRAW}</script>\n</body></html>\n"
    )


def render_heading(results: Mapping[str, Any]) -> str:
    """Render title, facts and warning of a report."""
    facts = "".join(
        f"<tr><th>{escape_text(name)}</th><td>{escape_text(value)}</td></tr>"
        for name, value in results["facts"]
    )
    command, warning = results.get("command"), results.get("warning")
    return (
        f"<h1>{escape_text(results['title'])}</h1>"
        f'<p class="lead">{escape_text(results["lead"])}</p>'
        + (f'<p class="warning">{escape_text(warning)}</p>' if warning else "")
        + f"<table>{facts}</table>"
        + (f"<p>Made by <code>{escape_text(command)}</code></p>" if command else "")
    )


def render_figure(name: str, figure: go.Figure, caption: str) -> str:
    """Render a figure; ``caption`` is HTML."""
    drawing = figure.to_plotly_json()
    content = escape_json({"data": _plain(drawing["data"]), "layout": _plain(drawing["layout"])})
    return (
        f'<figure><div class="plot" id="{name}"></div>'
        f'<script type="application/json" class="figure" data-target="{name}">{content}</script>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _plain(value: object) -> object:
    """Convert the tuples and arrays of a figure to JSON types."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
