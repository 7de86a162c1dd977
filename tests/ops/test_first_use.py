"""The self-test on first use, executed on the simulator; each process has a cache of its own."""

import contextlib
import ctypes
import json
import os
import re
import subprocess
import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from equigeo import __version__
from equigeo._core.files import warn_once
from equigeo.ops import cuda_status, first_use, kernels_info, run_self_test
from equigeo.ops.first_use import EXECUTED, SIMULATED, Verdict, key_of, read_verdict, write_verdict
from tests.ops.simulated import ROOT, WRONG, needs_simulator, printed, run
from tests.wrong_inputs import refused

# An op, and how often the self-test ran so far; of all cases some, for the simulator is slow.
USE = """
import torch, equigeo.ops as ops
from equigeo.ops import first_use
some = ("gather_sum", "spherical_harmonics_backward", "grid_product", "channelwise_conv")
cases = [case for case in first_use.all_cases() if case.op in some]
first_use.all_cases = lambda: cases
runs, test = [], first_use._test_kernels
first_use._test_kernels = lambda index: (runs.append(index), test(index))[1]
zero, ends = torch.tensor([0]), torch.tensor([0, 1])
def use(x=torch.ones(1, 2)):
    return ops.gather_sum(x, zero, ends, zero, ends)
"""


def the_file(cache: Path) -> Path:
    (file,) = (cache / "self-tests").iterdir()
    return file


def verdict(cache: Path) -> dict[str, object]:
    return json.loads(the_file(cache).read_text())["verdict"]


@needs_simulator
def test_every_kernel_is_tested_once_and_the_next_process_believes_it(tmp_path):
    code = USE.replace("if case.op in some", "") + "use(); use(); print(runs); use()"
    first = run(code, tmp_path)
    assert first.returncode == 0, first.stderr
    assert first.stdout.split() == ["[-1]"]
    assert "CUDA kernels passed their self-test on simulator in" in first.stderr
    assert EXECUTED in first.stderr
    found = verdict(tmp_path)
    assert found["state"] == "passed"
    assert found["seconds"] > 0
    again = run(code, tmp_path)
    assert again.stdout.split() == ["[]"]
    assert again.stderr == ""


@needs_simulator
def test_every_op_of_the_library_takes_part(tmp_path):
    code = """
import torch, equigeo.ops as ops
from equigeo.ops.runtime.declare import SCHEMAS
compiled = {name for name in SCHEMAS if ops.runs_compiled(name, torch.device("cpu"))}
found = ops.run_self_test("cpu")
print(found.has_passed, found.cases == len(compiled) > 20)
print(ops.cuda_status())
"""
    lines = printed(code, tmp_path).splitlines()
    assert lines[0] == "True True"
    status = eval(lines[1])
    assert status["status"] == EXECUTED
    assert status["compiled for"] == "the simulator"
    assert status["self-test, -1: simulator (sm_90)"].startswith("passed on 20")


def messages(code: str, cache: Path, **variables: str) -> list[str]:
    """What is printed, a line each, where line breaks of messages are folded."""
    return printed(code, cache, **variables).splitlines()


REFUSED = (
    USE
    + """
for _ in range(2):
    try:
        use()
        print("no error")
    except RuntimeError as error:
        print(" ".join(str(error).split()))
print(runs)
print(list(ops.cuda_status().values())[-1])
"""
)


@needs_simulator
def test_a_kernel_with_wrong_values_is_refused_with_op_deviation_and_bound(tmp_path):
    first, second, runs, status = messages(WRONG + REFUSED, tmp_path)
    start = "the CUDA kernels failed their self-test on simulator and are not run there: "
    assert first.startswith(f"{start}grid_product")
    assert re.search(r"grid_product, result \d of the [a-z ]+ in float\d\d: it differs from", first)
    assert re.search(r"by \d\S*, where \d\S* is tolerated", first)
    assert "EQUIGEO_CUDA_SELF_TEST=0 runs the kernels nevertheless" in first
    assert second == first
    assert runs == "[-1]"
    assert status.startswith("failed on 20")
    # A failure is not cached: the next process tests again.
    assert verdict(tmp_path)["state"] == "failed"
    assert messages(REFUSED, tmp_path)[:3] == ["no error", "no error", "[-1]"]


