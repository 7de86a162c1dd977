"""``equigeo info``."""

from __future__ import annotations

import equigeo
from equigeo.cli import main


def test_info_names_versions_and_cache(capsys):
    assert main(["info"]) == 0
    out = capsys.readouterr().out
    assert equigeo.__version__ in out
    assert "cache" in out
