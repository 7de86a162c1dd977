import csv
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch

import equigeo
from equigeo.cli import main
from equigeo.cli.main import verbose
from equigeo.tasks import MeshClassification
from equigeo.tasks.mesh_classification import MESH_RECIPES, MeshConfig, TrainedMeshClassifier
from equigeo.tasks.tsp import TourConfig
from equigeo.training import Checkpoint
from equigeo.training.loop.module import Optimization
from equigeo.training.run_folder import RunFolder

TRAIN = ("train", "mesh-classification")


def test_training_writes_its_configuration_and_resume_takes_it(run_folder, data, capsys):
    saved = json.loads((run_folder / "config.json").read_text())
    config = MeshConfig.from_dict(saved)
    assert (config.data, config.split, config.recipe.epochs) == (str(data), "folder", 2)
    assert config.recipe.learning_rate == MESH_RECIPES["default"].learning_rate
    before = (run_folder / "model.ckpt").read_bytes()
    assert main([*TRAIN, "--output", str(run_folder), "--resume"]) == 0
    assert (run_folder / "model.ckpt").read_bytes() == before
    assert "trained 2 epochs" in capsys.readouterr().out


def test_given_options_change_the_preset_alone_where_given(data, tmp_path, capsys):
    arguments = ["--data", str(data), "--output", str(tmp_path / "run"), "--epochs", "1"]
    options = ["--lr", "0.001", "--jitter", "0", "--seed", "3", "--holdout", "1", "--threads", "1"]
    assert main([*TRAIN, *arguments, *options]) == 0
    recipe = TrainedMeshClassifier.load(tmp_path / "run" / "model.ckpt").config.recipe
    assert (recipe.learning_rate, recipe.jitter, recipe.epochs) == (0.001, 0.0, 1)
    assert recipe.weight_decay == MESH_RECIPES["default"].weight_decay
    assert "held-out accuracy" in capsys.readouterr().out


def test_results_of_a_run_without_a_whole_epoch_are_json(data, tmp_path, capsys):
    arguments = ["--data", str(data), "--output", str(tmp_path / "run"), "--epochs", "9"]
    limit = ["--batch-size", "2", "--time-limit", "1e-9", "--json", "--quiet"]
    assert main([*TRAIN, *arguments, *limit]) == 0
    assert json.loads(capsys.readouterr().out)["last"] is None


def test_an_interruption_exits_with_130_and_a_hint(data, tmp_path, capsys, monkeypatch):
    def interrupt(trained, config, output, *_args, **_options):
        RunFolder(output, trained.config_type).begin(config)
        raise KeyboardInterrupt

    monkeypatch.setattr("equigeo.tasks.task.train_model", interrupt)
    arguments = ["--data", str(data), "--output", str(tmp_path / "run")]
    assert main([*TRAIN, *arguments]) == 130
    assert f"--output {tmp_path / 'run'} --resume" in capsys.readouterr().err


def test_interruption_before_the_run_has_begun_gives_no_hint_but_says_what_is_not_there(
    data, run_folder, tmp_path, capsys, monkeypatch
):
    def interrupt(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("equigeo.tasks.task.train_model", interrupt)
    begin = [*TRAIN, "--data", str(data), "--output"]
    for words in ([str(tmp_path / "run")], [str(run_folder), "--overwrite", "--seed", "1"]):
        assert main([*begin, *words, "--quiet"]) == 130
        assert capsys.readouterr().err == "\nequigeo: interrupted\n"
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "typo", tmp_path / "empty"):
        assert main([*begin, str(folder), "--resume"]) == 130
        assert f"no run in {folder} yet, starting one\n" in capsys.readouterr().err
    assert main([*begin, str(run_folder), "--resume"]) == 130
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
        assert main([*TRAIN, *arguments]) == status
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
    assert main([*TRAIN, *arguments]) == 143
    assert capsys.readouterr().err == "equigeo: terminated\n"
    assert not (tmp_path / "run").exists()


