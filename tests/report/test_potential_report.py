import pytest

from equigeo.report import render_potential_report
from equigeo.report.potential_report import learning_curve, parity_figure

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


def test_every_section_is_there_and_every_name_escaped():
    page = render_potential_report(RESULTS)
    for title in ("Errors", "Predictions and labels", "Learning curve", "forces by element"):
        assert f"{title}</h2>" in page
    assert "not the official frames" in page
    body = page.split("<body>")[1].split("<script>")[0]
    assert "<test>" not in body
    assert "<b>" not in body
    assert "&lt;test&gt;" in body


def test_sections_without_content_are_left_out():
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
