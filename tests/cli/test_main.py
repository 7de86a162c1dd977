import argparse
import json
import math
import os
import re
import subprocess
import sys
from contextlib import ExitStack, nullcontext

import pytest
import torch

import equigeo
from equigeo.cli import main
from equigeo.cli import options as module
from equigeo.cli.options import VERSIONS, require_packages, use_machine
from equigeo.training import Checkpoint
from tests.architecture.source import REPOSITORY


def run(*words):
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)


_IMPORTED = """
import sys
from equigeo.cli import main
for words in (["--version"], ["--help"]):
    assert main(words) == 0
assert {"torch", "numpy", "scipy"}.isdisjoint(sys.modules)
assert main(["train", "--help"]) == 0
assert {"torch._dynamo", "lightning", "plotly"}.isdisjoint(sys.modules)
"""


def test_help_imports_only_what_it_shows():
    done = run("-c", _IMPORTED)
    assert (done.returncode, done.stderr) == (0, "")
    assert run("-m", "equigeo", "--version").stdout == f"equigeo {equigeo.__version__}\n"


VARIABLES = ("EQUIGEO_ISA", "EQUIGEO_RESULT_MEMORY", "EQUIGEO_KERNELS")
_WRONG = """
import os, sys
from equigeo.cli import main
for variable in sys.argv[1:]:
    os.environ[variable] = "foo\x1b"
    assert main(["presets"]) == 2
    del os.environ[variable]
"""


def test_wrong_environment_variable_is_one_message():
    # PyTorch warns that the second import registers ops again
    done = run("-W", "ignore", "-c", _WRONG, *VARIABLES)
    assert (done.returncode, done.stdout) == (0, "")
    for line, variable in zip(done.stderr.splitlines(), VARIABLES, strict=True):
        assert line.startswith(f"equigeo: error: {variable} must be ")
        assert "\x1b" not in line


def test_import_of_a_command_may_end_early(capsys, monkeypatch):
    def stop_with(error):
        def stop(name):
            raise error

        monkeypatch.setattr(sys.modules["equigeo.cli.main"], "import_module", stop)

    stop_with(KeyboardInterrupt())
    assert main(["presets"]) == 130
    assert capsys.readouterr().err == "\nequigeo: interrupted\n"
    stop_with(ImportError("no kernels\x1b"))
    assert main(["presets"]) == 2
    assert capsys.readouterr().err == "equigeo: error: no kernels\\x1b\n"
    with pytest.raises(ImportError, match="no kernels"):
        main(["--debug", "presets"])


def test_the_versions_are_those_of_the_metadata():
    metadata = (REPOSITORY / "pyproject.toml").read_text()
    (listed,) = re.findall(r"^train = \[(.*)\]$", metadata, re.MULTILINE)
    assert re.findall(r'"([^"]+)"', listed) == [name + v for name, v in VERSIONS.items()]


@pytest.mark.parametrize(
    ("missing", "needs", "message"),
    [
        (
            ("lightning", "plotly", "platformdirs"),
            {"lightning": "training"},
            "training needs lightning (and other commands want plotly, platformdirs): "
            "pip install 'lightning>=2.6,<3' 'plotly>=5.20' 'platformdirs>=3'",
        ),
        (("plotly",), {"lightning": "training"}, ""),
        (("plotly",), {"plotly": "a report"}, "a report needs plotly: pip install 'plotly>=5.20'"),
        (
            ("lightning", "wandb"),
            {"lightning": "training", "wandb": "the logger wandb"},
            "training needs lightning and the logger wandb needs wandb: "
            "pip install 'lightning>=2.6,<3' wandb",
        ),
    ],
)
def test_missing_packages_are_named_at_once_if_one_is_needed(monkeypatch, missing, needs, message):
    find = lambda name: None if name in missing else True  # noqa: E731
    monkeypatch.setattr(module.importlib.util, "find_spec", find)
    with pytest.raises(ImportError) if message else nullcontext() as caught:
        require_packages(needs)
    assert not message or str(caught.value) == message


