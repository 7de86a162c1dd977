"""Columns of dtypes, devices and processes: each is compared with plain eager mode."""

import copy
import io
import multiprocessing
import threading
from collections import defaultdict
from collections.abc import Callable
from fnmatch import fnmatchcase as fnmatch
from typing import Any

import torch
from torch import Tensor

from tests.modes.derivatives import SAME, loss_gradients, sum_of
from tests.modes.row import Bound, Row, assert_close, count

Tensors = tuple[Tensor, ...]

SINGLE = {"rtol": 2e-3, "atol": 2e-4}  # some thousand roundings of float32
COARSE = {"rtol": 0.1, "atol": 0.1}  # some hundred roundings of bfloat16, relative to the largest
PATIENCE = 600.0
ONCE = torch.finfo(torch.float16).eps
# One rounding of float16; several in modules that are made of layers.
ROUNDINGS = defaultdict(lambda: ONCE) | {
    "nn.RadialMLP": 4 * ONCE,
    "tensor_products.SignalTensorProduct": 16 * ONCE,
}
# Roundings of kernels, and of features between the layers of networks, relative to the largest.
ON_THE_WAY = {
    "affine.*Conv": ONCE,
    "affine.AffinePointNet": 4 * ONCE,
    "mds.*Point*": 4 * ONCE,
    "points.*": 4 * ONCE,
    "mds.Canonicalized": ONCE,
    "mesh.*": 4 * ONCE,
    "potentials.*": 4 * ONCE,
}
# Products of 300, and exponentials of attention, whose results would be out of range.
STEEP = ("nn.", "tensor_products.", "mesh.")


def autocast(row: Row) -> None:
    """Inputs of two dtypes under autocast; gradients have the dtypes of the inputs."""
    bound, inputs = row.bound().float(), [x.float() for x in row.inputs()]
    want = bound(*inputs)
    given = [x.bfloat16() if k == 0 else x for k, x in enumerate(inputs)]
    given = [x.requires_grad_() for x in given]
    with torch.autocast("cpu", torch.bfloat16):
        found = bound(*given)
        total = sum((r.float().square().mean() for r in found if r.numel()), torch.zeros(()))
    if not total.requires_grad:
        return
    slopes = torch.autograd.grad(total, given, allow_unused=True)
    assert all(
        g is None or (g.dtype == x.dtype and g.isfinite().all())
        for g, x in zip(slopes, given, strict=True)
    )
    assert_near(found, want)


def cast_under_autocast(row: Row) -> None:
    """A module stored in bfloat16 under autocast."""
    bound, inputs = row.bound().float(), [x.float() for x in row.inputs()]
    stored = copy.deepcopy(bound).bfloat16()
    wide = copy.deepcopy(stored).float()
    with torch.autocast("cpu", torch.bfloat16):
        found = stored(*(x.bfloat16() for x in inputs))
    assert_near(found, wide(*(x.bfloat16().float() for x in inputs)))


def bfloat16(row: Row) -> None:
    """Parameters and inputs stored in bfloat16."""
    bound, inputs = row.bound(), row.inputs()
    stored = copy.deepcopy(bound).bfloat16()
    found = stored(*(x.bfloat16() for x in inputs))
    rounded = copy.deepcopy(stored).double()
    assert_near(found, rounded(*(x.bfloat16().double() for x in inputs)))


def float16_at_300(row: Row) -> None:
    """Inputs of magnitude 300 in float16, whose products exceed its range."""
    bound, inputs = row.bound(), row.inputs()
    if row.name.startswith(STEEP):
        with torch.no_grad():
            for parameter in bound.parameters():
                parameter.mul_(0.01)
    stored = copy.deepcopy(bound).half()
    single = copy.deepcopy(stored).float()
    moved = row.name.startswith("potentials.")  # atoms so far apart do not see each other
    floats = torch.float32 if row.covers in ("mds.embed", "mds.frames") else torch.float16
    for large in (1, len(inputs)):
        grown = [x + 300 if moved else x * (300 / x.abs().max()) for x in inputs[:large]]
        given = [x.half() for x in (*grown, *inputs[large:])]
        found, want = stored(*given), single(*(x.float() for x in given))
        for one, other in zip(found, want, strict=True):
            fits = other.half().isfinite()
            assert one.dtype == floats
            # The last bit is decided otherwise where float32 itself rounds otherwise.
            lost = max([1e-5] + [k for what, k in ON_THE_WAY.items() if fnmatch(row.covers, what)])
            lost *= float(other[fits].detach().abs().max()) if fits.any() else 0.0
            assert_close(one[fits].float(), other[fits], rtol=ROUNDINGS[row.covers], atol=lost)


def float32(row: Row) -> None:
    """float32 inputs and parameters return float32."""
    bound, inputs = row.bound(), row.inputs()
    single = copy.deepcopy(bound).float()
    found = single(*(x.float() for x in inputs))
    assert all(x.dtype == torch.float32 for x in found)
    for one, other in zip(found, bound(*inputs), strict=True):
        size = float(other.detach().abs().max()) if other.numel() else 1.0
        assert_close(one.double() / max(size, 1.0), other / max(size, 1.0), **SINGLE)


def inference_mode(row: Row) -> None:
    """``torch.inference_mode`` returns the same bits, for inference tensors too."""
    bound, inputs = row.bound(), row.inputs()
    with torch.inference_mode():
        found = bound(*(x.clone() for x in inputs))
    assert_close(found, tuple(x.detach() for x in bound(*inputs)), rtol=0, atol=0)


