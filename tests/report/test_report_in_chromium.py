"""The page in a real browser: every figure draws, no script fails, no hostile name runs."""

import re
import shutil
import subprocess

import pytest

from equigeo.report import render_report
from tests.report.results import HOSTILE, hostile_results

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path")

# Errors and dialogs are written into the document, where --dump-dom shows them.
_WATCH = """<script>
const note = text => document.documentElement.setAttribute('data-problem', text);
addEventListener('error', e => note(e.message || 'resource failed'), true);
addEventListener('unhandledrejection', e => note(String(e.reason)));
document.addEventListener('securitypolicyviolation', e => note('policy: ' + e.blockedURI));
window.alert = text => note('alert ' + text);
</script>"""
_PROBE = """<script>addEventListener('load', () => setTimeout(() => {
  const select = document.getElementById('coloring');
  const colors = () => document.getElementById('shape-0').data[0].facecolor.join();
  const last = colors();
  select.value = 'attention in block 2';
  select.dispatchEvent(new Event('change'));
  const root = document.documentElement;
  root.setAttribute('data-recolored', String(colors() !== last));
  const keys = [...document.querySelectorAll('p.key')].filter(key => key.offsetHeight > 0);
  root.setAttribute('data-keys', keys.map(key => key.dataset.kind).join());
  root.setAttribute('data-overflow', String(root.scrollWidth > innerWidth));
  root.setAttribute('data-canvases', document.querySelectorAll('.shapes canvas').length);
  root.setAttribute('data-webgl', String(!/WebGL is not supported/.test(document.body.innerText)));
}, 3000));</script>"""


def _open(page, tmp_path, *options):
    file = tmp_path / "report.html"
    file.write_text(page, encoding="utf-8")
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
        f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1100,3000",
        "--virtual-time-budget=15000", *options, file.as_uri(),
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout


def _probed():
    page = render_report(hostile_results())
    return page.replace("<head>", f"<head>{_WATCH}", 1).replace("</body>", f"{_PROBE}</body>", 1)


@pytest.fixture(scope="module")
def dom(tmp_path_factory):
    return _open(_probed(), tmp_path_factory.mktemp("browser"), "--dump-dom")


def _root(dom, name):
    found = re.search(rf'<html[^>]* data-{name}="([^"]*)"', dom)
    return found[1] if found else None


def test_no_script_fails_and_no_name_runs(dom):
    assert _root(dom, "problem") is None


def test_every_figure_is_drawn(dom):
    curves = dom.split('id="curves"')[1].split("<figcaption>")[0]
    assert curves.count('class="trace scatter') == 3
    confusion = dom.split('id="confusion"')[1].split("<figcaption>")[0]
    assert "<image" in confusion or 'class="heatmaplayer' in confusion
    assert "&lt;script&gt;alert(1)" in confusion
    assert _root(dom, "webgl") == "true"
    assert int(_root(dom, "canvases") or 0) >= 2


def test_the_selector_recolours_the_shapes(dom):
    assert _root(dom, "recolored") == "true"
    assert _root(dom, "keys") == "attention"  # of what is shown, and of nothing else


@pytest.mark.full
def test_a_narrow_window_is_not_wider_than_it_is(dom, tmp_path):
    # wider than a phone: headless Chromium has no narrower window
    narrow = _open(_probed(), tmp_path, "--window-size=500,3000", "--dump-dom")
    assert _root(dom, "overflow") == _root(narrow, "overflow") == "false"


def test_a_hostile_page_is_noticed(tmp_path):
    # Control: the same names without escapes do run, and are seen
    page = f"<!DOCTYPE html><html><head>{_WATCH}</head><body>{''.join(HOSTILE)}</body></html>"
    assert _root(_open(page, tmp_path, "--dump-dom"), "problem") is not None


@pytest.mark.full
def test_a_screenshot_is_not_blank(tmp_path):
    page = render_report(hostile_results())
    image = tmp_path / "report.png"
    _open(page, tmp_path, f"--screenshot={image}")
    assert image.stat().st_size > 50_000
