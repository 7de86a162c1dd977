"""The record of what products cost."""

import json
import sys

import pytest

from bench import price_of_freedom


def test_tables_are_kept_and_continued(tmp_path, monkeypatch):
    output = tmp_path / "price.json"
    words = ["price", "--lmax", "2", "--batches", "3", "--repetitions", "2"]
    monkeypatch.setattr(sys, "argv", [*words, "--output", str(output)])
    price_of_freedom.main()
    record = json.loads(output.read_text())
    runs = record["runs"]
    assert [(run["setting"], run["lmax"]) for run in runs] == [
        (setting, lmax) for setting in ("siso", "simo", "mimo") for lmax in (1, 2)
    ]
    assert price_of_freedom.comparison(runs[-1]).rows[0].milliseconds > 0
    for of_batch in record["fastest"].values():
        # Two features of degree 1 have no even path to degree 1.
        assert all(found[0].startswith("from L = ") for found in of_batch.values())
    with pytest.raises(SystemExit, match="exists"):
        price_of_freedom.main()

    def again(*_, **__):
        raise AssertionError("measured again")

    monkeypatch.setattr(price_of_freedom.tp, "compare", again)
    monkeypatch.setattr(sys, "argv", [*words, "--output", str(output), "--resume"])
    price_of_freedom.main()
    assert json.loads(output.read_text()) == record