@pytest.fixture(autouse=True)
def threads(monkeypatch):
    """Number of threads, put back afterwards."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = torch.get_num_threads()
    yield before
    torch.set_num_threads(before)


def test_a_card_that_is_missing_is_one_error(checkpoint, data, tmp_path, refused):
    if torch.cuda.is_available():
        pytest.skip("needs a machine without a GPU")
    for words in (
        ("train", "mesh-classification", "--data", data, "--output", tmp_path / "run"),
        ("evaluate", checkpoint),
        ("predict", checkpoint, data / "ball" / "test"),
        ("doctor",),
    ):
        message = refused(*words, "--device", "cuda")
        assert message.count("\n") == 1
        assert "GPU" in message
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_the_number_of_threads_is_taken(device, checkpoint, data, threads, capsys):
    words = [str(checkpoint), str(data / "ball" / "test" / "T5.obj"), "--verbose"]
    assert main(["predict", *words, "--device", device, "--threads", "3"]) == 0
    assert "s with 3 threads" in capsys.readouterr().err
    assert (torch.get_num_threads(), os.environ["OMP_NUM_THREADS"]) == (threads, "1")


@pytest.mark.usefixtures("unset")
@pytest.mark.parametrize("cards", [False, True])
def test_threads_are_chosen_where_the_processor_computes_and_by_each_command(
    cards, checkpoint, data, capsys, monkeypatch
):
    measured = []

    def measure(most):
        measured.append(most)
        return 3, "other programs use the cores"

    monkeypatch.setattr(module, "free_threads", measure)
    monkeypatch.setattr(module.torch.cuda, "is_available", lambda: cards)
    torch.set_num_threads(8)
    file = str(data / "ball" / "test" / "T5.obj")
    for words in (["predict", str(checkpoint), file], ["evaluate", str(checkpoint)]):
        if cards:  # the device is all that is asked for
            monkeypatch.setattr(f"equigeo.cli.{words[0]}.load_trained", _stop)
            assert main([*words, "--device", "cuda"]) == 2
            continue
        for _ in range(2):
            assert main([*words, "--verbose", "--device", "cpu"]) == 0
            assert "s with 3 threads" in capsys.readouterr().err
            assert (measured.pop(), torch.get_num_threads()) == (8, 8)
            assert "OMP_NUM_THREADS" not in os.environ
    preview = ["train", "mesh-classification", "--data", str(data), "--dry-run"]
    for words in (preview, ["predict", str(checkpoint), file, "--dry-run"], ["doctor"]):
        if not cards:
            assert main([*words, "--device", "cpu"]) == 0
    assert measured == []


def _stop(*_arguments):
    raise ValueError("no card is used")


@pytest.mark.usefixtures("unset")
@pytest.mark.parametrize("has_line", [True, False])
def test_a_resumed_run_has_the_threads_of_its_last_steps(
    has_line, data, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(module, "free_threads", lambda most: (2, "other programs use the cores"))
    run = tmp_path / "run"
    begin = ["train", "mesh-classification", "--output", str(run), "--device", "cpu"]
    new = ["--data", str(data), "--epochs", "2", "--batch-size", "2", "--time-limit", "1e-9"]
    torch.set_num_threads(4)
    assert main([*begin, *new, "--quiet"]) == 0
    checkpoint = Checkpoint.load(run / "model.ckpt")
    assert (checkpoint.training["threads"], checkpoint.training["history"]) == (2, [])
    monkeypatch.setattr(module, "free_threads", lambda most: pytest.fail("times are taken"))
    if has_line:  # of an earlier version, which told the number in the history alone
        assert main([*begin, "--resume", "--threads", "3", "--quiet"]) == 0
        checkpoint = Checkpoint.load(run / "model.ckpt")
        del checkpoint.training["threads"]
        checkpoint.save(run / "model.ckpt")
    capsys.readouterr()
    assert main([*begin, "--resume", "--verbose"]) == 0
    expected = 3 if has_line else 2
    err = capsys.readouterr().err
    assert f"note: {expected} of 4 threads, because the run to resume has used as many; " in err
    assert f"s with {expected} threads" in err
    last = json.loads((run / "history.json").read_text())[-1]
    assert last["threads"] == expected


NO_QUOTA = "max 100000\n"
ROUNDING = "--threads N fixes the number, on which results depend in rounding"


@pytest.fixture
def unset(monkeypatch):
    """No variable sets the number of threads."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def chosen(monkeypatch, tmp_path, unset):
    """Function that chooses among 8 threads, by times of small ops and a quota."""

    def choose(seconds, quota=NO_QUOTA, processes=1, quiet=False):
        monkeypatch.setattr(module, "_seconds", seconds.__getitem__)
        monkeypatch.setattr(module, "_QUOTA", tmp_path / "cpu.max")
        if quota is not None:
            module._QUOTA.write_text(quota)
        torch.set_num_threads(8)
        options = argparse.Namespace(device="cpu", threads=None, quiet=quiet, undo=ExitStack())
        use_machine(options, processes)
        return torch.get_num_threads()

    return choose


