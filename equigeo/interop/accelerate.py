"""Acceleration of models of other libraries."""

from __future__ import annotations

import copy
import re
import warnings
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib import metadata
from itertools import chain
from operator import itemgetter
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._autograd import _get_sequence_nr
from torch.autograd.graph import Node
from torch.jit import ScriptModule

from equigeo.interop.accelerated.base import (
    FUSION,
    HERE,
    Accelerated,
    Candidate,
    last_line,
    module_of,
    original_name,
    passed_by,
)
from equigeo.interop.accelerated.edges import AcceleratedConvolution
from equigeo.interop.accelerated.search import CandidateSearch
from equigeo.interop.certificate import (
    AccelerationReport,
    Certificate,
    Check,
    ModuleCertificate,
    ModuleNote,
    ModuleShare,
    first_problem,
)
from equigeo.interop.compare_module import (
    Energy,
    Evidence,
    ModelEnergy,
    compare_module,
    table_precision,
)
from equigeo.interop.frozen import freeze, is_part

# First and last tested minor version of each library, as the Makefile and pyproject.toml pin them.
TESTED = {
    "e3nn": ("e3nn", "0.4", "0.6"),
    "mace": ("mace-torch", "0.3", "0.3"),
    "nequip": ("nequip", "0.19", "0.19"),
    "allegro": ("nequip-allegro", "0.8", "0.8"),
    "sevenn": ("sevenn", "0.13", "0.13"),
    "e3tools": ("e3tools", "0.1", "0.1"),
}
STEPS = 3  # before the measurement, in which TorchScript optimizes its code, and in it


