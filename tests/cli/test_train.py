import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch

from equigeo.cli import main
from equigeo.tasks import MeshClassification
from equigeo.tasks.mesh_classification import MESH_RECIPES, MeshConfig, TrainedMeshClassifier
from equigeo.training.loop.module import Optimization
from equigeo.training.run_folder import RunFolder


def test_training_writes_its_configuration_and_resume_takes_it(run_folder, data, capsys):
    saved = json.loads((run_folder / "config.json").read_text())
    config = MeshConfig.from_dict(saved)
    assert (config.data, config.split, config.recipe.epochs) == (str(data), "folder", 2)
    assert config.recipe.learning_rate == MESH_RECIPES["default"].learning_rate
    before = (run_folder / "model.ckpt").read_bytes()
    assert main(["train", "mesh-classification", "--output", str(run_folder), "--resume"]) == 0
    assert (run_folder / "model.ckpt").read_bytes() == before
    assert "trained 2 epochs" in capsys.readouterr().out


def test_given_options_change_the_preset_alone_where_given(data, tmp_path, capsys):
    arguments = ["--data", str(data), "--output", str(tmp_path / "run"), "--epochs", "1"]
    options = ["--lr", "0.001", "--jitter", "0", "--seed", "3", "--holdout", "1", "--threads", "1"]
    assert main(["train", "mesh-classification", *arguments, *options]) == 0
    recipe = TrainedMeshClassifier.load(tmp_path / "run" / "model.ckpt").config.recipe
    assert (recipe.learning_rate, recipe.jitter, recipe.epochs) == (0.001, 0.0, 1)
    assert recipe.weight_decay == MESH_RECIPES["default"].weight_decay
    assert "held-out accuracy" in capsys.readouterr().out


def test_results_of_a_run_without_a_whole_epoch_are_json(data, tmp_path, capsys):
    arguments = ["--data", str(data), "--output", str(tmp_path / "run"), "--epochs", "9"]
    limit = ["--batch-size", "2", "--time-limit", "1e-9", "--json", "--quiet"]
    assert main(["train", "mesh-classification", *arguments, *limit]) == 0
    assert json.loads(capsys.readouterr().out)["last"] is None


def test_an_interruption_exits_with_130_and_a_hint(data, tmp_path, capsys, monkeypatch):
    def interrupt(trained, config, output, *_args, **_options):
        RunFolder(output, trained.config_type).begin(config)
        raise KeyboardInterrupt

    monkeypatch.setattr("equigeo.tasks.task.train_model", interrupt)
    arguments = ["--data", str(data), "--output", str(tmp_path / "run")]
    assert main(["train", "mesh-classification", *arguments]) == 130
    assert f"--output {tmp_path / 'run'} --resume" in capsys.readouterr().err


@pytest.fixture
def _interrupted_at_once(monkeypatch):
    def interrupt(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("equigeo.tasks.task.train_model", interrupt)


@pytest.mark.usefixtures("_interrupted_at_once")
def test_before_the_run_has_begun_an_interruption_gives_no_hint(data, run_folder, tmp_path, capsys):
    begin = ["train", "mesh-classification", "--data", str(data), "--quiet", "--output"]
    for arguments in ([str(tmp_path / "run")], [str(run_folder), "--overwrite", "--seed", "1"]):
        assert main([*begin, *arguments]) == 130
        assert capsys.readouterr().err == "\nequigeo: interrupted\n"


@pytest.mark.usefixtures("_interrupted_at_once")
def test_a_run_that_is_not_there_to_resume_is_remarked_on(run_folder, data, tmp_path, capsys):
    begin = ["train", "mesh-classification", "--data", str(data), "--resume", "--output"]
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "typo", tmp_path / "empty"):
        assert main([*begin, str(folder)]) == 130
        assert f"no run in {folder} yet, starting one\n" in capsys.readouterr().err
    assert main([*begin, str(run_folder)]) == 130
    assert "starting one" not in capsys.readouterr().err


@pytest.fixture
def _default_signals():
    """Handle signals as a program does that a terminal starts."""
    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_default_signals")
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"]
)
def test_interrupted_run_keeps_the_last_epoch_and_resumes_exactly(
    number, status, data, run_folder, tmp_path, capsys, monkeypatch
):
    def interrupt(self, outputs, batch, step):
        if (self.epoch, step) == (1, 0):
            os.kill(os.getpid(), number)

    folder = tmp_path / "run"
    arguments = ["--data", str(data), "--epochs", "2", "--output", str(folder)]
    with monkeypatch.context() as patch:
        patch.setattr(Optimization, "on_train_batch_end", interrupt)
        assert main(["train", "mesh-classification", *arguments]) == status
    (hint,) = [line for line in capsys.readouterr().err.splitlines() if "--resume" in line]
    command = f"equigeo train mesh-classification --output {folder} --resume"
    assert hint.endswith(f"; continue with: {command}")
    assert len(TrainedMeshClassifier.load(folder / "model.ckpt").history) == 1
    assert {p.name for p in folder.iterdir()} == {"config.json", "history.json", "model.ckpt"}
    assert main(command.split()[1:]) == 0
    state, expected = (
        TrainedMeshClassifier.load(run / "model.ckpt").model.state_dict()
        for run in (folder, run_folder)
    )
    assert all(torch.equal(state[name], value) for name, value in expected.items())


