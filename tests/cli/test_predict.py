"""``equigeo predict``."""

from __future__ import annotations

import pytest

from equigeo.cli import main
from tests.cli.without_package import without


def test_predict_ranks_the_classes_of_each_file(checkpoint, data, capsys):
    files = [str(data / name / "test" / "T5.obj") for name in ("ball", "torus")]
    assert main(["predict", str(checkpoint), *files, "--top", "9"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for line, file in zip(out.splitlines(), files, strict=True):
        assert line.startswith(f"{file}: ")
        words = line.removeprefix(f"{file}: ").split()
        assert sorted(words[::2]) == ["ball", "capsule", "torus"]
        shares = [float(word.rstrip("%")) for word in words[1::2]]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) == pytest.approx(100, abs=0.2)


def test_predict_notes_repairs_on_standard_error(checkpoint, data, capsys, tmp_path):
    text = (data / "ball" / "test" / "T4.obj").read_text()
    (tmp_path / "twice.obj").write_text(f"{text}\nf 1 1 2\n")
    assert main(["predict", str(checkpoint), str(tmp_path / "twice.obj")]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1
    assert "repeated index" in err


def test_without_lightning_and_plotly_a_file_is_classified(checkpoint, data):
    for package in ("lightning", "plotly"):
        done = without(package, "predict", checkpoint, data / "ball" / "test" / "T4.obj")
        assert done.returncode == 0, done.stderr