def accelerate(
    model: nn.Module,
    verify: bool = False,
    *,
    frozen: bool = False,
    energy: Energy | None = None,
    positions: Tensor | None = None,
    example: tuple[Any, ...] | None = None,
) -> AccelerationReport:
    """Replace the equivariant operations of a model by ops of this library, in place.

    Replaced are ``e3nn.o3.TensorProduct`` with subclasses, ``TensorSquare``, ``Linear`` and
    ``SphericalHarmonics``; ``e3nn.nn.Gate``, ``BatchNorm`` and ``FullyConnectedNet``; the
    convolutions of NequIP, MACE, SevenNet, HIENet and e3nn's ``gate_points`` networks, 2101 to
    2106, by one op without messages in memory; the products of Allegro, in its layout; and the
    symmetric contraction of MACE, in any basis.

    Modules stay the same objects, of a subclass of their class with another ``forward``:
    parameters, buffers, hooks, optimizers, ``state_dict``, copies and pickles are not affected. The
    original ``forward`` runs for inputs that the ops do not support (mixed dtypes, autocast,
    tracing by ``torch.fx``) and after an attribute or inner module was replaced or got a hook. Each
    module is compared with its original on random features and restored if it differs.

    Derivatives of any order, forward mode and ``torch.func`` pass through the ops. Accelerate
    before ``torch.compile`` and ``torch.export``; exported programs need ``import equigeo.ops``
    where they run. Call :func:`restore` before TorchScript and ONNX.

    Parameters
    ----------
    model : Module
        Any module that is or contains modules of e3nn 0.4.4 to 0.6, NequIP, Allegro, MACE or
        SevenNet, also from a ``torch.package``.
    verify : bool
        Compare each module thoroughly and restore those beyond rounding: values, gradients, second
        gradients and state, for strided, transposed, expanded, empty and many inputs (at most
        4,099 rows), repeated calls, casts between dtypes, vectors of extreme lengths, errors, and,
        for one module per kind, ``torch.compile``.
    frozen : bool
        Prepare the model for evaluation alone, in about two seconds: radial networks of MACE,
        NequIP and SevenNet become splines of the distance with continuous derivatives, exact to
        rounding, evaluated inside of the convolutions on the CPU. Where MACE transforms distances
        by species, each pair has splines from when it first occurs, up to 512 MiB per network.
        Distances below a twentieth of the cutoff, or a tenth where networks are steep or distances
        transformed in float32, use the network, and so does a network whose parameters are changed
        in place; compiled and exported programs raise for such distances and do not follow such
        changes. ``train()`` and ``load_state_dict`` raise until :func:`restore`; parameters and
        the state dict are unchanged. Hooks must not be added to radial networks.
    energy : callable, optional
        ``energy(positions, index)`` of the model, for ``verify=True``: builds the graph of an
        isolated system of any size from positions (atoms, 3) and the number of the atom in each
        row, index (atoms,), and returns one number. Energy, forces and second gradients are
        compared as well, and modules that change them are restored.
    positions : Tensor, (atoms, 3), floating, optional
        The system for ``energy``.
    example : tuple, optional
        Arguments of the model, ``(data,)`` for one dictionary. The report then contains the share
        of the step time in replaced modules, and the shares of all others. A step of a copy of the
        original model is measured: forward and backward pass, or the backward pass that the model
        runs itself, as for forces. Model, arguments and random numbers are not changed.

    Returns
    -------
    AccelerationReport
        Replaced modules, kept ones with reasons, and equivariant modules of unknown kinds.

    Raises
    ------
    TypeError
        If ``model`` is no module, or ``example`` no tuple.
    ValueError
        If the model cannot be copied or evaluated on ``example``, or ``energy``, ``positions`` and
        ``verify`` are not given together. Nothing is replaced then.

    Warns
    -----
    UserWarning
        Once per library of the model in a version that was not tested.

    Examples
    --------
    >>> from e3nn import o3
    >>> model = nn.Sequential(o3.Linear("4x0e + 4x1o", "8x0e + 8x1o"), nn.Identity())
    >>> print(accelerate(model))
    1 replaced, 0 kept
    replaced
      0  Linear  equigeo.nn.Linear
    share of the step time: not measured, needs example=
    >>> isinstance(model[0], o3.Linear)
    True
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if (energy is None) != (positions is None):
        missing = "positions" if positions is None else "energy"
        raise ValueError(f"energy and positions must be given together, got no {missing}")
    if energy is not None and not verify:
        raise ValueError("energy and positions need verify=True, got verify=False")
    if example is not None and not isinstance(example, tuple):
        raise TypeError(
            f"example must be a tuple of the model's arguments, got {type(example).__name__}: "
            "write (data,) for one argument"
        )
    modules = dict(model.named_modules())
    for library in {module_of(type(module)).split(".")[0] for module in modules.values()}:
        _warn_untested(library)
    seconds = None if example is None else _step_time(model, example)
    whole = None
    if energy is not None and positions is not None:
        whole = ModelEnergy(energy, positions, tuple(model.parameters()))
    report = Acceleration(model, verify, whole).run()
    if frozen:
        tables = freeze(model)
        made = (note for note in tables if isinstance(modules[note.path], Accelerated))
        done = {note.path: note for note in (*report.replaced, *made)}
        left = {note.path: note for note in (*report.kept, *tables) if note.path not in done}
        report = replace(report, replaced=tuple(done.values()), kept=tuple(left.values()))
    if seconds is None:
        return report
    share, others = _shares(modules, report.replaced, seconds)
    return replace(report, share=share, others=others)


class Acceleration:
    """One acceleration of a model, in place."""

    def __init__(
        self,
        model: nn.Module,
        verify: bool,  # whether to gather a certificate
        whole: ModelEnergy | None,  # energy of the model
    ) -> None:
        with torch.inference_mode(False):  # gradients may need the tables of what it makes
            search = CandidateSearch(model)
        tensor = next(chain(model.parameters(), model.buffers()), torch.empty(0))
        self.found, self.kept = search.found, list(search.kept)
        self.unknown = tuple(search.unknown)
        self.verify, self.whole, self.device = verify, whole, tensor.device
        self.installed: list[Candidate] = []
        self.certificates: list[ModuleCertificate] = []
        self.compiled: set[type] = set()  # kinds that were compared under torch.compile

    def run(self) -> AccelerationReport:
        """Replace all supported modules and return the report."""
        before = self.whole.gather() if self.whole else None
        checks: tuple[Check, ...] = ()
        try:
            for candidate in self.found:
                kind = candidate.kind_name
                self.installed.append(candidate)
                candidate.install(self.device)
                problem = candidate.problem()
                if problem is None and self.verify:
                    problem = self._certify(candidate, kind)
                if problem is not None:
                    self._put_back(problem)
            if self.whole and before:
                checks = self._keep_energy(self.whole, before)
        except BaseException:
            for candidate in reversed(self.installed):
                candidate.uninstall()
            raise
        replaced = tuple(_note(candidate, candidate.kind.runs_on) for candidate in self.installed)
        certificate = Certificate(tuple(self.certificates), checks) if self.verify else None
        return AccelerationReport(replaced, tuple(self.kept), certificate, self.unknown)

    def _put_back(self, problem: str) -> None:
        candidate = self.installed.pop()
        candidate.uninstall()
        self.kept.append(_note(candidate, problem))

    def _certify(self, candidate: Candidate, kind: str) -> str | None:
        # That code can be compiled does not depend on the numbers of a module.
        checks = compare_module(candidate.module, compiled=candidate.kind not in self.compiled)
        certificate = ModuleCertificate(candidate.path, kind, candidate.kind.runs_on, checks)
        self.certificates.append(certificate)
        if certificate.problem is None:
            self.compiled.add(candidate.kind)
        return certificate.problem

    def _keep_energy(self, whole: ModelEnergy, before: Evidence) -> tuple[Check, ...]:
        """Restore the modules that change the energy or its derivatives beyond rounding."""
        precisions = {table_precision(candidate.module) for candidate in self.installed}
        coarse = torch.float32 if torch.float32 in precisions else torch.float64

        def checks() -> tuple[Check, ...]:
            return whole.compare(before, whole.gather(), coarse)

        found = checks()
        if first_problem(found) is None:
            return found
        suspects, self.installed = self.installed, []
        for candidate in reversed(suspects):
            candidate.uninstall()
        for candidate in suspects:
            self.installed.append(candidate)
            candidate.install(self.device)
            found = checks()
            if problem := first_problem(found):
                self._put_back(f"changes the model: {problem}")
        return checks()


def _note(candidate: Candidate, note: str) -> ModuleNote:
    return ModuleNote(candidate.path, candidate.kind_name, note)


@cache
def _warn_untested(library: str) -> None:
    """Warn once if the installed version of a library was not tested."""
    try:
        package, first, last = TESTED[library]
        version = metadata.version(package)
    except (KeyError, metadata.PackageNotFoundError):
        return
    if not _minor(first) <= _minor(version) <= _minor(last):
        tested = f"{first} to {last}" if first != last else first
        warnings.warn(
            f"accelerate was tested with {package} {tested}, got {version}: verify=True compares "
            "its results",
            stacklevel=3,
        )


def _minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def _step_time(model: nn.Module, example: tuple[Any, ...]) -> dict[str, float]:
    """Return the seconds of a step in each module without its inner ones, by path."""
    tensor = next(chain(model.parameters(), model.buffers()), torch.empty(0))
    devices = [tensor.device] if tensor.device.type not in ("cpu", "meta") else []
    kind = devices[0].type if devices else "cuda"  # not used without devices
    try:
        with (
            torch.inference_mode(False),
            torch.enable_grad(),
            torch.random.fork_rng(devices, device_type=kind),
        ):
            clock = StepClock(copy.deepcopy(model), bool(devices))
            for _ in range(STEPS):
                clock.step(copy.deepcopy(example))
            clock.seconds.clear()
            for _ in range(STEPS):
                clock.step(copy.deepcopy(example))
    except Exception as error:  # any error of the other library
        raise ValueError(
            f"example fails on a copy of the model, nothing was replaced: {last_line(error)}"
        ) from error
    return dict(clock.seconds)


class StepClock:
    """Seconds of forward and backward passes in each module of a model without its inner ones."""

    # Every call of a module, and of a node of its autograd graph, is charged to the module, until
    # an inner call begins. Nodes belong to the module that was running at their sequence number.
    def __init__(self, model: nn.Module, asynchronous: bool) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._model, self._asynchronous = model, asynchronous
        self._running: list[str] = []  # paths, the innermost call last
        self._last = 0.0  # time up to which everything is charged
        self._starts: list[tuple[int, str]] = []  # first sequence number, path
        self._nodes: set[Node] = set()
        self._differentiated = False
        for path, module in model.named_modules():
            if not isinstance(module, ScriptModule):
                begin = partial(self._begin_module, path)
                module.register_forward_pre_hook(begin, prepend=True)
                module.register_forward_hook(self._end_module, always_call=True)

    def step(self, example: tuple[Any, ...]) -> None:
        """Run the forward pass, and the backward pass unless the model ran one."""
        self._starts, self._differentiated = [], False
        self._begin_module("")
        try:
            out = self._model(*example)
            self._watch(out)
            leaves: list[Any] = [n for n in self._nodes if n.name().endswith("::AccumulateGrad")]
            if leaves and not self._differentiated:
                outputs = [value for value in _tensors(out) if value.grad_fn is not None]
                torch.autograd.grad(
                    outputs,
                    [leaf.variable for leaf in leaves],
                    [torch.ones_like(value) for value in outputs],
                    allow_unused=True,
                )
        finally:
            self._end()
            self._nodes.clear()  # their hooks refer to this clock, unseen by garbage collection

    def _begin_module(self, path: str, *call: Any) -> None:
        self._begin(path)
        self._starts.append((_get_sequence_nr(), path))

    def _end_module(self, module: nn.Module, given: Any, out: Any) -> None:
        self._watch(out)
        self._end()
        self._starts.append((_get_sequence_nr(), self._running[-1]))

    def _begin_node(self, path: str, gradients: Any) -> None:
        self._differentiated = True
        self._begin(path)

    def _begin(self, path: str) -> None:
        self._charge()
        self._running.append(path)
        self._last = self._now()

    def _end(self, *gradients: Any) -> None:
        self._charge()
        self._running.pop()
        self._last = self._now()

    def _charge(self) -> None:
        now = self._now()
        if self._running:
            self.seconds[self._running[-1]] += now - self._last
        self._last = now

    def _now(self) -> float:
        if self._asynchronous:
            torch.accelerator.synchronize()
        return perf_counter()

    def _watch(self, out: Any) -> None:
        """Time the nodes of the graph of an output."""
        self._charge()
        waiting = [] if self._differentiated else [value.grad_fn for value in _tensors(out)]
        while waiting:
            node = waiting.pop()
            if node is None or node in self._nodes:
                continue
            self._nodes.add(node)
            waiting += [source for source, _ in node.next_functions]
            if not node.name().endswith("::AccumulateGrad"):
                after = bisect_right(self._starts, node._sequence_nr(), key=itemgetter(0))
                path = self._starts[after - 1][1] if after else ""  # a node of the example
                node.register_prehook(partial(self._begin_node, path))
                node.register_hook(self._end)
        self._last = self._now()


def _tensors(value: Any) -> Iterator[Tensor]:
    """Return the tensors in nested containers and objects."""
    seen, waiting = set(), [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Tensor):
            yield part
        elif id(part) not in seen and not isinstance(part, (str, type, nn.Module)):
            seen.add(id(part))
            if isinstance(part, Mapping):
                waiting += part.values()
            elif isinstance(part, (list, tuple)):
                waiting += part
            else:
                waiting += getattr(part, "__dict__", {}).values()


def _shares(
    modules: Mapping[str, nn.Module],  # of the model before, by path
    replaced: Sequence[ModuleNote],
    seconds: Mapping[str, float],  # from _step_time
) -> tuple[float, tuple[ModuleShare, ...]]:
    """Return the share of the step time in replaced modules, and those of all others."""
    # Blocks of MACE only gather and scatter what their fused products now do.
    covered = {module for module in modules.values() if vars(module).get(FUSION) == HERE}
    for note in replaced:
        module = modules[note.path]
        if isinstance(module, Accelerated):
            covered |= {module, *passed_by(module, type(module))}

    def owner(path: str) -> str:
        """Return the nearest module that is not of PyTorch: layers inside count as its part."""
        parent = path.rpartition(".")[0]
        inner = module_of(type(modules[path])).startswith("torch.")
        if not path or not inner or modules[path] in covered or modules[parent] in covered:
            return path
        return owner(parent)

    others: defaultdict[str, float] = defaultdict(float)
    total = sum(seconds.values())
    for path, spent in seconds.items():
        if modules[path] not in covered:
            others[owner(path)] += spent / total
    ranked = sorted(others.items(), key=lambda item: -item[1])
    named = tuple(ModuleShare(path, original_name(modules[path]), part) for path, part in ranked)
    return max(0.0, 1.0 - sum(others.values())), named


def restore(model: nn.Module) -> tuple[str, ...]:
    """Revert :func:`accelerate`: restore the original class of every accelerated module, in place.

    Parameters, buffers, hooks, flags, devices and dtypes keep their current state, such as trained
    weights. Also works on copies and on loaded models. Afterwards the model can be scripted.

    Parameters
    ----------
    model : Module
        Changed in place.

    Returns
    -------
    tuple of str
        Names of the restored modules, "" for the model itself; empty without accelerated modules.

    Raises
    ------
    ValueError
        If an accelerated module has another class now, as after ``torch.nn.utils.parametrize``, or
        a ``forward`` set on the instance, or ``model`` is a convolution of MACE without its block,
        or a part of a frozen model. Nothing is restored then.

    Examples
    --------
    >>> from e3nn import o3
    >>> from equigeo.interop import accelerate
    >>> model = nn.Sequential(o3.Linear("4x0e + 4x1o", "8x0e + 8x1o"), nn.Identity())
    >>> report = accelerate(model)
    >>> restore(model), type(model[0]) is o3.Linear
    (('0',), True)
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if isinstance(model, AcceleratedConvolution):
        raise ValueError(
            f"expected the block that calls this convolution, or the whole model, got its "
            f"{type(model).__name__} alone"
        )
    if is_part(model):
        raise ValueError(
            f"expected the whole frozen model, got its {original_name(model)} alone: the other "
            "parts need it as it is"
        )
    found = [(path, m) for path, m in model.named_modules() if isinstance(m, Accelerated)]
    for path, module in found:
        if "made_of" not in vars(type(module)):
            raise ValueError(
                f"{path or 'the model'} must be as accelerate left it, got a "
                f"{type(module).__name__}: undo first what changed its class"
            )
        if "forward" in vars(module):  # which may call the accelerated one
            raise ValueError(
                f"{path or 'the model'} must be as accelerate left it, but its forward was set on "
                "the instance: undo that first"
            )
    for _, module in found:
        module.uninstall()
    for block in model.modules():
        if vars(block).get(FUSION) == HERE:
            delattr(block, FUSION)
    return tuple(path for path, _ in found)