@needs_simulator
def test_the_self_test_can_be_left_out(tmp_path):
    code = USE + "use(); print(runs, list(ops.cuda_status().values())[-1])"
    out = printed(code, tmp_path, EQUIGEO_CUDA_SELF_TEST="0")
    assert out == "[] skipped, see EQUIGEO_CUDA_SELF_TEST\n"
    assert printed(code, tmp_path, EQUIGEO_CUDA_SELF_TEST="") == out  # in the simulator alone
    assert not list(tmp_path.iterdir())
    result = run("import equigeo.ops", tmp_path, EQUIGEO_CUDA_SELF_TEST="no")
    assert "ValueError: EQUIGEO_CUDA_SELF_TEST must be 0 or 1, got 'no'" in result.stderr


@needs_simulator
def test_a_truncated_cache_is_tested_again(tmp_path):
    printed(USE + "use()", tmp_path)
    file = the_file(tmp_path)
    file.write_text(file.read_text()[:80])
    assert printed(USE + "use(); print(runs)", tmp_path) == "[-1]\n"
    assert verdict(tmp_path)["state"] == "passed"


@needs_simulator
def test_of_two_threads_one_tests_and_the_other_waits(tmp_path):
    code = (
        USE
        + """
import threading
start, results = threading.Barrier(2), []
def work():
    start.wait()
    results.append(use().sum().item())
threads = [threading.Thread(target=work) for _ in range(2)]
for t in threads: t.start()
for t in threads: t.join()
print(runs, results)
"""
    )
    assert printed(code, tmp_path) == "[-1] [2.0, 2.0]\n"


@needs_simulator
def test_plans_are_made_on_first_use_alone(tmp_path):
    code = """
import ctypes, torch, equigeo.ops as ops
made = ctypes.CDLL(ops.kernels_info()["cuda"]).equigeo_plans_made
made.restype = ctypes.c_int64
scalar = ops.Segment.block(0, mul=1, d=1)
def table_of(value):
    scale = ops.Path(scalar, scalar, scalar, 0, torch.full((1, 1, 1), value))
    found = ops.PathTable.from_paths([scale], (1, 1, 1, 1), by_output=True)
    return found.__class__(found.paths, found.entries, found.values.float(), 1, 1, 1, 1)
def use(table):
    x = torch.full((1, 1), 3.0, requires_grad=True)
    out = ops.channelwise_product(x, x, x, table)  # value x^3, and all its derivatives
    (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    slope.sum().backward()
    return [out.item(), slope.item(), x.grad.item()]
def used(*tables):
    start = made()
    found = [use(table) for table in tables]
    return found, made() - start
table = table_of(2.0)
print(*used(table), *used(table))
table.values.fill_(4.0)
print(*used(table))
many = [table_of(float(n)) for n in range(128)]
found, count = used(*many)
print(all(one == [27 * n, 27 * n, 18 * n] for n, one in enumerate(found)), count)
print(used(*many)[1], *used(table))
"""
    values = [[54.0, 54.0, 36.0]]
    doubled = [[108.0, 108.0, 72.0]]
    assert printed(code, tmp_path, EQUIGEO_CUDA_SELF_TEST="0").splitlines() == [
        f"{values} 1 {values} 0",  # once for an op, its gradients and theirs
        f"{doubled} 0",
        "True 128",
        f"0 {doubled} 1",  # those that were used last are kept
    ]


MODES = {
    "in inference mode": "with torch.inference_mode(): use()",
    "under autocast": "with torch.autocast('cpu', torch.bfloat16): use()",
    "under vmap": "torch.func.vmap(use)(torch.ones(3, 1, 2))",
    "under a gradient of torch.func": "torch.func.grad(lambda x: use(x).sum())(torch.ones(1, 2))",
    "in a compiled program": "torch.compile(use, backend='aot_eager')(torch.ones(1, 2))",
    "inside of a backward pass": """
class Late(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x.clone()
    @staticmethod
    def backward(ctx, grad): return use(grad)
Late.apply(torch.ones(1, 2, requires_grad=True)).sum().backward()
""",
    "with another default dtype": "torch.set_default_dtype(torch.float64); use()",
    "with deterministic algorithms": """
torch.use_deterministic_algorithms(True)
use()
assert torch.are_deterministic_algorithms_enabled()
""",
    "after calls without values": """
from torch._subclasses import FakeTensorMode
with FakeTensorMode() as mode:
    use_fake = ops.gather_sum(
        torch.ones(1, 2), *(mode.from_tensor(x) for x in (zero, ends, zero, ends))
    )
meta = [x.to("meta") for x in (torch.ones(1, 2), zero, ends, zero, ends)]
ops.gather_sum(*meta)
class Layer(torch.nn.Module):
    def forward(self, x): return use(x)
torch.export.export(Layer(), (torch.ones(1, 2),))
assert not runs, "what has no values is no use"
use()
""",
}


