"""Command lines with hostile options, files and folders."""

import contextlib
import io
import os
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random

import torch

import equigeo.training.loop.fit  # noqa: F401 - Lightning takes seconds, which no case is charged
from equigeo.cli import main
from equigeo.tasks import TASKS
from tests.fuzz.case import Case
from tests.tasks.tiny_checkpoints import tiny_checkpoints

LONGEST = 1200  # characters of what stands on standard error
VALUES = (
    "-1", "0", "1", "7", "1e11", "1" + "0" * 30, "9" * 5000, "nan", "inf", "-inf", "1e400", "1_0",
    "\u0663", "", " ", "0x10", "1.5", "true", "\x1b[2J", "\n", "x" * 10**5, "../..", "/dev/null",
    "/", "/dev/zero", "/proc/self/mem", "\udcff", "%s%n", "$(id)", "--", "folder",
    "default", "paper", "mds", "affine",
)  # fmt: skip
ABSURD = ("-1", "1" + "0" * 30, "9" * 5000, "nan", "1_0", "\u0663", "", " 1", "0x10", "\x1b[2J")
RECIPE = (
    "--epochs", "--batch-size", "--lr", "--weight-decay", "--ema-decay", "--seed", "--devices",
    "--threads", "--evaluate-every", "--time-limit",
)  # fmt: skip
OTHERS = ("--preset", "--output", "--resume", "--overwrite", "--help", "--json")


class _Wrong(Exception):
    """An end that no command line may have."""


def cases(seed: int) -> Iterator[Case]:
    """Command lines of all commands, without end."""
    number = 0
    while True:
        for make in (_absurd_number, _train, _evaluate, _predict, _anything):
            random = Random(f"{seed} {number}")
            number += 1
            arguments, is_refused = make(random)
            shown = " ".join(argument[:20] for argument in arguments)
            label = shown.encode("ascii", "backslashreplace").decode()
            yield Case(label[:200], partial(_run, arguments, is_refused), ())


def _absurd_number(random: Random) -> tuple[list[str], bool]:
    """One number that nothing can be done with; the message has to be about it."""
    task = random.choice(TASKS)
    option, value = random.choice(RECIPE), random.choice(ABSURD)
    return ["train", task.name, "--data=DATA", f"{option}={value}"], True


def _train(random: Random) -> tuple[list[str], bool]:
    task = random.choice(TASKS)
    own = [argument.flag for argument in task.train_arguments]
    return ["train", task.name, *_options(random, [*RECIPE, *own, *own, *OTHERS])], False


def _evaluate(random: Random) -> tuple[list[str], bool]:
    own = [argument.flag for task in TASKS for argument in task.evaluate_arguments]
    data = random.choice([["--data=DATA"], []])
    options = _options(random, [*own, "--threads", *OTHERS])
    return ["evaluate", random.choice(["CHECKPOINT", *VALUES]), *options, *data], False


def _predict(random: Random) -> tuple[list[str], bool]:
    files = [random.choice([*VALUES, "MESH", "CHECKPOINT"]) for _ in range(random.randrange(3))]
    options = _options(random, ["--top", *OTHERS])
    return ["predict", random.choice(["CHECKPOINT", *VALUES]), *files, *options], False


def _anything(random: Random) -> tuple[list[str], bool]:
    words = ("train", "evaluate", "predict", "info", "tsp", "pointcloud", *RECIPE, *OTHERS, *VALUES)
    return [random.choice(words) for _ in range(random.randrange(6))], False


def _options(random: Random, names: list[str]) -> list[str]:
    chosen = [random.choice(names) for _ in range(random.randrange(4))]
    return [name if random.random() < 0.2 else f"{name}={random.choice(VALUES)}" for name in chosen]


def _run(arguments: list[str], is_absurd: bool) -> None:
    """Run a command in a folder of its own, with nothing that could be trained on."""
    before, threads = Path.cwd(), torch.get_num_threads()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            _run_here(arguments, is_absurd)
        finally:
            os.chdir(before)
            torch.set_num_threads(threads)


def _run_here(arguments: list[str], is_absurd: bool) -> None:
    checkpoint = tiny_checkpoints()["mesh"]
    checkpoint.config["train"]["data"] = "missing"
    checkpoint.save(Path("model.ckpt"))
    Path("mesh.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    Path("no folder").write_text("")
    known = {"CHECKPOINT": "model.ckpt", "MESH": "mesh.obj"}
    arguments = [known.get(argument, argument) for argument in arguments]
    if "train" in arguments:
        arguments.append("--output=no folder/run")  # the last one counts
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(arguments)
    _judge(status, err.getvalue(), is_absurd)


def _judge(status: int, said: str, is_absurd: bool) -> None:
    messages = [line for line in said.splitlines() if line.startswith("equigeo: error: ")]
    shown = f"status {status}, {said[:150]!r}"
    if status not in (0, 2) or (is_absurd and status != 2):
        raise _Wrong(shown)
    if status == 2 and not messages:
        raise _Wrong(f"no message: {shown}")
    if len(said) > LONGEST or "Traceback" in said or "\x1b" in said:
        raise _Wrong(f"{len(said)} characters: {shown}")
    if is_absurd and "no folder" in said:  # the output was refused, not the number
        raise _Wrong(f"accepted: {shown}")
