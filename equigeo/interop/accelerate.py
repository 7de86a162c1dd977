"""Acceleration of models of other libraries."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import torch
from torch import Tensor, nn

from equigeo.interop.accelerated.base import FUSION, HERE, Accelerated, Candidate
from equigeo.interop.accelerated.edges import AcceleratedConvolution
from equigeo.interop.accelerated.search import CandidateSearch
from equigeo.interop.certificate import (
    AccelerationReport,
    Certificate,
    Check,
    ModuleCertificate,
    ModuleNote,
    first_problem,
)
from equigeo.interop.compare_module import (
    Energy,
    Evidence,
    ModelEnergy,
    compare_module,
    table_precision,
)
from equigeo.interop.frozen import freeze


def accelerate(
    model: nn.Module,
    verify: bool = False,
    *,
    frozen: bool = False,
    energy: Energy | None = None,
    positions: Tensor | None = None,
) -> AccelerationReport:
    """Replace the equivariant operations of a model by ops of this library, in place.

    Replaced are ``e3nn.o3.TensorProduct`` with subclasses, ``TensorSquare``, ``Linear`` and
    ``SphericalHarmonics``; ``e3nn.nn.Gate``, ``BatchNorm`` and ``FullyConnectedNet``; the
    convolutions of NequIP, MACE, SevenNet and e3nn's ``gate_points`` networks, 2101 to 2106, by one
    op without messages in memory; the products of Allegro, in its layout; and the symmetric
    contraction of MACE, in any basis.

    Modules stay the same objects, of a subclass of their class with another ``forward``:
    parameters, buffers, hooks, optimizers, ``state_dict``, copies, pickles and ``torch.package``
    are not affected. The original ``forward`` runs for inputs that the ops do not support (mixed
    dtypes, autocast, tracing by ``torch.fx``) and after an attribute or inner module was replaced
    or got a hook. Each module is compared with its original on random features and restored if it
    differs.

    Derivatives of any order, forward mode and ``torch.func`` pass through the ops, as far as the
    rest of the model supports them. Models that compute forces by ``requires_grad_`` do not support
    ``torch.func``; use ``torch.autograd.forward_ad`` for Hessian products. Accelerate before
    ``torch.compile`` and ``torch.export``; exported programs need ``import equigeo`` where they
    run. Call :func:`restore` before TorchScript and ONNX; ``sevenn get_model`` and
    ``nequip-compile`` read checkpoints and are not affected.

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
        Distances below a twentieth of the cutoff use the network. ``train()`` and
        ``load_state_dict`` raise until :func:`restore`; parameters and the state dict are
        unchanged.
    energy : callable, optional
        ``energy(positions, index)`` of the model, for ``verify=True``: builds the graph of an
        isolated system of any size from positions (atoms, 3) and the number of the atom in each
        row, index (atoms,), and returns one number. Energy, forces and second gradients are
        compared as well, and modules that change them are restored.
    positions : Tensor, (atoms, 3), floating, optional
        The system for ``energy``.

    Returns
    -------
    AccelerationReport
        Replaced modules, kept ones with reasons, and equivariant modules of unknown kinds.

    Examples
    --------
    >>> from e3nn import o3
    >>> model = nn.Sequential(o3.Linear("4x0e + 4x1o", "8x0e + 8x1o"), nn.Identity())
    >>> print(accelerate(model))
    1 replaced, 0 kept
    replaced
      0  Linear  equigeo.nn.Linear
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
    whole = None
    if energy is not None and positions is not None:
        whole = ModelEnergy(energy, positions, tuple(model.parameters()))
    report = Acceleration(model, verify, whole).run()
    if not frozen:
        return report
    notes = {note.path: note for note in (*report.replaced, *freeze(model))}
    return replace(report, replaced=tuple(notes.values()))


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
        a ``forward`` set on the instance, or ``model`` is a convolution of MACE without its block.
        Nothing is restored then.

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