@pytest.mark.full
@pytest.mark.parametrize(("number", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_all_processes_of_a_run_end(number, status, data, tmp_path):
    folder = tmp_path / "run"
    arguments = ["--data", data, "--epochs", "1000", "--devices", "2", "--output", folder]
    command = [sys.executable, "-m", "equigeo", *TRAIN, *arguments]
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
    assert main([*TRAIN, *arguments]) == 0
    shown = capsys.readouterr().err
    assert "epoch 2/2" in shown
    assert "accuracy" in shown


def shown(capsys, *arguments):
    out, err = run(capsys, *TRAIN, "--dry-run", *arguments)
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
        (("--output", "RUN", "--resume"), "model.ckpt: truncated"),
    ],
)
def test_what_would_stop_a_run_stops_it(arguments, part, data, run_folder, tmp_path, refused):
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for name in ("config.json", "model.ckpt"):
        (damaged / name).write_bytes((run_folder / name).read_bytes()[: 10**4])
    (tmp_path / "file").write_text("")
    places = {"DATA": str(data), "FILE": str(tmp_path / "file"), "RUN": str(damaged)}
    arguments = [places.get(word, word) for word in arguments]
    default = [] if "--output" in arguments else ["--output", str(tmp_path / "run")]
    message = refused(*TRAIN, "--dry-run", *arguments, *default)
    assert message.count("\n") == 1
    assert part in message
    assert {path.name for path in tmp_path.iterdir()} == {"file", "damaged"}


def train(data, output, *arguments):
    assert main([*TRAIN, "--data", str(data), "--output", str(output), *arguments]) == 0


def table(folder):
    with (folder / "log.csv").open() as file:
        return list(csv.DictReader(file))


def test_table_has_the_history_and_weights_do_not_depend_on_it(data, run_folder, tmp_path):
    run = tmp_path / "run"
    train(data, run, "--epochs", "2", "--evaluate-every", "2", "--logger", "csv")
    history = json.loads((run / "history.json").read_text())
    assert [*table(run)[0]] == [*history[0]]
    for line, row in zip(history, table(run), strict=True):
        assert {name: value for name, value in row.items() if value} == {
            name: str(value) for name, value in line.items() if value is not None
        }
    assert [row["test_accuracy"] != "" for row in table(run)] == [False, True]
    state, expected = (
        torch.load(folder / "model.ckpt", weights_only=True)["state"]
        for folder in (run, run_folder)
    )
    assert all(torch.equal(state[name], value) for name, value in expected.items())


def test_the_table_of_a_resumed_run_is_whole_and_another_run_has_its_own(data, tmp_path):
    run = tmp_path / "run"
    train(data, run, "--epochs", "2", "--time-limit", "1e-9")  # one epoch, and no table of it
    assert not (run / "log.csv").exists()
    train(data, run, "--resume", "--logger", "csv")
    assert [row["epoch"] for row in table(run)] == ["1", "2"]
    train(data, run, "--epochs", "1", "--overwrite")
    assert not (run / "log.csv").exists()


def test_packages_that_a_run_lacks_are_named_before_any_work(data, tmp_path, refused, monkeypatch):
    arguments = (*TRAIN, "--data", data, "--output", tmp_path / "run", "--logger")
    assert "choose from" in refused(*arguments, "paper")
    for name in ("tensorboard", "wandb", "mlflow"):
        monkeypatch.setitem(sys.modules, name, None)
        expected = f"equigeo: error: the logger {name} needs {name}: pip install {name}\n"
        assert refused(*arguments, name) == expected
    monkeypatch.setitem(sys.modules, "lightning", None)
    message = refused(*arguments, "wandb")
    assert message.startswith("equigeo: error: training needs lightning")
    assert "the logger wandb needs wandb" in message
    assert not (tmp_path / "run").exists()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of tensorboard and what it imports
