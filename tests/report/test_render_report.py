import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import combinations

import pytest

from equigeo.report import render_potential_report, render_report
from equigeo.report.html import escape_json
from equigeo.report.plots import attention_color, colorings, distinct_color, hexadecimal, part_color
from equigeo.report.potential import learning_curve, parity_figure
from tests.report.results import HOSTILE, hostile_results, segmentation_results
from tests.wrong_inputs import refused

ALLOWED = {
    "html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "table", "thead", "tbody",
    "tr", "th", "td", "code", "figure", "figcaption", "div", "script", "b", "br", "span", "label",
    "select", "option",
}  # fmt: skip


class _Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text, self.scripts = [], [], [], []
        self._in_script = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        self._in_script = tag == "script"
        if self._in_script:
            self.scripts.append("")

    def handle_endtag(self, tag):
        self._in_script = False

    def handle_data(self, data):
        if self._in_script:
            self.scripts[-1] += data
        else:
            self.text.append(data)


@pytest.fixture(scope="module")
def html():
    return render_report(hostile_results())


@pytest.fixture(scope="module")
def page(html):
    return _Page(html)


def test_hostile_names_are_shown_as_they_are_and_do_nothing(page, html):
    assert set(page.tags) <= ALLOWED
    assert page.tags.count("script") == 2 + 4 + 1  # library, drawing; figures; cluster colors
    assert not [a for a in page.attributes if a[1].startswith("on") or a[1] == "src"]
    shown = "".join(page.text)
    for name in HOSTILE:
        assert name in shown
    for name in HOSTILE:
        assert name not in html
    contents = [a[2] for a in page.attributes if a[:2] == ("meta", "content")]
    assert "default-src 'none'" in contents[0]
    assert not re.search(r"<(link|iframe|object|embed|base)\b", html.split("<script>")[0])


def test_data_scripts_hold_json_without_a_tag(page):
    data = [s for s in page.scripts if s.startswith("{")]
    assert len(data) == 5
    for script in data:
        assert "<" not in script
        json.loads(script)
    value = {"a": [1, 2.5, None, "</script><!--", "\u2028"]}
    assert json.loads(escape_json(value)) == value


def test_numbers_and_scales_reach_the_page(page, html):
    assert html.count("wrong, true class") == 1
    shown = " ".join(page.text)
    for expected in ("50.0%", "100.0%", "1.0e-06", "87.5%", "4 → 3 → 2"):
        assert expected in shown
    shown = " ".join("".join(page.text).split())
    assert "0.5 or less 1 1.5 or more" in shown
    assert "does not show which faces decide" in shown


def _options(html):
    return re.findall(r"<option [^>]*>([^<]*)</option>", html)


def test_colours_have_a_selector_and_keys_the_coarsest_first(html):
    assert _options(html) == [
        "clusters after pooling 2",
        "clusters after pooling 1",
        "attention in block 2",
        "attention in block 1",
        "none",
    ]
    assert re.findall(r'<p class="key" data-kind="(\w+)"( hidden)?>', html) == [
        ("clusters", ""),
        ("attention", " hidden"),
    ]
    segmented = render_report(segmentation_results())
    kinds = re.findall(r'<p class="key" data-kind="(\w+)"( hidden)?>', segmented)
    assert [kind for kind, hidden in kinds if not hidden] == ["parts"]
    assert {"errors", "clusters", "attention"} <= {kind for kind, _ in kinds}


def first_figure(page):
    return json.loads(re.search(r'data-target="shape-0">([^<]*)<', page)[1])["layout"]


def test_a_single_shape_is_larger_and_an_unfamiliar_one_marked():
    results = hostile_results()
    several = render_report(results)
    results["shapes"] = results["shapes"][:1]
    one = render_report(results)
    assert first_figure(one)["height"] > first_figure(several)["height"]
    assert 'class="shapes one"' in one
    assert 'class="shapes one"' not in several
    assert "resembles nothing" not in one
    results["shapes"][0]["unfamiliar"] = True
    assert render_report(results).count("resembles nothing it was trained on") == 1