@pytest.mark.usefixtures("_default_signals")
def test_termination_while_data_are_loaded_leaves_nothing(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        MeshClassification, "load", lambda self, config: os.kill(os.getpid(), signal.SIGTERM)
    )
    arguments = ["--data", str(data), "--output", str(tmp_path / "run")]
    assert main(["train", "mesh-classification", *arguments]) == 143
    assert capsys.readouterr().err == "equigeo: terminated\n"
    assert not (tmp_path / "run").exists()


@pytest.mark.full
@pytest.mark.parametrize(("number", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_all_processes_of_a_run_end(number, status, data, tmp_path):
    folder = tmp_path / "run"
    arguments = ["--data", data, "--epochs", "1000", "--devices", "2", "--output", folder]
    command = [sys.executable, "-m", "equigeo", "train", "mesh-classification", *arguments]
    process = subprocess.Popen(
        list(map(str, command)),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell ignores it for what it runs in the background, and so would all that starts there.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while not (folder / "model.ckpt").exists():
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(getattr(signal, number))
    try:
        _, err = process.communicate(timeout=900)  # until the last of them has closed it
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    assert process.returncode == status, err
    assert "Traceback" not in err
    assert TrainedMeshClassifier.load(folder / "model.ckpt").history


def test_terminal_without_size_shows_a_bar_with_live_accuracy(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda **_: os.terminal_size((0, 0)))
    arguments = ["--data", str(data), "--output", str(tmp_path / "run"), "--epochs", "2"]
    assert main(["train", "mesh-classification", *arguments]) == 0
    shown = capsys.readouterr().err
    assert "epoch 2/2" in shown
    assert "accuracy" in shown


DRY_RUN = ("train", "mesh-classification", "--dry-run")


def shown(capsys, *arguments):
    assert main([*DRY_RUN, *map(str, arguments)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return dict(line.split(maxsplit=1) for line in out.splitlines())


def test_samples_model_and_length_are_said_and_nothing_is_written(
    data, tmp_path, capsys, run_folder
):
    output = tmp_path / "new" / "run"
    lines = shown(capsys, "--data", data, "--output", output, "--epochs", "7", "--batch-size", "5")
    assert lines["run"].endswith("7 epochs")
    assert lines["samples"] == "12 of 3 classes, 3 steps per epoch"
    assert lines["done"] == "nothing, it is a new run"
    assert lines["output"] == str(output)
    assert "nothing" in lines
    assert list(tmp_path.iterdir()) == []
    model = TrainedMeshClassifier.load(run_folder / "model.ckpt").model
    parameters = sum(x.numel() for x in model.parameters())
    assert lines["model"] == f"PrimalDualClassifier, {parameters:,} parameters"


def test_a_run_that_would_be_resumed_or_replaced_stays_as_it_is(run_folder, data, capsys):
    before = {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in run_folder.iterdir()}
    lines = shown(capsys, "--output", run_folder, "--resume")
    assert lines["done"] == "2 of 2 epochs"
    lines = shown(capsys, "--output", run_folder, "--data", data, "--overwrite")
    assert lines["done"] == "nothing, it is a new run"
    after = {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in run_folder.iterdir()}
    assert after == before


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--data", "nowhere"), "nowhere"),
        (("--data", "DATA", "--split", "16"), "16"),
        (("--data", "DATA", "--lr", "nan"), "learning_rate"),
        (("--data", "DATA", "--devices", "100"), "processes"),
        (("--data", "DATA", "--output", "FILE"), "--output"),
    ],
)
def test_what_would_stop_a_run_stops_it(arguments, part, data, tmp_path, refused):
    (tmp_path / "file").write_text("")
    places = {"DATA": str(data), "FILE": str(tmp_path / "file")}
    arguments = [places.get(word, word) for word in arguments]
    default = [] if "--output" in arguments else ["--output", str(tmp_path / "run")]
    message = refused(*DRY_RUN, *arguments, *default)
    assert message.count("\n") == 1
    assert part in message
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_damaged_checkpoint_is_found(run_folder, tmp_path, refused):
    for name in ("config.json", "model.ckpt"):
        (tmp_path / name).write_bytes((run_folder / name).read_bytes()[: 10**4])
    assert "model.ckpt: truncated" in refused(*DRY_RUN, "--output", tmp_path, "--resume")
