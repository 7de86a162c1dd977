"""Tutorials: scripts that are run, whose text, code, output and figures become pages.

A script consists of cells, each of which begins with a line ``# %%``. The comment behind it is text
in Markdown; the code behind that is run, and what it prints is shown. Figures are saved into the
current folder, and text refers to them by name. What stands before the first cell is for those who
run the script, and is not on the page.

Other pages link to the scripts, which are in every checkout; on the site these links lead to the
pages.
"""

from __future__ import annotations

import io
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

DOCS = Path(__file__).parents[1]
SCRIPT_LINK = re.compile(r"(\]\((?:\.\./)*)tutorials/(\w+)\.py\)")
CELL = re.compile(r"^# %%[ \t]*\n", re.MULTILINE)
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)]+)\)")


class Cell(NamedTuple):
    """Text and the code behind it; ``line`` is where the code begins, from 0."""

    text: str
    code: str
    line: int


def read_cells(script: Path) -> Iterator[Cell]:
    """Take a script apart."""
    source = script.read_text()
    starts = [match.end() for match in CELL.finditer(source)]
    ends = [*(match.start() for match in CELL.finditer(source)), len(source)][1:]
    for start, end in zip(starts, ends, strict=True):
        lines = source[start:end].splitlines()
        count = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
        text = "\n".join(line[2:] for line in lines[:count])
        yield Cell(text, "\n".join(lines[count:]).strip("\n"), source.count("\n", 0, start) + count)


def run_script(script: Path, folder: Path) -> str:
    """Run a tutorial.

    Parameters
    ----------
    script : Path
        The tutorial.
    folder : Path
        Where its figures go.

    Returns
    -------
    str
        The page, in Markdown.

    Raises
    ------
    FileNotFoundError
        If the text shows a figure that the code did not save.
    """
    import torch

    torch.manual_seed(0)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    parts, start, cells = [], time.perf_counter(), [*read_cells(script)]
    with _in_folder(folder):
        for cell in cells:
            parts.append(cell.text)
            if not cell.code:
                continue
            printed = io.StringIO()
            padding = "\n" * (cell.line + 1)  # so that errors name the line of the script
            with redirect_stdout(printed):
                exec(compile(padding + cell.code, str(script), "exec"), namespace)
            parts.append(f"```python\n{cell.code}\n```")
            if printed.getvalue():
                parts.append(f"```{{code-block}} text\n:class: output\n\n{printed.getvalue()}```")
    for name in PICTURE.findall("\n".join(parts)):
        if not name.startswith("..") and not (folder / name).is_file():
            raise FileNotFoundError(f"{script.name} shows {name}, which it did not save")
    seconds = time.perf_counter() - start
    parts.append(
        f"---\n\n*Run in {seconds:.0f} s when this page was built. The script is "
        f"`docs/tutorials/{script.name}`: `python docs/tutorials/{script.name}` runs it.*\n"
    )
    return "\n\n".join(parts)


@contextmanager
def _in_folder(folder: Path) -> Iterator[None]:
    """Change into a folder, with the tools for figures on the path of imports."""
    before = Path.cwd()
    folder.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(DOCS))
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
        sys.path.remove(str(DOCS))


# Others, such as one of interatomic potentials, come behind these by themselves.
ORDER = ("tensor_products", "affine", "mesh", "mds")
INDEX = """# Tutorials

Each page is a script that was run when the site was built; outputs and figures are of that run.

```{{toctree}}
:maxdepth: 1

{names}
```
"""


def write_pages(app: Any) -> None:
    """Run scripts that are newer than their pages, or all after a change here; list the pages."""
    tools = max(path.stat().st_mtime for path in (DOCS / "drawing.py", Path(__file__)))
    scripts = {script.stem: script for script in sorted((DOCS / "tutorials").glob("*.py"))}
    names = [*ORDER, *(name for name in scripts if name not in ORDER)]
    folder = DOCS / "generated" / "tutorials"
    for name in names:
        page = folder / f"{name}.md"
        changed = max(tools, scripts[name].stat().st_mtime)
        if not page.exists() or page.stat().st_mtime < changed:
            text = run_script(scripts[name], folder)
            page.write_text(text)
    (folder / "index.md").write_text(INDEX.format(names="\n".join(names)))


def link_to_pages(app: Any, name: str, source: list[str]) -> None:
    """Turn links to scripts into links to their pages."""
    source[0] = SCRIPT_LINK.sub(r"\1generated/tutorials/\2.md)", source[0])


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", write_pages)
    app.connect("source-read", link_to_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