@needs_simulator
def test_the_first_use_may_be_in_any_mode(tmp_path):
    reset = """
import ctypes, os, shutil
def again():
    runs.clear()
    torch.set_default_dtype(torch.float32)
    torch.use_deterministic_algorithms(False)
    first_use._watch.verdicts.clear()
    ctypes.CDLL(first_use._watch.path).equigeo_trust_device(-1, 0)
    shutil.rmtree(os.environ["EQUIGEO_CACHE"], ignore_errors=True)
"""
    parts = [
        f"again()\n{text}\nassert runs == [-1], ({name!r}, runs)" for name, text in MODES.items()
    ]
    printed("\n".join([USE, reset, *parts]), tmp_path / "cache")


@needs_simulator
def test_what_stops_the_test_is_said_and_is_no_verdict(tmp_path):
    code = (
        USE
        + """
def stop():
    raise MemoryError("nothing left")
some, first_use.all_cases = first_use.all_cases, stop
try:
    use()
except RuntimeError as error:
    print(error)
first_use.all_cases = some
print(use().sum().item())
"""
    )
    out = printed(code, tmp_path).splitlines()
    assert out[0].endswith("before they run, but stopped: nothing left")
    assert out[1] == "2.0"


def test_the_library_of_the_cpu_asks_nothing():
    path = kernels_info()["cpu"]
    if path is None:
        pytest.skip("no compiled kernels")
    assert not hasattr(ctypes.CDLL(path), "equigeo_watch_devices")


def test_a_device_of_another_kind_is_refused():
    wrong = "meta" if kernels_info()["cuda"] else "cpu"
    refused(f"device must be of type .*, got {wrong}", run_self_test, wrong)


@pytest.mark.skipif(kernels_info()["cuda"] is not None, reason="CUDA kernels are loaded")
def test_without_a_library_there_is_nothing_to_test():
    refused("a self-test needs a loaded library of CUDA kernels", run_self_test, error=RuntimeError)
    assert cuda_status() == {"status": EXECUTED, "compiled for": "no library is loaded"}


@pytest.mark.parametrize("capturing", [True, False])
def test_a_capture_is_refused_with_the_way_out(monkeypatch, capturing):
    monkeypatch.setattr(torch.cuda, "device", contextlib.nullcontext)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capturing)
    if not capturing:
        first_use._refuse_capture(0, "a card")
        return
    with pytest.raises(RuntimeError, match=r"first op .* must not be captured .*run_self_test\(\)"):
        first_use._refuse_capture(0, "a card")


@pytest.mark.parametrize("page", ["README.md", "csrc/README.md", "docs/cuda.md"])
def test_documents_say_where_the_kernels_have_run(page):
    assert EXECUTED in " ".join((ROOT / page).read_text().replace("*", "").split())


def test_architectures_are_named(monkeypatch):
    library = SimpleNamespace(equigeo_architectures=lambda: b"80,90,all-major")
    monkeypatch.setattr(ctypes, "CDLL", lambda path: library)
    assert first_use._architectures("new") == "sm_80, sm_90, all-major"


