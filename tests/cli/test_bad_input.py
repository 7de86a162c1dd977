"""Every user's error gives one message that names the file and the remedy, and status 2."""

import errno
import os
import re
import shutil
from itertools import product
from pathlib import Path

import pytest
import torch

from equigeo.cli import main
from tests.tasks.tiny_data import write_tiny_folder
from tests.training.test_checkpoint import Bomb

TRAIN = ("train", "mesh-classification")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ((), "COMMAND"),
        (("fly",), "fly"),
        ((*TRAIN, "--data", "builtin", "--split", "17"), "17"),
        ((*TRAIN, "--preset", "best"), "best"),
        ((*TRAIN, "--epochs", "0"), "0"),
        ((*TRAIN, "--devices", "-1"), "-1"),
        ((*TRAIN, "--seed", "x"), "'x'"),
        ((*TRAIN, "--data", "builtin", "--lr", "nan"), "learning_rate must be positive"),
        ((*TRAIN, "--data", "builtin", "--resume", "--overwrite"), "exclude each other"),
        (TRAIN, "--data is missing"),
        (("predict",), "CHECKPOINT"),
        (("train", "potential", "--data", "rmd17"), "equigeo data fetch rmd17"),
        (("train", "pointcloud", "--data", "mnist"), "mnist is for the task affnist"),
        (("train", "pointcloud", "--model", "mds", "--no-embedding"), "not allowed with"),
        (("train", "tsp", "--update-bn", "--no-update-bn"), "not allowed with"),
    ],
)
def test_wrong_options_are_named(refused, arguments, part, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EQUIGEO_DATA", str(tmp_path / "data"))
    assert part in refused(*arguments)
    assert list(tmp_path.iterdir()) == []


ABSURD = (
    "--", "-1", "1e11", "100000000000000000000000000000000", "9" * 5000, "nan", "1_0", "\u0663", "",
    " 1", "0x10", "\x1b[31m",
)  # fmt: skip
NUMBERS = (
    "--epochs", "--batch-size", "--lr", "--weight-decay", "--label-smoothing", "--ema-decay",
    "--logit-adjustment", "--jitter", "--time-limit", "--seed", "--devices", "--threads",
    "--evaluate-every", "--split-index", "--holdout",
)  # fmt: skip


def test_absurd_numbers_are_refused(refused, tmp_path, data):
    arguments = (*TRAIN, "--data", data, "--output", tmp_path / "run")
    for option, value in product(NUMBERS, ABSURD):
        message = refused(*arguments, f"{option}={value}")
        assert len(message) < 400 + len(str(data))
        assert "\x1b" not in message
        field = {"--lr": "learning", "--time-limit": "time limit"}.get(option)
        assert option in message or (field or option[2:].replace("-", "_")) in message
    assert not (tmp_path / "run").exists()


def test_absurd_and_long_values_of_the_other_commands_are_refused(refused, checkpoint, data):
    file = data / "ball" / "test" / "T4.obj"
    for value in ABSURD:
        assert "--top" in refused("predict", checkpoint, file, f"--top={value}")
        for option in ("--threads", "--split-index", "--seed", "--instances", "--images"):
            assert option in refused("evaluate", checkpoint, f"{option}={value}")
    assert "1024" in refused("evaluate", checkpoint, "--threads", "100000000000")
    for arguments in ((*TRAIN, "--split", "x" * 10**5), ("x" * 10**5,), ("predict", "x" * 10**5)):
        assert len(refused(*arguments)) < 1200


def test_unusable_data_are_named(refused, tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path / "cache"))
    missing, empty, archive = (tmp_path / name for name in ("none", "empty", "data.tar.gz"))
    empty.mkdir()
    archive.write_bytes(b"\x1f\x8b\x08nothing")
    one = write_tiny_folder(tmp_path / "one", classes=("ball",))
    for data in (missing, empty, archive, one):
        assert data.name in refused(*TRAIN, "--data", data, "--output", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_unusable_members_are_a_list_whose_names_are_escaped(refused, tmp_path):
    data = write_tiny_folder(tmp_path / "bad", train=2, test=1)
    for name in ("T0.obj", "a\n  b\x1b[31m\nc.obj"):
        (data / "ball" / "train" / name).write_text("v nan 0 0\nf 1 1 1\n")
    first, *lines = refused(*TRAIN, "--data", data, "--output", tmp_path / "run").splitlines()
    assert first.endswith(f"{data}: 2 of 10 mesh files cannot be used; repair or remove them:")
    assert [line.split(":")[0] for line in lines] == [
        "  ball/train/T0.obj",
        r"  ball/train/a\n  b\x1b[31m\nc.obj",
    ]


def test_a_class_with_too_few_meshes_is_named(refused, tmp_path):
    data = write_tiny_folder(tmp_path / "data")
    shutil.rmtree(data / "capsule" / "test")
    arguments = (*TRAIN, "--data", data, "--output", tmp_path / "run")
    message = refused(*arguments)
    assert "class 'capsule' has no mesh to evaluate on under split 'folder'" in message
    assert "16" in refused(*arguments, "--split", "16")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["config.json", "model.ckpt", "history.json"])