def test_events_have_the_epochs_as_steps(data, tmp_path):
    pytest.importorskip("tensorboard", reason="needs pip install tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = tmp_path / "run"
    train(data, run, "--epochs", "2", "--logger", "tensorboard")
    logging.getLogger("tensorboard").setLevel(logging.ERROR)
    events = EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    losses = [(event.step, event.value) for event in events.Scalars("loss")]
    history = json.loads((run / "history.json").read_text())
    assert losses == [(line["epoch"], pytest.approx(line["loss"])) for line in history]
    train(data, run, "--epochs", "1", "--overwrite")
    assert not [*(run / "tensorboard").glob("events*")]


def test_versions_and_cost_are_said_beside_the_results(checkpoint, data, capsys):
    words = ["predict", str(checkpoint), str(data / "ball" / "test" / "T5.obj")]
    assert main(words) == 0
    plain = capsys.readouterr()
    assert main([*words, "--verbose"]) == 0
    out, err = capsys.readouterr()
    assert out == plain.out
    first, *_, last = err.splitlines()
    assert first.startswith(f"equigeo: {equigeo.__version__}, PyTorch ")
    assert " s with " in last


def test_what_the_library_logs_is_shown_on_one_line_and_only_then(capsys):
    log = logging.getLogger("equigeo.part")
    with verbose(True):
        log.debug("a\x1b[31m\nb")
    handlers, level = logging.getLogger("equigeo").handlers, logging.getLogger("equigeo").level
    assert r"equigeo: DEBUG: a\x1b[31m\nb" in capsys.readouterr().err
    with verbose(False):
        log.debug("silent")
    assert capsys.readouterr().err == ""
    assert logging.getLogger("equigeo").handlers == handlers
    assert logging.getLogger("equigeo").level == level
    with pytest.raises(ValueError, match="x"), verbose(True):
        raise ValueError("x")
    assert " s with " in capsys.readouterr().err


def run(capsys, *arguments):
    assert main([*map(str, arguments)]) == 0
    return capsys.readouterr()


def test_quiet_commands_show_their_results_alone(data, checkpoint, tmp_path, capsys, refused):
    arguments = (*TRAIN, "--data", data, "--epochs", "1")
    loud = run(capsys, *arguments, "--output", tmp_path / "loud")
    assert "epoch 1/1" in loud.err
    quiet = run(capsys, *arguments, "--output", tmp_path / "quiet", "--quiet")
    assert quiet.err == ""
    assert quiet.out.startswith("trained 1 epochs")
    file = tmp_path / "open.obj"  # to be repaired
    file.write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nv 0 0 1\nf 1 2 3\nf 1 2 4\nf 2 3 5\n")
    assert run(capsys, "predict", checkpoint, file).err != ""
    quiet = run(capsys, "predict", checkpoint, file, "--quiet")
    assert quiet.err == ""
    assert "open.obj: " in quiet.out
    assert "no.obj" in refused("predict", checkpoint, tmp_path / "no.obj", "--quiet")
    assert "not allowed with" in refused("evaluate", checkpoint, "--quiet", "--verbose")


@pytest.mark.full
def test_evaluation_makes_no_remark_on_an_unfinished_run(checkpoint, capsys):
    content = Checkpoint.load(checkpoint)
    content.training["history"] = content.training["history"][:1]
    content.save(checkpoint)
    assert "note: this run has finished 1 of 2 epochs" in run(capsys, "evaluate", checkpoint).err
    quiet = run(capsys, "evaluate", checkpoint, "--quiet")
    assert quiet.err == ""
    assert "accuracy" in quiet.out


def test_run_is_repeated_from_its_configuration_and_options(
    run_folder, tmp_path, monkeypatch, data
):
    asked = []

    def note(task, config, output, **options):
        asked.append(config)
        raise KeyboardInterrupt

    monkeypatch.setattr(MeshClassification, "train", note)
    file = run_folder / "config.json"
    assert main([*TRAIN, "--output", str(tmp_path / "run"), "--config", str(file)]) == 130
    assert asked == [MeshConfig.from_dict(json.loads(file.read_text()))]
    recipe = replace(MESH_RECIPES["paper"], epochs=50, jitter=0.25)
    config = MeshConfig("nowhere", recipe=recipe, preset="paper", seed=3)
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(config.to_dict()))
    options = f"--config {file} --data {data} --epochs 1 --seed 4 --preset paper".split()
    assert main([*TRAIN, "--output", str(tmp_path / "run"), *options]) == 130
    assert asked[1:] == [replace(config, data=str(data), seed=4, recipe=replace(recipe, epochs=1))]


def test_a_configuration_that_cannot_be_used_is_one_error(data, tmp_path, refused):
    good, file = MeshConfig("builtin").to_dict(), tmp_path / "mine.json"
    for content, part in (
        (good | {"colour": 1}, "unknown fields ['colour']"),
        (good | {"recipe": good["recipe"] | {"speed": 1}}, "unknown fields ['speed']"),
        ({"data": "builtin"}, "missing fields"),
        (good | {"seed": -1}, "seed"),
        (TourConfig().to_dict(), "not a configuration of mesh-classification"),
        ([1], "must be a JSON object"),
        (None, "not a configuration"),
    ):
        file.write_text("{" if content is None else json.dumps(content))
        arguments = ("--config", file, "--data", data, "--output", tmp_path / "run")
        message = refused(*TRAIN, *arguments)
        assert message.count("\n") == 1
        assert str(file) in message
        assert part in message
    assert not (tmp_path / "run").exists()


def test_another_preset_and_a_resumed_run_have_their_own_recipe(run_folder, tmp_path, refused):
    config = ("--config", run_folder / "config.json")
    for words, part in (
        (("--config", tmp_path / "none.json"), str(tmp_path / "none.json")),
        (("--config", tmp_path), str(tmp_path)),
        ((*config, "--preset", "paper"), "has the recipe of the preset default, asked paper"),
        ((*config, "--resume"), "--resume and --config exclude each other"),
    ):
        assert part in refused(*TRAIN, "--output", tmp_path / "run", *words)
    assert not (tmp_path / "run").exists()