PASSED = Verdict("passed", "2026-01-02T03:04:05+00:00", 0.8, 25, "gather_sum")
KEY = {"device": "NVIDIA H100", "library": "0" * 64}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.delenv("EQUIGEO_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "equigeo"


def test_a_verdict_is_kept_for_its_key_alone(cache):
    assert read_verdict(KEY) is None
    write_verdict(KEY, PASSED)
    assert read_verdict(KEY) == PASSED
    assert read_verdict(KEY | {"library": "1" * 64}) is None
    assert the_file(cache).suffix == ".json"  # and nothing that was half written
    assert PASSED.has_passed
    assert not Verdict("failed", PASSED.when, 0.8, 3, "gather_sum").has_passed


def test_the_cache_may_be_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path / "chosen"))
    write_verdict(KEY, PASSED)
    assert len(list((tmp_path / "chosen" / "self-tests").iterdir())) == 1
    monkeypatch.delenv("EQUIGEO_CACHE")
    assert read_verdict(KEY) is None


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe\x00",
        b"[]",
        b"null",
        b"{}",
        json.dumps({"key": KEY, "verdict": {"state": "passed"}}).encode(),
        json.dumps({"key": KEY, "verdict": {**vars(PASSED), "state": "trusted"}}).encode(),
        json.dumps({"key": KEY, "verdict": {**vars(PASSED), "when": 3}}).encode(),
        json.dumps({"key": KEY, "verdict": {**vars(PASSED), "more": 3}}).encode(),
        json.dumps({"key": {}, "verdict": vars(PASSED)}).encode(),
        b"[" * 100_000,
        *(json.dumps({"key": KEY, "verdict": vars(PASSED)}).encode()[:end] for end in (0, 90, -1)),
    ],
)
def test_a_damaged_file_is_as_good_as_none(cache, content):
    write_verdict(KEY, PASSED)
    the_file(cache).write_bytes(content)
    assert read_verdict(KEY) is None
    write_verdict(KEY, PASSED)
    assert read_verdict(KEY) == PASSED


@pytest.mark.parametrize("place", ["a file in its way", "no home"])
def test_where_nothing_can_be_written_nothing_is_kept(place, tmp_path, monkeypatch, caplog):
    warn_once.cache_clear()
    file = tmp_path / "file"
    file.write_text("")
    no_home = "~nobody-of-this-name/cache"
    monkeypatch.setenv("EQUIGEO_CACHE", no_home if place == "no home" else str(file))
    for _ in range(2):
        write_verdict(KEY, PASSED)
        assert read_verdict(KEY) is None
    (record,) = caplog.records
    assert record.getMessage().startswith("the self-test of CUDA kernels is not kept and runs in")


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="folders have no owners")
@pytest.mark.parametrize("change", ["mode of the folder", "mode of the file", "owner"])
def test_a_verdict_that_others_may_have_written_is_not_read(cache, change, monkeypatch, caplog):
    warn_once.cache_clear()
    write_verdict(KEY, PASSED)
    file = the_file(cache)
    assert (file.parent.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)
    if change == "owner":
        monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
    else:
        (file if change == "mode of the file" else file.parent).chmod(0o720)
    for _ in range(2):
        assert read_verdict(KEY) is None
    write_verdict(KEY, PASSED)  # a file of its own, if the folder may be used
    assert (read_verdict(KEY) is not None) is (change == "mode of the file")
    (record,) = caplog.records
    message = record.getMessage()
    assert "another user owns or may write to" in message
    if change != "mode of the file":
        assert message.startswith("the self-test of CUDA kernels is not kept and runs in every")
        assert "EQUIGEO_CACHE" in message
    if change == "mode of the folder":  # the remedy that the message names
        file.parent.chmod(0o775)
        assert read_verdict(KEY) is None
        subprocess.run(re.search("`(.*)`", message)[1], shell=True, check=True)
        assert read_verdict(KEY) == PASSED


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
@pytest.mark.parametrize("kind", ["pipe", "link to a device", "folder"])
def test_what_is_no_file_is_as_good_as_none_and_not_waited_for(cache, kind):
    write_verdict(KEY, PASSED)
    file = the_file(cache)
    file.unlink()
    make = {"pipe": os.mkfifo, "folder": os.mkdir}.get(kind, partial(os.symlink, os.devnull))
    make(file)
    found = []
    thread = threading.Thread(target=lambda: found.append(read_verdict(KEY)), daemon=True)
    thread.start()
    thread.join(60)
    assert found == [None]
    write_verdict(KEY, PASSED)
    assert (read_verdict(KEY) == PASSED) is (kind != "folder")


def test_a_verdict_is_about_content_device_driver_and_versions(tmp_path, monkeypatch):
    library = tmp_path / "one.so"
    library.write_bytes(b"kernels")
    key = key_of(SIMULATED, str(library))
    assert key["device"] == "simulator"
    assert key["capability"] == "sm_90"
    assert key["equigeo"] == __version__
    other = tmp_path / "two.so"
    other.write_bytes(b"other kernels")
    assert key_of(SIMULATED, str(other))["library"] != key["library"]
    monkeypatch.setattr(first_use, "_card", lambda index: ("NVIDIA H100", "sm_90", "CUDA 12.8"))
    assert key_of(1, str(library))["driver"] == "CUDA 12.8"
