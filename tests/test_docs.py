"""Every block of Python in the documentation runs, page by page and from top to bottom."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest
import torch

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [path for path in sorted(DOCS.rglob("*.md")) if BLOCK.search(path.read_text())]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_the_blocks_of_a_page_run(page, monkeypatch):
    torch.manual_seed(0)
    # dataclasses look up the module that they are defined in
    module = ModuleType(f"docs_{page.stem}")
    monkeypatch.setitem(__import__("sys").modules, module.__name__, module)
    text = page.read_text()
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start(1))  # so that errors name the line of the page
        code = compile("\n" * line + block[1], str(page), "exec")
        exec(code, vars(module))


def test_there_are_pages_with_code():
    assert PAGES