def copied(row: Row) -> None:
    """``copy.deepcopy`` and a round trip through ``torch.save``."""
    bound, inputs = row.bound(), row.inputs()
    stream = io.BytesIO()
    torch.save(bound.layer, stream)
    stream.seek(0)
    for layer in (copy.deepcopy(bound.layer), torch.load(stream, weights_only=False)):
        found = Bound(layer, bound.call)(*inputs)
        assert_close(found, bound(*inputs), rtol=0, atol=0)


def threads(row: Row) -> None:
    """Forward and backward from two threads at once equal those from one."""
    bound, inputs = row.bound(), row.inputs()
    want = loss_gradients(bound, inputs)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(4):
                assert_close(loss_gradients(bound, inputs), want, rtol=0, atol=0)
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE)
    if failures:
        raise failures[0]
    assert not any(worker.is_alive() for worker in workers)


def forked(row: Row) -> None:
    """A process forked after use, such as a data loader worker, returns the same values."""
    bound, inputs = row.bound(), row.inputs()
    with torch.no_grad():
        want = bound(*inputs)
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)

    def child() -> None:
        torch.set_num_threads(1)  # as workers do: PyTorch's products wait for threads of the parent
        with torch.no_grad():
            found = bound(*inputs)
        same = [torch.equal(a, b) for a, b in zip(found, want, strict=True)]
        send.send(all(same))

    process = context.Process(target=child)
    process.start()
    arrived = receive.poll(PATIENCE)
    answer = receive.recv() if arrived else None
    process.kill()
    process.join()
    assert arrived, "the child hangs"
    assert answer, "the child finds other numbers"
    count(want)


def empty(row: Row) -> None:
    """Empty batches return empty results, with gradients."""
    bound = row.bound()
    want = bound(*row.inputs())
    inputs = tuple(x[:0].requires_grad_() for x in row.inputs())
    results = bound(*inputs)
    assert [x.shape for x in results] == [(0, *x.shape[1:]) for x in want]
    free = [r.sum() for r in results if r.requires_grad]
    slopes = torch.autograd.grad(free, inputs, materialize_grads=True)
    assert [s.shape for s in slopes] == [x.shape for x in inputs]
    count(want)


def strided(row: Row) -> None:
    """Non-contiguous inputs and expanded output gradients."""
    bound, inputs = row.bound(), row.inputs()
    apart = tuple(torch.stack([x, x], -1)[..., 0] for x in inputs)
    turned = tuple(x.mT.contiguous().mT if x.ndim > 1 else x for x in inputs)
    want = loss_gradients(bound, inputs)
    for given in (apart, turned):
        assert_close(loss_gradients(bound, given), want, **SAME)

    def total(*given: Tensor) -> Any:
        return sum(r.sum() for r in bound(*given))

    assert_close(first_gradients(total, apart), first_gradients(total, inputs), **SAME)


def meta(row: Row) -> None:
    """Shapes and dtypes on the meta device."""
    bound, inputs = row.bound(), row.inputs()
    want = bound(*inputs)
    found = copy.deepcopy(bound).to("meta")(*(x.to("meta") for x in inputs))
    assert [(x.shape, x.dtype) for x in found] == [(x.shape, x.dtype) for x in want]
    assert all(x.device.type == "meta" for x in found)
    count(want)


def default_device(row: Row) -> None:
    """Forward and backward while the default device is ``meta``."""
    bound, inputs = row.bound(), row.inputs()

    def results(*given: Tensor) -> Tensors:
        live = tuple(x.clone().requires_grad_() for x in given)
        found = bound(*live)
        free = [r.square().sum() for r in found if r.requires_grad]
        slopes = torch.autograd.grad(free, live, allow_unused=True) if free else ()
        return (*(r.detach() for r in found), *(s for s in slopes if s is not None))

    want = results(*inputs)
    with torch.device("meta"):
        found = results(*inputs)
    assert_close(found, want, **SAME)


def after_inference(row: Row) -> None:
    """Gradients of a module that was first called in inference mode."""
    bound, inputs = row.bound(), row.inputs()
    with torch.inference_mode():
        bound(*inputs)
    assert_close(loss_gradients(bound, inputs), loss_gradients(row.bound(), inputs), **SAME)


def after_transforms(row: Row) -> None:
    """Gradients of a module that was first called under ``torch.func`` transforms."""
    bound, inputs = row.bound(), row.inputs()

    def loss(*given: Tensor) -> Any:
        return sum_of(r.square().sum() for r in bound(*given))

    slopes = torch.func.grad(loss, argnums=tuple(range(len(inputs))))
    first = slopes(*inputs)
    torch.func.jvp(bound, inputs, inputs)
    assert_close(slopes(*inputs), first, **SAME)
    assert_close(loss_gradients(bound, inputs), loss_gradients(row.bound(), inputs), **SAME)


def first_gradients(function: Callable[..., Any], inputs: Tensors) -> Tensors:
    live = tuple(x.detach().requires_grad_() for x in inputs)
    return torch.autograd.grad(function(*live), live, materialize_grads=True)


def assert_near(found: Tensors, want: Tensors) -> None:
    for one, other in zip(found, want, strict=True):
        size = float(other.detach().abs().max()) if other.numel() else 1.0
        assert_close(one.double() / max(size, 1e-3), other.double() / max(size, 1e-3), **COARSE)


COLUMNS = [
    autocast,
    cast_under_autocast,
    bfloat16,
    float16_at_300,
    float32,
    inference_mode,
    copied,
    threads,
    forked,
    empty,
    strided,
    meta,
    default_device,
    after_inference,
    after_transforms,
]
