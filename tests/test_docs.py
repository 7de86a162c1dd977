"""Blocks of Python on the pages run and print what is shown, and links lead somewhere."""

import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
import torch

from docs.extensions.check_links import broken_links
from docs.extensions.tutorial_pages import link_to_pages, run_script
from tests.tier import tier

REPOSITORY = Path(__file__).parents[1]
DOCS = REPOSITORY / "docs"
PAGES = [
    REPOSITORY / "README.md",
    *(path for path in sorted(DOCS.rglob("*.md")) if "generated" not in path.parts),
]
# A block of Python and, where it prints, the block of text behind it.
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```$(?:\n*^```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
COMMANDS = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^(```+).*?^\1$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!\\)\]\(([^)\s]+)\)")
OUTPUT = doctest.OutputChecker()
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def with_blocks(pattern: re.Pattern[str]) -> list[Path]:
    return [path for path in PAGES if pattern.search(path.read_text())]


def name_of(path: Path) -> str:
    return str(path.relative_to(REPOSITORY).with_suffix(""))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # of PyTorch Geometric
@pytest.mark.parametrize("seed", tier([0], [0, 3]))
@pytest.mark.parametrize("page", with_blocks(BLOCK), ids=name_of)
def test_blocks_of_a_page_run_and_print_its_output(page, seed, monkeypatch, tmp_path):
    torch.manual_seed(seed)
    monkeypatch.chdir(tmp_path)  # files that a block writes, and the next one reads
    # dataclasses look up the module that they are defined in
    module = ModuleType(f"docs_{page.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    text = page.read_text()
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start("code"))  # errors name the line of the page
        assert block["output"] or page.stem != "README", f"line {line}: an example prints nothing"
        code = compile("\n" * line + block["code"], str(page), "exec")
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(code, vars(module))
        if block["output"] is not None:
            seen, wanted = printed.getvalue(), block["output"]
            same = OUTPUT.check_output(wanted, seen, FLAGS)
            assert same, f"{page.name}:{line + 1}: printed\n{seen}\ninstead of\n{wanted}"


SCRIPTS = sorted((DOCS / "tutorials").glob("*.py"))
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.mark.full  # `make docs` runs all of them as well
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_tutorial_runs_and_saves_its_figures(script, tmp_path):
    if script.stem == "pretrained" and not find_spec("sevenn"):
        pytest.skip("needs SevenNet: make test-interop")
    # in a process of its own: it changes the folder and the path of imports
    code = (
        "from pathlib import Path; from docs.extensions.tutorial_pages import run_script; "
        f"print(run_script(Path({str(script)!r}), Path({str(tmp_path)!r})))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, env=ONE_THREAD, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert [*tmp_path.glob("*.svg")]
    for heading in ("mathematics in ten lines", "A task", "When to use", "Cost"):
        assert re.search(rf"^## .*{heading}", run.stdout, re.MULTILINE), f"no section {heading}"


def test_tutorials_find_the_module_that_draws(monkeypatch):
    for script in SCRIPTS:
        monkeypatch.setattr(sys, "path", [str(script.parent)])
        exec(script.read_text().partition("# %%")[0], {})
        assert (Path(sys.path[0]) / "drawing.py").is_file()


def test_cells_of_a_tutorial_become_a_page(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("# %%\n# # Title\n#\n# Text.\n\nprint(1 + 1)\n")
    page = run_script(script, tmp_path)
    assert page.startswith(
        "# Title\n\nText.\n\n```python\nprint(1 + 1)\n```\n\n```{code-block} text"
    )
    assert "\n2\n```" in page
    script.write_text("# %%\n# # Title\n# ![nothing](no.svg)\n\nx = 1\n")
    with pytest.raises(FileNotFoundError, match=r"script\.py shows no\.svg, which it did not save"):
        run_script(script, tmp_path)


def test_broken_links_of_a_built_site_are_found(tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html#here">b</a><a href="https://x.org">x</a>')
    (tmp_path / "b.html").write_text(
        '<p id="here"><a href="#there">t</a><img src="http://x/y.png">'
    )
    assert broken_links(tmp_path) == [
        "b.html: #there: no such anchor",
        "b.html: http://x/y.png: is loaded from elsewhere",
    ]


def commands(page: Path) -> Iterator[list[str]]:
    """Every command of the shell on a page, with joined lines and without variables."""
    for block in COMMANDS.finditer(page.read_text()):
        for line in block[1].replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            while words and re.match(r"[A-Z_]+=", words[0]):
                del words[0]
            if words:
                yield words


def test_commands_of_the_pages_exist():
    for page in with_blocks(COMMANDS):
        for words in commands(page):
            try:
                check_command(words)
            except (SystemExit, AssertionError, subprocess.CalledProcessError) as error:
                raise AssertionError(f"{page.name}: {' '.join(words)}: {error}") from error


def check_command(words: list[str]) -> None:
    program, *arguments = words
    if program == "equigeo":  # parsed, not run
        import_module("equigeo.cli.main").build_parser().parse_args(arguments)
    elif program == "make":
        subprocess.run(["make", "-n", *arguments], cwd=REPOSITORY, check=True, capture_output=True)
    elif program in {"python", ".venv/bin/python"} and arguments[0] == "-m":
        assert find_spec(arguments[1]), f"no module {arguments[1]}"
    elif program in {"python", ".venv/bin/python"}:
        assert (REPOSITORY / arguments[0]).is_file(), f"no file {arguments[0]}"
    else:
        assert program in {"pip", "git", "cmake", "cd", "export", ".venv/bin/pytest"}, (
            f"unknown: {words}"
        )


def test_links_between_files_lead_somewhere():
    broken = [
        f"{name_of(page)}: {link}"
        for page in (*PAGES, REPOSITORY / "CONTRIBUTING.md")
        for link in links(page.read_text())
        if not leads_somewhere(page, link)
    ]
    assert not broken
    assert not leads_somewhere(PAGES[0], "nowhere.md")
    assert not leads_somewhere(PAGES[0], "#no-such-heading")
    source = ["[a](tutorials/mesh.py), [b](../tutorials/mds.py), [c](tutorials.py)"]
    link_to_pages(None, "start", source)
    pages = ["generated/tutorials/mesh.md", "../generated/tutorials/mds.md", "tutorials.py"]
    assert links(source[0]) == pages


def links(text: str) -> list[str]:
    return [link for link in LINK.findall(FENCED.sub("", text)) if not link.startswith("http")]


def leads_somewhere(page: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    if "generated" in target.parts:  # Sphinx checks these
        return True
    if not target.exists():
        return False
    return not anchor or anchor in anchors(target.read_text())


def anchors(text: str) -> set[str]:
    """Anchors of headings as GitHub and MyST make them."""
    headings = re.findall(r"^#+ +(.*)$", FENCED.sub("", text), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings
    }
