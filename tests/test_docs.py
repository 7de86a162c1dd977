"""README and the pages: blocks of Python run and print what the page says, links lead somewhere."""

from __future__ import annotations

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
README_LINES = 130  # one screen and a half
OUTPUT = doctest.OutputChecker()
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def with_blocks(pattern: re.Pattern[str]) -> list[Path]:
    return [path for path in PAGES if pattern.search(path.read_text())]


def name_of(path: Path) -> str:
    return str(path.relative_to(REPOSITORY).with_suffix(""))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # of PyTorch Geometric
@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("page", with_blocks(BLOCK), ids=name_of)
def test_the_blocks_of_a_page_run_and_print_what_it_says(page, seed, monkeypatch, tmp_path):
    torch.manual_seed(seed)
    monkeypatch.chdir(tmp_path)  # files that a block writes, and the next one reads
    # dataclasses look up the module that they are defined in
    module = ModuleType(f"docs_{page.stem}")
    monkeypatch.setitem(__import__("sys").modules, module.__name__, module)
    text = page.read_text()
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start("code"))  # errors name the line of the page
        code = compile("\n" * line + block["code"], str(page), "exec")
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(code, vars(module))
        if block["output"] is not None:
            seen, wanted = printed.getvalue(), block["output"]
            same = OUTPUT.check_output(wanted, seen, FLAGS)
            assert same, f"{page.name}:{line + 1}: printed\n{seen}\ninstead of\n{wanted}"


SCRIPTS = sorted((DOCS / "tutorials").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_tutorial_runs_and_saves_the_figures_that_it_shows(script, tmp_path):
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


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_tutorial_that_is_run_by_itself_finds_what_draws(script, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(script.parent)])
    exec(script.read_text().partition("# %%")[0], {})
    assert (Path(sys.path[0]) / "drawing.py").is_file()


def test_links_to_tutorials_lead_to_their_pages_on_the_site():
    source = ["[a](tutorials/mesh.py), [b](../tutorials/mds.py), [c](tutorials.py)"]
    link_to_pages(None, "start", source)
    a, b, c = links(source[0])
    assert (a, b, c) == (
        "generated/tutorials/mesh.md", "../generated/tutorials/mds.md", "tutorials.py",
    )  # fmt: skip


ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}


def test_a_figure_that_was_not_saved_is_reported(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("# %%\n# # Title\n# ![nothing](no.svg)\n\nx = 1\n")
    with pytest.raises(FileNotFoundError, match=r"script\.py shows no\.svg, which it did not save"):
        run_script(script, tmp_path)


def test_text_code_and_output_of_a_cell_become_a_page(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("# %%\n# # Title\n#\n# Text.\n\nprint(1 + 1)\n")
    page = run_script(script, tmp_path)
    assert page.startswith(
        "# Title\n\nText.\n\n```python\nprint(1 + 1)\n```\n\n```{code-block} text"
    )
    assert "\n2\n```" in page


def test_links_of_a_built_site_are_checked(tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html#here">b</a><a href="https://x.org">x</a>')
    (tmp_path / "b.html").write_text(
        '<p id="here"><a href="#there">t</a><img src="http://x/y.png">'
    )
    assert broken_links(tmp_path) == [
        "b.html: #there: no such anchor",
        "b.html: http://x/y.png: is loaded from elsewhere",
    ]


def test_other_output_than_the_page_says_is_reported():
    assert OUTPUT.check_output("Size([2]) ...\n", "Size([2])   0.123\n", FLAGS)
    assert not OUTPUT.check_output("Size([2])\n", "Size([3])\n", FLAGS)


def commands(page: Path) -> Iterator[list[str]]:
    """Every command of the shell on a page, continued lines joined, variables put aside."""
    for block in COMMANDS.finditer(page.read_text()):
        for line in block[1].replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            while words and re.match(r"[A-Z_]+=", words[0]):
                del words[0]
            if words:
                yield words


COMMAND_PAGES = with_blocks(COMMANDS)


@pytest.mark.parametrize("page", COMMAND_PAGES, ids=name_of)
def test_the_commands_of_a_page_are_known(page):
    for words in commands(page):
        check_command(words)


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
        assert program in {"pip", "git", "cd", "export", ".venv/bin/pytest"}, f"unknown: {words}"


@pytest.mark.parametrize(
    "command",
    [
        ["equigeo", "train", "nothing"],
        ["equigeo", "evaluate", "model.ckpt", "--colour"],
        ["make", "no-such-target"],
        ["python", "-m", "equigeo.no_module"],
        ["python", "docs/no_file.py"],
        ["something"],
    ],
    ids=" ".join,
)
def test_a_command_that_does_not_exist_is_reported(command):
    with pytest.raises((SystemExit, AssertionError, subprocess.CalledProcessError)):
        check_command(command)


@pytest.mark.parametrize("page", [*PAGES, REPOSITORY / "CONTRIBUTING.md"], ids=name_of)
def test_links_between_files_lead_somewhere(page):
    broken = [link for link in links(page.read_text()) if not leads_somewhere(page, link)]
    assert not broken


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


def test_a_broken_link_is_found():
    page = DOCS / "figures.md"
    assert leads_somewhere(page, "#large-meshes")
    assert leads_somewhere(page, "../README.md#install")
    assert not leads_somewhere(page, "nowhere.md")
    assert not leads_somewhere(page, "#no-such-heading")


def test_readme_is_short_and_has_a_small_picture():
    text = (REPOSITORY / "README.md").read_text()
    assert len(text.splitlines()) <= README_LINES
    for path in re.findall(r"\]\((docs/[\w/]+\.(?:svg|png))\)", text):
        assert (REPOSITORY / path).stat().st_size < 200_000


@pytest.mark.parametrize("block", [*BLOCK.finditer((REPOSITORY / "README.md").read_text())])
def test_examples_of_readme_are_short_and_show_what_they_print(block):
    assert len(block["code"].strip().splitlines()) <= 10
    assert block["output"]