# The times leave out numbers of threads that must not be tried.
@pytest.mark.parametrize(
    ("seconds", "quota", "expected", "reason"),
    [
        ({1: 1.0, 8: 0.2}, NO_QUOTA, 8, ""),
        ({1: 1.0, 8: 1.2}, None, 8, ""),
        ({1: 1.0, 8: 1.4, 4: 1.2}, "no numbers", 4, "other programs use the cores"),
        ({1: 1.0, 8: 90.0, 4: 9.0, 2: 2.0}, NO_QUOTA, 1, "other programs use the cores"),
        ({1: 1.0, 3: 0.4}, "250000 100000\n", 3, "the container has a CPU quota"),
        ({}, "50000 100000\n", 1, "the container has a CPU quota"),
        ({1: 1.0, 8: 0.2}, "800000 100000\n", 8, ""),
    ],
)
def test_threads_are_those_that_are_worth_it(chosen, capsys, seconds, quota, expected, reason):
    number = chosen(seconds, quota)
    note = f"note: {expected} of 8 threads, because {reason}; {ROUNDING}\n"
    assert capsys.readouterr() == ("", note if reason else "")
    assert number == expected
    # Processes that are started divide the cores themselves unless there are fewer.
    assert os.environ.get("OMP_NUM_THREADS") == (str(expected) if reason else None)


def test_processes_share_the_threads_that_are_worth_it(chosen, capsys):
    busy = {1: 1.0, 8: 9.0, 4: 0.5}
    assert chosen(busy, processes=2) == 2
    assert os.environ["OMP_NUM_THREADS"] == "2"
    assert "note: 2 of 8 threads in each process, because other" in capsys.readouterr().err


def test_the_note_is_left_out_if_asked(chosen, capsys):
    assert chosen({1: 1.0, 8: 9.0, 4: 0.5}, quiet=True) == 4
    assert capsys.readouterr().err == ""


def test_small_ops_are_timed_on_some_threads():
    assert 0 < module._seconds(1) < math.inf
    assert torch.get_num_threads() == 1


def test_a_number_of_threads_that_is_set_is_kept(monkeypatch):
    monkeypatch.setattr(module, "free_threads", lambda most: pytest.fail("times are taken"))
    free = argparse.Namespace(device="cpu", threads=None, quiet=False, undo=ExitStack())
    torch.set_num_threads(3)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
        monkeypatch.setenv(name, "3")
        use_machine(free, so_far=2)
        assert torch.get_num_threads() == 3


def test_the_device_is_a_card_where_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for name, expected in (("auto", "cuda"), ("cpu", "cpu"), ("cuda", "cuda")):
        options = argparse.Namespace(device=name, threads=None, undo=ExitStack())
        assert use_machine(options).type == expected
