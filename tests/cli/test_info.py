"""``equigeo info``."""

from __future__ import annotations

import equigeo
from equigeo.cli import main


def test_info_names_versions_and_cache(capsys):
    assert main(["info"]) == 0
    out = capsys.readouterr().out
    assert equigeo.__version__ in out
    assert "cache" in out
    (line,) = [line for line in out.splitlines() if line.startswith("neighbors ")]
    assert line.split(maxsplit=1)[1] == equigeo.points.neighbor_backend()


def test_info_says_where_cuda_kernels_have_run(capsys):
    assert main(["info"]) == 0
    out = capsys.readouterr().out
    (line,) = [line for line in out.splitlines() if line.startswith("CUDA kernels: status ")]
    assert line.split(maxsplit=3)[3] == "executed on the simulator, not yet on a card"
    assert "CUDA kernels: compiled for" in out
