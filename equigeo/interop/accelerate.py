"""Models of other libraries on the ops of this one."""

from __future__ import annotations

from itertools import chain

import torch
from torch import Tensor, nn

from equigeo.interop.accelerated.candidate import Candidate
from equigeo.interop.accelerated.candidate_search import CandidateSearch
from equigeo.interop.acceleration_report import AccelerationReport, ModuleNote
from equigeo.interop.certificate.certificate import (
    Certificate,
    Check,
    ModuleCertificate,
    first_problem,
)
from equigeo.interop.certificate.compare_module import compare_module, table_precision
from equigeo.interop.certificate.energy_laws import Energy, EnergyLaws, Evidence


def accelerate(
    model: nn.Module,
    verify: bool = False,
    *,
    energy: Energy | None = None,
    positions: Tensor | None = None,
) -> AccelerationReport:
    """Replace the equivariant operations of a model by ops of this library, in place.

    What is replaced, wherever it is in the model:

    - ``e3nn.o3.TensorProduct`` and subclasses, ``TensorSquare`` among them, ``Linear`` and
      ``SphericalHarmonics``, and ``e3nn.nn.Gate``, ``BatchNorm`` and ``FullyConnectedNet``;
    - the convolution of NequIP, MACE and e3nn's ``gate_points`` networks, 2101 to 2106, by one op
      without messages in memory;
    - the symmetric contraction of MACE, in any of its bases.

    A module stays the object that it is, of a subclass of its class: its parameters, buffers,
    attributes, methods and hooks remain, and with them optimisers, ``state_dict`` in both
    directions, copies, pickles and ``torch.package``. Only ``forward`` is another, and
    ``type(module)(...)`` makes another accelerated one. Inputs that the ops do not take (mixed
    dtypes, autocast, tracing by ``torch.fx``) run as before, and so does a module of which an
    attribute or inner module is replaced later, or an inner module gets a hook. Each module is
    compared with what it was before on random features, and is left alone where it would change.

    ``verify=True`` compares far more, and puts back what differs beyond rounding, with the reason:

    - of each module: values, gradients and second gradients, by inputs and by parameters, and the
      buffers and parameters that a call leaves, on strided, transposed, expanded, empty and many
      inputs, in repeated calls with other values between, after casts to other dtypes and back,
      and, for one module of each kind, under ``torch.compile``. Harmonics also meet vectors of
      lengths 1e-17, 1e-30, 0 and 1e20. Where the module of before raises, its replacement must
      raise. 4,099 rows at most: an index that overflows beyond 2^31 numbers is not
      found by this.
    - of the model, if its ``energy`` is given: the same of the energy by positions and parameters,
      also in strided memory and of one atom alone; forces against central differences; the work on
      a closed loop, which is zero; and the energy of two copies far apart, which is twice that of
      one.

    Derivatives of every kind go through what is replaced: reverse mode to any order, forward mode,
    and the transforms of ``torch.func``, as far as the rest of the model takes them. Models that
    compute forces themselves call ``requires_grad_``, which those transforms refuse; but forces at
    positions that carry a tangent (``torch.autograd.forward_ad``) carry the product with the
    Hessian, and copies of a molecule with a unit vector each give all of it in one evaluation.

    Accelerate before ``torch.compile`` or ``torch.export``. An exported program, and so a package
    of AOTInductor, calls the ops of this library by name: what loads it has them registered, by
    ``import equigeo``. TorchScript and ONNX know no such ops: call :func:`restore` before
    ``torch.jit.script``, which refuses an accelerated module by name, ``torch.jit.trace`` and
    ``torch.onnx.export``; then they take what they took of the model of before.

    Parameters
    ----------
    model : Module
        Changed in place; itself or any module inside may be of e3nn 0.4.4 to 0.6, NequIP or MACE,
        also loaded from a ``torch.package``, as models of NequIP are published.
    verify : bool
        Whether to gather a certificate.
    energy : callable, optional
        Energy of the model, ``energy(positions, index)``, with ``positions`` (atoms, 3) of an
        isolated system and ``index`` (atoms,), int64: which atom of the system each row is. It
        builds the graph, must take any number of atoms, and gives one number that is
        differentiable by the positions.
    positions : Tensor, (atoms, 3), floating, optional
        The system on which the energy is evaluated.

    Returns
    -------
    AccelerationReport
        What was replaced, what was not, and why; equivariant modules of other kinds are named as
        unknown, those of cuEquivariance among them. All other modules are not mentioned.

    Raises
    ------
    TypeError
        If ``model`` is no module, or ``positions`` are not floating.
    ValueError
        If ``energy`` and ``positions`` are not given together and with ``verify=True``, or there
        are fewer than two atoms.

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
    laws = None
    if energy is not None and positions is not None:
        laws = EnergyLaws(energy, positions, tuple(model.parameters()))
    return Acceleration(model, verify, laws).run()


class Acceleration:
    """One acceleration of a model, in place."""

    def __init__(
        self,
        model: nn.Module,
        verify: bool,  # whether to gather a certificate
        laws: EnergyLaws | None,  # laws of the whole model
    ) -> None:
        with torch.inference_mode(False):  # gradients may need the tables of what it makes
            search = CandidateSearch(model)
        tensor = next(chain(model.parameters(), model.buffers()), torch.empty(0))
        self.found, self.kept = search.found, list(search.kept)
        self.unknown = tuple(search.unknown)
        self.verify, self.laws, self.device = verify, laws, tensor.device
        self.installed: list[Candidate] = []
        self.certificates: list[ModuleCertificate] = []
        self.compiled: set[type] = set()  # kinds that were compared under torch.compile

    def run(self) -> AccelerationReport:
        """Replace all supported modules and return the report."""
        before = self.laws.gather() if self.laws else None
        checks: tuple[Check, ...] = ()
        try:
            for candidate in self.found:
                self._attempt(candidate)
            if self.laws and before:
                checks = self._keep_what_is_lawful(self.laws, before)
        except BaseException:
            for candidate in reversed(self.installed):
                candidate.uninstall()
            raise
        replaced = tuple(_note(candidate, candidate.kind.runs_on) for candidate in self.installed)
        certificate = Certificate(tuple(self.certificates), checks) if self.verify else None
        return AccelerationReport(replaced, tuple(self.kept), certificate, self.unknown)

    def _attempt(self, candidate: Candidate) -> None:
        kind = candidate.kind_name
        self.installed.append(candidate)
        candidate.install(self.device)
        problem = candidate.problem()
        if problem is None and self.verify:
            problem = self._certify(candidate, kind)
        if problem is not None:
            self._put_back(problem)

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

    def _keep_what_is_lawful(self, laws: EnergyLaws, before: Evidence) -> tuple[Check, ...]:
        """Restore the modules that make the model break a law."""
        precisions = {table_precision(candidate.module) for candidate in self.installed}
        coarse = torch.float32 if torch.float32 in precisions else torch.float64

        def checks() -> tuple[Check, ...]:
            return laws.compare(before, laws.gather(), coarse)

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
                self._put_back(f"breaks a law of the model: {problem}")
        return checks()


def _note(candidate: Candidate, note: str) -> ModuleNote:
    return ModuleNote(candidate.path, candidate.kind_name, note)