def test_a_full_disk_names_the_file(name, data, tmp_path, monkeypatch, capsys):
    replace = os.replace

    def full(source, target):
        if Path(target).name == name:
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    run = tmp_path / "run"
    assert main([*TRAIN, "--data", str(data), "--output", str(run), "--epochs", "1"]) == 2
    (message,) = [x for x in capsys.readouterr().err.splitlines() if x.startswith("equigeo: err")]
    assert "No space left on device" in message
    assert str(run if name == "config.json" else run / name) in message
    assert not [p for p in run.iterdir() if p.name.startswith(".")] if run.exists() else True


def test_an_unwritable_output_is_named(refused, data, tmp_path):
    (tmp_path / "file").write_text("")
    for output in (tmp_path / "file", tmp_path / "file" / "run"):
        message = refused(*TRAIN, "--data", data, "--output", output)
        assert str(output) in message
        assert "--output" in message


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_named(refused, data, tmp_path):
    tmp_path.chmod(0o500)
    message = refused(*TRAIN, "--data", data, "--output", tmp_path / "run")
    assert "permission" in message


def test_another_run_in_the_output_is_kept(refused, run_folder, data):
    before = {p.name: p.read_bytes() for p in run_folder.iterdir()}
    again = (*TRAIN, "--data", data, "--output", run_folder)
    assert re.search("--resume.*--overwrite.*--output", refused(*again))
    assert "seed is 0, asked 1" in refused(*again, "--resume", "--seed", "1")
    message = refused(*again, "--resume", "--epochs", "5", "--batch-size", "2")
    assert "(recipe.epochs is 2, asked 5; recipe.batch_size is 16, asked 2)" in message
    assert {p.name: p.read_bytes() for p in run_folder.iterdir()} == before


def test_a_checkpoint_without_a_configuration_can_only_be_replaced(refused, checkpoint, data):
    for mode in ([], ["--resume"]):
        message = refused(*TRAIN, "--data", data, "--output", checkpoint.parent, *mode)
        assert "config.json: no such file" in message
        assert "start over with --overwrite" in message
        assert "--resume" not in message


CONFIGURATIONS = {
    "cut": '{"data": ',
    "nested brackets": "[" * 10**5,
    "nested objects": '{"a":' * 10**5,
    "nested and closed": "[" * 10**5 + "]" * 10**5,
    "a long number": f'{{"seed": {"9" * 10**5}}}',
    "a large number": f'{{"seed": 1{"0" * 30}}}',
    "too long": " " * (1 << 21),
    "not UTF-8": b"\xff\xfe",
    "null": "null",
}


