"""Models of other libraries on the ops of this one."""

from __future__ import annotations

from itertools import chain

import torch
from torch import nn

from equigeo.interop.accelerated.candidate import Candidate
from equigeo.interop.accelerated.candidate_search import CandidateSearch
from equigeo.interop.acceleration_report import AccelerationReport, ModuleNote


def accelerate(model: nn.Module) -> AccelerationReport:
    """Run the equivariant operations of a model on the ops of this library, in place.

    What is replaced, wherever it is in the model:

    - ``e3nn.o3.TensorProduct`` and subclasses, ``Linear`` and ``SphericalHarmonics``;
    - the convolution of NequIP and MACE, by one op without messages in memory;
    - the symmetric contraction of MACE, in any of its bases.

    A module stays the object that it is, of a subclass of its class: its parameters, buffers,
    attributes, methods and hooks remain, and with them optimisers, ``state_dict`` in both
    directions, copies and pickles. Only ``forward`` is another. Inputs that the ops do not take
    (mixed dtypes, autocast, tracing by ``torch.fx``) run as before. Each module is compared with
    what it was before on random features, and is left alone where it would change.

    Accelerate before ``torch.compile`` or ``torch.export``; what is accelerated can no longer be
    scripted by ``torch.jit.script``.

    Parameters
    ----------
    model : Module
        Changed in place; itself or any module inside may be of e3nn 0.4.4 to 0.6, NequIP or MACE.

    Returns
    -------
    AccelerationReport
        What was replaced, what was not, and why. Modules that are none of the above, or TorchScript
        without any inside, are not mentioned.

    Raises
    ------
    TypeError
        If ``model`` is no module.

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
    search = CandidateSearch(model)
    tensor = next(chain(model.parameters(), model.buffers()), torch.empty(0))
    replaced, kept = [], list(search.kept)
    installed: list[Candidate] = []
    try:
        for candidate in search.found:
            kind = type(candidate.module).__name__
            installed.append(candidate)
            candidate.install(tensor.device)
            problem = candidate.problem()
            if problem is None:
                replaced.append(ModuleNote(candidate.path, kind, candidate.kind.runs_on))
            else:
                installed.pop().uninstall()
                kept.append(ModuleNote(candidate.path, kind, problem))
    except BaseException:
        for candidate in reversed(installed):
            candidate.uninstall()
        raise
    return AccelerationReport(tuple(replaced), tuple(kept))