@pytest.mark.parametrize("flat", [0, 1, 2])
def test_a_flat_shape_has_axes_of_some_extent(flat):
    results = hostile_results()
    for row in results["shapes"][0]["vertices"]:
        row[flat] = 7.0
    scene = first_figure(render_report(results))["scene"]
    assert min(scene["aspectratio"].values()) > 0
    for axis in "xyz":
        low, high = scene[f"{axis}axis"]["range"]
        assert low < high


def test_parts_are_shown_with_their_names_and_errors():
    results = segmentation_results()
    page = render_report(results)
    assert _options(page)[:3] == ["predicted parts", "labelled parts", "errors"]
    assert page.count('class="patch"') == len(HOSTILE) + 3  # right, wrong, without a label
    assert "Number of evaluated faces" in page
    assert "50.0% of the faces right" in page
    assert "Misclassified meshes" not in page
    for name in HOSTILE:
        assert name not in page
    for shape in results["shapes"]:
        del shape["labelled_parts"], shape["accuracy"]
    assert "errors" not in _options(render_report(results))


def test_figures_name_what_was_counted_and_evaluated():
    page = _Page(render_report(segmentation_results() | {"evaluated_part": "held-out"}))
    figures = "".join(page.scripts)
    assert "faces: %{z}" in figures
    assert "meshes: %{z}" not in figures
    assert '"name": "held-out"' in figures
    assert '"name": "test"' not in figures
    text = "".join(page.text)
    assert "none was selected by its held-out accuracy" in text
    other = _Page(render_report(hostile_results() | {"measure": "a mean"}))
    figures = "".join(other.scripts)
    assert "meshes: %{z}" in figures
    assert '"name": "test"' in figures
    assert '"a mean"' in figures


def test_sections_and_selectors_without_results_are_left_out():
    results = hostile_results()
    for name in ("history", "confusion", "copies", "shapes"):
        del results[name]
    shown = _Page(render_report(results))
    assert "h2" not in shown.tags
    assert "figure" not in shown.tags
    results = hostile_results()
    for shape in results["shapes"]:
        shape["levels"], shape["attention"] = [], []
    shown = _Page(render_report(results))
    assert "select" not in shown.tags
    assert "no pooling" in " ".join(shown.text)


def test_missing_fields_and_infinite_numbers_are_refused():
    results = hostile_results()
    results["history"][0]["loss"] = float("inf")
    refused("JSON", render_report, results)
    del results["facts"]
    refused("facts", render_report, results, error=KeyError)


def test_reports_need_nothing_else_of_the_library():
    source = (
        "import sys, equigeo.report as r; "
        "loaded = {m.split('.')[1] for m in sys.modules if m.startswith('equigeo.')}; "
        "assert loaded == {'_core', 'report'}, loaded; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", source], check=True)


RESULTS = {
    "title": "Interatomic potential",
    "lead": "of <ethanol>",
    "command": "equigeo evaluate",
    "facts": [("data", "<b>rMD17</b>")],
    "warning": "not the official frames",
    "unit": "meV/A",
    "history": [
        {"seconds": 60.0, "train_error": 50.0, "validation_error": None},
        {"seconds": 60.0, "train_error": 20.0, "validation_error": 18.0},
    ],
    "sets": {"<test>": {"frames": 9, "force MAE (meV/A)": 9.5}},
    "species": {"<test>": {"H": {"atoms": 54.0, "MAE": 8.0, "RMSE": 11.0}}},
    "parity": {"<test>": {"energy": [[0.0, 0.1]], "forces": [[0.0, 0.1], [1.0, 0.9]]}},
}


