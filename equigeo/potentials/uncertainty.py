"""Uncertainties of energies and forces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from torch import Tensor

from equigeo._core.brief import brief_fields
from equigeo._core.checks import check_shape
from equigeo.potentials.batch import AtomicBatch, PotentialOutput
from equigeo.potentials.potential import MessagePassingPotential

_RIDGE: Final = 1e-6  # of the mean variance of features; likelihoods are flat below 1e-4
_PRIOR: Final = 30  # force components of all elements that count for each of them


@dataclass(frozen=True, eq=False)
class LastLayerUncertainty:
    r"""Standard deviations of energies and forces, by last-layer prediction rigidity.

    .. math:: \sigma_E^2 = \alpha_E^2 \sum_z f_z^T C_z^{-1} f_z, \qquad
              \sigma_i^2 = \alpha_{z_i}^2\, f_i^T C_{z_i}^{-1} f_i, \qquad
              C_z = \sum_{i: z_i = z} f_i f_i^T + \varsigma_z

    Energies of atoms are linear in features :math:`f_i`, the inputs of the last layers. C is their
    covariance over the training frames, of each element; :math:`f_z` is the sum of the features of
    an element in a system. The variance of an energy is that of a ridge regression on energies of
    atoms, with weights of its own for each element. Force components of an atom have the standard
    deviation :math:`\sigma_i`, from the rigidity of its energy: no derivatives are needed. The
    scales :math:`\alpha` maximize the likelihood of the errors of validation frames. Variances grow
    with the distance from the training frames in feature space.

    ``uncertainty(output, batch)`` returns the deviations of energies in eV, (systems,), and of the
    components of the force on each atom in eV/angstrom, (atoms,), from ``output = model(batch,
    features=True)``. Both are float64, and differentiable if the features are.

    Parameters
    ----------
    species : tuple of int
        Atomic numbers, ascending.
    whitening : Tensor, (species, n, n), float64
        Inverse Cholesky factors of C.
    energy_scale : Tensor, (), float64
        :math:`\alpha_E`; 0 if no validation frame has an energy: uncertainties are NaN.
    forces_scale : Tensor, (species,), float64
        :math:`\alpha_z`, per angstrom; 0 if no validation frame has forces.

    Equivariance
    ------------
    Uncertainties are invariant under rotations, translations, and permutations of equal atoms.

    References
    ----------
    Bigi, Chong, Ceriotti, Grasselli, "A prediction rigidity formalism for low-cost uncertainties in
    trained neural networks", 2024; Chong, Grasselli, Ben Mahmoud, Morrow, Deringer, Ceriotti,
    "Robustness of local predictions in atomistic machine learning models", 2023.

    Examples
    --------
    >>> from equigeo.potentials import PotentialConfig
    >>> model = MessagePassingPotential(PotentialConfig((1, 8), channels=2, lmax_edge=1)).eval()
    >>> water = torch.tensor([[0.0, 0, 0], [0.8, 0.6, 0], [-0.8, 0.6, 0]])
    >>> batch = AtomicBatch.from_systems([(torch.tensor([8, 1, 1]), water, None, False)], 5.0)
    >>> labelled = batch, torch.zeros(1), torch.zeros(3, 3)
    >>> uncertainty = LastLayerUncertainty.fit(model, [batch], [labelled])
    >>> energy, forces = uncertainty(model(batch, features=True), batch)
    >>> energy.shape, forces.shape
    (torch.Size([1]), torch.Size([3]))
    """

    species: tuple[int, ...]
    whitening: Tensor
    energy_scale: Tensor
    forces_scale: Tensor

    __repr__ = brief_fields

    @classmethod
    def fit(
        cls,
        model: MessagePassingPotential,
        train: Iterable[AtomicBatch],
        validation: Iterable[tuple[AtomicBatch, Tensor, Tensor]],
    ) -> LastLayerUncertainty:
        """Fit a trained potential in one pass over its training and its validation frames.

        Parameters
        ----------
        model : MessagePassingPotential
            In eval mode.
        train : iterable of AtomicBatch
            Training frames.
        validation : iterable of (AtomicBatch, Tensor, Tensor)
            Frames that were not trained on, with energies (systems,) in eV and forces (atoms, 3) in
            eV/angstrom; NaN where there is no label.
        """
        device, species = model.embedding.weight.device, model.config.species
        size = model.num_features
        covariance = torch.zeros(len(species), size, size, dtype=torch.float64)
        for batch in train:
            with torch.no_grad():
                features = model(batch.to(device), forces=False, features=True).features.cpu()
            numbers = batch.numbers.cpu()
            for k, z in enumerate(species):
                rows = features[numbers == z]
                covariance[k] += rows.mT @ rows
        if not bool(covariance.any() and covariance.isfinite().all()):
            raise ValueError("train must have frames with neighbors and finite features")
        one = torch.ones((), dtype=torch.float64)
        unscaled = cls(species, _whitening(covariance), one, one.expand(len(species)))
        energy, forces = unscaled._scales(model, validation)
        if not bool(energy > 0 or forces.any()):
            raise ValueError("validation must have frames with energies or forces, got none")
        return replace(unscaled, energy_scale=energy, forces_scale=forces)

    def _scales(
        self,
        model: MessagePassingPotential,
        validation: Iterable[tuple[AtomicBatch, Tensor, Tensor]],
    ) -> tuple[Tensor, Tensor]:
        """Return the scales of unscaled deviations that explain errors best."""
        device = model.embedding.weight.device
        # Sums of squared errors over variances, and their numbers.
        energies = torch.zeros(2, dtype=torch.float64)
        forces = torch.zeros(len(self.species), 2, dtype=torch.float64)
        for given, energy, labels in validation:
            batch = given.to(device)
            out = model(batch, features=True)
            found = (x.detach().cpu() for x in self(out, batch))
            sigma, sigmas = (x.where(x > 0, torch.nan) for x in found)
            energies += _squares((out.energy.detach().cpu() - energy.cpu()) / sigma)
            ratios = (out.forces.detach().cpu().double() - labels.cpu()) / sigmas[:, None]
            for k, z in enumerate(self.species):
                forces[k] += _squares(ratios[given.numbers.cpu() == z])
        # An element with few validation atoms has about the scale of all.
        every = forces.sum(dim=0)
        forces = forces + _PRIOR * every / every[1].clamp(min=1)
        total, number = torch.cat([energies[None], forces]).unbind(dim=1)
        scales = (total / number.clamp(min=1)).sqrt()
        return scales[0], scales[1:]

    def __call__(self, output: PotentialOutput, batch: AtomicBatch) -> tuple[Tensor, Tensor]:
        """Return standard deviations of energies (systems,) and force components (atoms,)."""
        rows = output.features
        if rows is None:
            raise ValueError("output must have features, got none: call model(..., features=True)")
        check_shape(rows, "features", (len(batch.numbers), self.whitening.shape[1]))
        sums, forces = sums_of_species(self, rows, batch.numbers, batch.batch, batch.num_systems)
        return energy_deviations(self, sums), forces

    def state_dict(self) -> dict[str, Tensor]:
        """Return the state as tensors, for a checkpoint."""
        names = ("whitening", "energy_scale", "forces_scale")
        return {name: getattr(self, name) for name in names}


def sums_of_species(
    uncertainty: LastLayerUncertainty,
    rows: Tensor,  # (atoms, n) features
    numbers: Tensor,  # (atoms,)
    system: Tensor,  # (atoms,)
    systems: int,
) -> tuple[Tensor, Tensor]:
    """Return sums of whitened features (systems, species, n) and deviations of forces (atoms,)."""
    species, present = uncertainty.species, numbers.unique().tolist()
    if unknown := sorted(set(present) - set(species)):
        raise ValueError(f"atomic numbers must be among {list(species)}, got {unknown}")
    sums = rows.new_zeros(systems * len(species), rows.shape[1])
    forces, whitening = rows.new_zeros(len(rows)), uncertainty.whitening.to(rows.device)
    for k, scale in enumerate(uncertainty.forces_scale.tolist()):
        if species[k] in present:
            own = (numbers == species[k]).nonzero().flatten()
            white = rows.index_select(0, own) @ whitening[k].mT
            sums = sums.index_add(0, system[own] * len(species) + k, white)
            forces = forces.index_copy(0, own, (scale or torch.nan) * white.norm(dim=1))
    return sums.view(systems, len(species), -1), forces


def energy_deviations(uncertainty: LastLayerUncertainty, sums: Tensor) -> Tensor:
    """Return deviations of energies (systems,) by the sums of :func:`sums_of_species`."""
    scale = uncertainty.energy_scale.item() or torch.nan
    return scale * sums.square().sum(dim=(1, 2)).sqrt()


def _whitening(
    covariance: Tensor,  # (species, n, n)
) -> Tensor:
    """Return inverse Cholesky factors of covariances with a ridge."""
    mean = covariance.diagonal(dim1=1, dim2=2).mean(dim=1)
    # Every direction is unknown for an element without training atoms.
    mean = torch.where(mean > 0, mean, mean.max())
    eye = torch.eye(covariance.shape[1], dtype=covariance.dtype)
    factor = torch.linalg.cholesky(covariance + _RIDGE * mean[:, None, None] * eye)
    inverse = torch.linalg.solve_triangular(factor, eye.expand_as(factor), upper=False)
    return inverse.contiguous()


def _squares(ratios: Tensor) -> Tensor:
    """Return the sum of squares and the number of finite ratios, (2,)."""
    known = ratios[ratios.isfinite()].double()
    return torch.stack([known.square().sum(), known.new_tensor(float(len(known)))])


def committee_output(outputs: Sequence[PotentialOutput]) -> tuple[PotentialOutput, Tensor, Tensor]:
    """Return the mean output, and standard deviations of energies and of force components."""
    mean: dict[str, Any] = {}
    for name in ("energy", "energies", "forces", "stress", "virial", "dipole", "polarizability"):
        values = [getattr(output, name) for output in outputs]
        mean[name] = None if values[0] is None else torch.stack(values).mean(dim=0)
    energy = torch.stack([output.energy for output in outputs]).std(dim=0)
    forces: Any = [output.forces for output in outputs]
    return PotentialOutput(**mean), energy, forces_deviations(torch.stack(forces).double())


def forces_deviations(
    forces: Tensor,  # (potentials, atoms, 3)
) -> Tensor:
    """Return sample standard deviations of force components, (atoms,)."""
    # The root mean square over three, which rotations do not change.
    return forces.var(dim=0).mean(dim=1).sqrt()
