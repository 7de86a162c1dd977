import re
import subprocess
import sys
from contextlib import redirect_stdout

import pytest

from equigeo.cli import main
from equigeo.tasks import TASKS
from equigeo.training.loop.session import LOGGERS

TASK_NAMES = {task.name for task in TASKS}
TRAIN = "equigeo train mesh-classification"


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    """The script of each shell, as a file."""
    pytest.importorskip("shtab", reason="needs pip install shtab")
    folder = tmp_path_factory.mktemp("completion")
    for shell in ("bash", "zsh"):
        with (folder / shell).open("w") as file, redirect_stdout(file):
            assert main(["completion", shell]) == 0
    return folder


@pytest.fixture
def complete(scripts, tmp_path):
    """What bash offers for the last word of a line."""

    def run(line: str) -> set[str]:
        code = (
            f'source {scripts / "bash"}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
            "_shtab_equigeo; printf '%s\\n' \"${COMPREPLY[@]}\""
        )
        words = re.split(r"\s+", line)
        done = subprocess.run(
            ["bash", "--norc", "-c", code, "-", *words],
            cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return set(done.stdout.split("\n")) - {""}

    return run


def test_commands_options_and_values_are_completed(complete):
    assert complete("equigeo t") == {"train"}
    assert {"train", "evaluate", "predict", "data", "doctor"} <= complete("equigeo ")
    assert complete("equigeo train ") == TASK_NAMES
    assert complete(f"{TRAIN} --dry") == {"--dry-run"}
    assert complete("equigeo train tsp --split-i") == set()
    assert complete(f"{TRAIN} --split ") == {"folder", "16", "10", "5"}
    assert complete(f"{TRAIN} --logger ") == set(LOGGERS)


def test_files_are_offered_where_a_path_is_wanted(complete, tmp_path):
    (tmp_path / "model.ckpt").write_text("")
    for words in (f"{TRAIN} --output ", f"{TRAIN} --data ", "equigeo evaluate mo"):
        assert "model.ckpt" in complete(words)


def test_a_script_names_every_task(scripts):
    for shell in ("bash", "zsh"):
        text = (scripts / shell).read_text()
        assert all(name in text for name in TASK_NAMES)


def test_what_is_missing_is_one_error(refused, monkeypatch):
    assert refused("completion", "powershell").count("\n") == 1
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert "completion needs shtab: pip install shtab" in refused("completion", "bash")
