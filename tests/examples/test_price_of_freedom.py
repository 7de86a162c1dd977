"""The published figures, and the page made of ours."""

import json
import re

import pytest

import equigeo.tensor_products as tp
from equigeo.examples.price_of_freedom import (
    crossovers,
    main,
    published_milliseconds,
    published_prices,
    write_report,
)
from equigeo.tensor_products.analysis.compare import ComparisonRow
from equigeo.tensor_products.analysis.compared_product import published_freedom

DEGREES = range(1, 11)
NAMES = {
    "CG-dense": "full even",
    "CG-sparse": "full_sparse even",
    "GTP-grid": "gaunt grid",
    "GTP-Fourier": "gaunt fourier",
    "MTP": "matrix",
}


def table(device, measure, setting, batch=10000):
    (found,) = (
        one["columns"]
        for one in published_prices()["times"]
        if (one["device"], one["measure"], one["setting"], one["batch"])
        == (device, measure, setting, batch)
    )
    return found


def test_published_times_per_freedom_are_times_over_published_freedom():
    per_freedom = published_prices()["microseconds_per_degree_of_freedom"]["devices"]
    checked = 0
    for device, columns in per_freedom.items():
        times = table(device, "sum of kernel times", "mimo")
        for column, values in columns.items():
            for lmax, value in enumerate(values, start=1):
                time = times[column][lmax - 1]
                assert (value is None) == (time is None)
                if value is not None:
                    freedom = published_freedom(NAMES[column], lmax, "mimo")
                    # Both are published with three digits.
                    assert 1e3 * time / freedom == pytest.approx(value, rel=0.01)
                    checked += 1
    assert checked > 80


def published_flops(name: str, lmax: int) -> int:
    """Count operations per sample of the reference code, MIMO, without separating the axes."""
    n, size = (lmax + 1) ** 2, (2 * lmax + 1) ** 2
    if name == "matrix":
        return 6 * n**3 + 2 * n**2 * size
    latitudes, longitudes = 2 * lmax + 1, 4 * lmax + 2
    orders_in, orders_out = 2 * lmax + 1, 4 * lmax + 1
    inwards = orders_in * latitudes * n + orders_in * latitudes * longitudes
    outwards = latitudes * longitudes * orders_out + orders_out * latitudes * size
    return 4 * inwards + latitudes * longitudes + 2 * outwards + latitudes * orders_out


def test_published_flops_follow_their_formulas():
    columns = published_prices()["flops_per_sample"]["columns"]
    for lmax in DEGREES:
        assert published_flops("gaunt grid", lmax) == columns["GTP-grid"][lmax - 1]
        counted = columns["MTP"][lmax - 1]  # by the compiler, in float32
        assert published_flops("matrix", lmax) == pytest.approx(counted, rel=2**-23)


def test_published_tables_are_complete():
    assert len(published_prices()["times"]) == 13
    for one in published_prices()["times"]:
        lengths = {len(column) for column in one["columns"].values()}
        assert lengths in ({10}, {8})
        assert one["unit"] == "ms"
    assert published_milliseconds("gaunt grid", 2, "mimo") == 1.89
    assert published_milliseconds("full even", 1, "siso") is None
    assert published_milliseconds("curl grid", 2, "mimo") is None
    assert published_milliseconds("gaunt grid", 11, "mimo") is None


def comparison(lmax, **times):
    rows = tuple(
        ComparisonRow(name.replace("_", " "), 1, 1, 1, 1, 1, time) for name, time in times.items()
    )
    return tp.Comparison(lmax, "mimo", 1, "float32", "cpu", 1, rows)


def test_crossovers_name_the_fastest_product_where_it_changes():
    measured = [
        comparison(1, gaunt_paths=1.0, gaunt_grid=2.0),
        comparison(2, gaunt_paths=None, gaunt_grid=None),
        comparison(3, gaunt_paths=4.0, gaunt_grid=5.0),
        comparison(4, gaunt_paths=6.0, gaunt_grid=5.0, matrix=0.1),
    ]
    names = ("gaunt paths", "gaunt grid")
    assert crossovers(measured, names) == ["from L = 1 gaunt paths", "from L = 4 gaunt grid"]
    assert crossovers([], names) == []


def test_the_report_puts_published_times_beside_ours():
    text = write_report([comparison(2, gaunt_grid=0.5, gaunt_paths=0.7)])
    assert re.search(r"gaunt grid .* 0\.5 .* 1\.89$", text, re.MULTILINE)
    assert "mimo: fastest Gaunt product from L = 2 gaunt grid" in text
    assert "arXiv:2506.13523" in text


SETTINGS = ("siso", "simo", "mimo")


def test_the_command_prints_and_saves_everything(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["--settings", "miso"])
    assert "invalid choice: 'miso'" in capsys.readouterr().err
    arguments = ["--lmax", "2", "--batch", "4", "--repetitions", "1", "--output", str(tmp_path)]
    main(arguments)
    printed = capsys.readouterr().out
    assert all(f"L = {lmax}, {setting}," in printed for lmax in (1, 2) for setting in SETTINGS)
    results = json.loads((tmp_path / "results.json").read_text())
    assert [(one["setting"], one["lmax"]) for one in results["comparisons"]] == [
        (setting, lmax) for setting in SETTINGS for lmax in (1, 2)
    ]
    assert results["report"] == printed.splitlines()
    page = (tmp_path / "index.html").read_text()
    assert page.count('class="figure"') == 9
    assert "://" not in re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