def test_damaged_configurations_cannot_be_resumed(refused, tmp_path):
    for name, content in CONFIGURATIONS.items():
        written = content if isinstance(content, bytes) else content.encode()
        (tmp_path / "config.json").write_bytes(written)
        message = refused(*TRAIN, "--output", tmp_path, "--resume")
        assert "config.json" in message, name
        assert "--overwrite" in message, name
        assert len(message) < 400 + len(str(tmp_path)), name
        assert (tmp_path / "config.json").read_bytes() == written, name
    (tmp_path / "config.json").unlink()
    os.mkfifo(tmp_path / "config.json")  # which nobody waits for
    assert "no regular file" in refused(*TRAIN, "--output", tmp_path, "--resume")


def test_unusable_checkpoints_are_named(refused, checkpoint, data, tmp_path):
    commands = (["evaluate", checkpoint], ["predict", checkpoint, data / "ball/test/T4.obj"])
    torch.save({"format": "equigeo/1", "state": Bomb(tmp_path / "exploded")}, checkpoint)
    for words in commands:
        assert str(checkpoint) in refused(*words)
    assert not (tmp_path / "exploded").exists()
    assert [p.name for p in checkpoint.parent.iterdir()] == ["model.ckpt"]
    checkpoint.unlink()
    for words in commands:
        assert str(checkpoint) in refused(*words)


def test_unusable_mesh_files_are_named_and_do_not_hide_the_others(
    checkpoint, data, tmp_path, capsys
):
    files = {"empty.obj": "", "cut.off": "OFF\n100 200 0\n0 0 0\n", "mesh.xyz": "0 0 0\n"}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    bad = [str(tmp_path / name) for name in (*files, "missing.obj")]
    good = str(data / "ball" / "test" / "T4.obj")
    assert main(["predict", str(checkpoint), *bad, good]) == 2
    out, err = capsys.readouterr()
    assert [line.split(": ")[0] for line in out.splitlines()] == [good]
    for line, file in zip(err.splitlines(), bad, strict=True):
        assert line.startswith("equigeo: error: ")
        assert file in line


def test_unknown_classes_and_missing_folders_are_named(refused, checkpoint, tmp_path):
    data = write_tiny_folder(tmp_path / "other", classes=("ball", "spoon"))
    assert "spoon" in refused("evaluate", checkpoint, "--data", data)
    assert "r.json" in refused("evaluate", checkpoint, "--json", tmp_path / "none" / "r.json")
    assert not checkpoint.with_name("report.html").exists()


@pytest.mark.parametrize(
    "name", ["model.ckpt", "config.json", "mine.obj", "report.html", "report-other.html"]
)
def test_results_replace_no_other_file(refused, checkpoint, name):
    file = checkpoint.with_name(name)
    before = file.read_bytes() if file.exists() else None
    if name == "mine.obj":
        file.write_bytes(before := b"v 0 0 0\n")
    assert name in refused("evaluate", checkpoint, "--json", file)
    assert (file.read_bytes() if file.exists() else None) == before


HOSTILE = ("<script>alert(1)<", "a'\"& \x1b[31m", "<img src=x onerror=alert(1)>")


def test_hostile_class_names_are_data(tmp_path, capsys):
    data = write_tiny_folder(tmp_path / "data", train=2, test=1, classes=HOSTILE)
    run = tmp_path / "run"
    assert main([*TRAIN, "--data", str(data), "--output", str(run), "--epochs", "1"]) == 0
    assert main(["evaluate", str(run / "model.ckpt")]) == 0
    assert "\x1b" not in capsys.readouterr().out
    page = (run / "report.html").read_text()
    assert not any(name in page for name in HOSTILE)
    assert "&lt;img src=x onerror=alert(1)&gt;" in page


def test_debug_shows_the_traceback(checkpoint):
    with pytest.raises(ValueError, match="no such file"):
        main(["--debug", "evaluate", str(Path(checkpoint).with_name("none"))])