def test_sections_of_potentials_without_content_are_left_out_and_others_escaped():
    page = render_potential_report(RESULTS)
    for title in ("Errors", "Predictions and labels", "Learning curve", "forces by element"):
        assert f"{title}</h2>" in page
    assert "not the official frames" in page
    body = page.split("<body>")[1].split("<script>")[0]
    assert "<test>" not in body
    assert "<b>" not in body
    assert "&lt;test&gt;" in body
    page = render_potential_report({"title": "t", "lead": "", "facts": [], "sets": {}})
    assert "<h2>" not in page
    bare = RESULTS | {"parity": {"test": {"energy": [[0.0, 0.1]], "forces": []}}}
    assert "parity-forces" not in render_potential_report(bare)
    with pytest.raises(KeyError):
        render_potential_report({"title": "t"})


def test_curves_and_parity_show_what_is_known():
    training, validation = learning_curve(RESULTS["history"], "meV/A").data
    assert (list(training.x), list(training.y)) == ([1.0, 2.0], [50.0, 20.0])
    assert (list(validation.x), list(validation.y)) == ([2.0], [18.0])
    line, points = parity_figure({"<a>": [[0.0, 0.1], [2.0, 1.9]]}, "energy (eV)").data
    assert list(line.x) == list(line.y) == [0.0, 2.0]
    assert (points.name, list(points.y)) == ("&lt;a&gt;", [0.1, 1.9])


def test_twelve_colours_are_told_apart_and_without_saturation_everything_is_grey():
    colors = [distinct_color(number, 0.6) for number in range(12)]
    assert all(0 <= channel <= 255 for color in colors for channel in color)
    # a difference of 20 in one channel is seen where colors touch
    gaps = [max(abs(a - b) for a, b in zip(*pair, strict=True)) for pair in combinations(colors, 2)]
    assert min(gaps) >= 20
    assert len(set(distinct_color(7, 0.0))) == 1
    assert hexadecimal((0, 10, 255)) == "#000aff"


SHAPE = {"faces": [[0, 1, 2]] * 4, "levels": [[0, 0, 1, 2], [0, 0, 1, 1]]}


def _colors(shape, name):
    return colorings(shape)[name].colors


def test_clusters_errors_and_parts_have_their_colours_in_every_shape():
    fine, coarse = (_colors(SHAPE, f"clusters after pooling {number}") for number in (1, 2))
    assert fine[0] == fine[1] != fine[2] == fine[3]
    assert coarse[0] == coarse[1] != coarse[2] == coarse[3] != fine[2]
    seen = SHAPE | {"predicted_parts": [0, 1, 1, 1], "labelled_parts": [0, 1, 0, -1]}
    errors = _colors(seen, "errors")
    assert errors[0] == errors[1]
    assert len(set(errors)) == 3
    some, others = ({"predicted_parts": parts} for parts in ([0, 1, 2, 3], [3, 2, 1, 0]))
    first = _colors(SHAPE | some, "predicted parts")
    assert first == _colors(SHAPE | others, "predicted parts")[::-1]
    assert len(set(first)) == 4
    assert len(set(part_color(-1))) == 1


def test_attention_has_a_colour_of_its_own_on_both_sides_of_an_even_one():
    shape = SHAPE | {"attention": [[0.2, 0.8, 1.0, 1.2], [0.9, 1.0, 1.1, 3.0]]}
    names = [name for name, one in colorings(shape).items() if one.kind == "attention"]
    assert names == ["attention in block 2", "attention in block 1"]  # the coarsest first
    assert len(set(_colors(shape, "attention in block 1"))) == 4
    assert _colors(shape, "attention in block 2")[1] == _colors(shape, "attention in block 1")[2]


def test_little_attention_is_blue_and_much_is_red():
    for value, strongest in ((0.5, 2), (0.8, 2), (1.2, 0), (1.5, 0)):
        color = attention_color(value)
        assert color[strongest] == max(color) > min(color)
    assert attention_color(0.0) == attention_color(0.5) != attention_color(0.6)
    assert attention_color(9.0) == attention_color(1.5) != attention_color(1.4)
