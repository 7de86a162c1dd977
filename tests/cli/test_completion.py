import os
import re
import shutil
import subprocess
from contextlib import redirect_stdout

import pytest

from equigeo.cli import main
from equigeo.tasks import TASKS
from equigeo.training.loop.log_history import LOGGERS

SHELLS = ("bash", "zsh", "fish")
TASK_NAMES = {task.name for task in TASKS}
TRAIN = "equigeo train mesh-classification"


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    """The script of each shell, as a file."""
    folder = tmp_path_factory.mktemp("completion")
    for shell in SHELLS:
        with (folder / shell).open("w") as file, redirect_stdout(file):
            assert main(["completion", shell]) == 0
    return folder


@pytest.fixture
def complete(scripts, tmp_path):
    """What bash offers for the last word of a line."""

    def run(line: str) -> set[str]:
        words = [part for part in re.split(r"\s+|(=)", line) if part is not None]
        code = (
            f'source {scripts / "bash"}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
            "_equigeo; printf '%s\\n' \"${COMPREPLY[@]}\""
        )
        done = subprocess.run(
            ["bash", "--norc", "-c", code, "-", *words],
            cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stderr == ""
        return set(done.stdout.split("\n")) - {""}

    return run


def test_commands_options_and_values_are_completed(complete):
    assert complete("equigeo t") == {"train"}
    assert {"train", "evaluate", "predict", "data", "doctor"} <= complete("equigeo ")
    assert complete("equigeo train ") == TASK_NAMES
    assert complete("equigeo --debug train mesh-s") == {"mesh-segmentation"}
    assert complete("equigeo data f") == {"fetch"}
    assert complete("equigeo completion ") == set(SHELLS)
    assert complete(f"{TRAIN} --dry") == {"--dry-run"}
    assert complete(f"{TRAIN} --split-i") == {"--split-index"}
    assert complete("equigeo train tsp --split-i") == set()
    assert "--cities" in complete("equigeo train tsp ")
    assert complete("equigeo --ver") == {"--version"}
    assert complete(f"{TRAIN} --output train --qui") == {"--quiet"}
    assert complete(f"{TRAIN} --split ") == {"folder", "16", "10", "5"}
    assert complete(f"{TRAIN} --split=f") == {"folder"}
    assert complete(f"{TRAIN} --split=") == {"folder", "16", "10", "5"}
    assert complete(f"{TRAIN} --logger ") == set(LOGGERS)
    assert complete(f"{TRAIN} --epochs ") == set()


def test_files_are_offered_where_a_path_is_wanted(complete, tmp_path):
    (tmp_path / "my run").mkdir()
    (tmp_path / "model.ckpt").write_text("")
    assert complete(f"{TRAIN} --output ") == {"my run", "model.ckpt"}
    assert complete(f"{TRAIN} --data ") == {"builtin", "cubes", "my run", "model.ckpt"}
    assert complete("equigeo evaluate mo") == {"model.ckpt"}
    assert complete("equigeo evaluate model.ckpt --js") == {"--json"}


def test_bash_takes_the_script_without_a_word(scripts):
    code = f"source {scripts / 'bash'} && complete -p equigeo"
    done = subprocess.run(["bash", "--norc", "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "complete -F _equigeo equigeo\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_names_every_task_and_is_read_by_its_shell(shell, scripts):
    text = (scripts / shell).read_text()
    assert all(name in text for name in TASK_NAMES)
    assert "dry-run" in text
    if shutil.which(shell):
        subprocess.run([shell, "-n", scripts / shell], check=True)


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_completes(scripts, tmp_path):
    def run(line: str) -> set[str]:
        code = f"source {scripts / 'fish'}; complete -C '{line}'"
        done = subprocess.run(
            ["fish", "--no-config", "-c", code],
            cwd=tmp_path, env=os.environ | {"HOME": str(tmp_path)}, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        return {line.partition("\t")[0] for line in done.stdout.splitlines()}

    assert run("equigeo train ") == TASK_NAMES
    assert run(f"{TRAIN} --dry") == {"--dry-run"}
    assert run(f"{TRAIN} --split ") == {"folder", "16", "10", "5"}
    (tmp_path / "model.ckpt").write_text("")
    assert "model.ckpt" in run("equigeo evaluate mod")


def test_another_shell_is_refused(refused):
    assert refused("completion", "powershell").count("\n") == 1
