"""Base class of groups with coordinates."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from equigeo.groups.group import Group
from equigeo.groups.inclusions import PolarForm
from equigeo.groups.matrices.check_matrices import check_precision


class ChartedGroup(Group):
    """Base of groups with coordinates and a density of the Haar measure.

    Elements are an exponential of symmetric matrices times a rotation, and a translation if the
    group is affine.
    """

    @property
    @abstractmethod
    def polar_form(self) -> PolarForm:
        """Polar form of the group of the linear parts."""

    @abstractmethod
    def coordinates(self, g: Tensor) -> Tensor:
        """Return coordinates (..., dimension) of elements, float32 or float64.

        One chart covers the component of the identity, twice differentiable except at half turns,
        where the rotation coordinates jump. Improper matrices and others outside raise
        ``ValueError``.
        """

    @abstractmethod
    def from_coordinates(self, c: Tensor) -> Tensor:
        """Return elements (..., size, size) with given coordinates (..., dimension)."""

    @abstractmethod
    def haar_density(self, c: Tensor) -> Tensor:
        """Return the density of the left Haar measure at coordinates, 1 at the identity.

        The measure is the density times Lebesgue measure in translations and stretches, times the
        uniform distribution of rotations.
        """

    @abstractmethod
    def log_stretch(self, g: Tensor) -> Tensor:
        """Return the largest ``|log s|`` over the singular values of the linear parts, (...).

        Subadditive in products, equal for inverses, and invariant to rotations on either side: the
        radius that windows of groups are measured by.
        """

    def check_coordinates(self, c: Tensor) -> None:
        """Raise ``ValueError`` if a tensor is not (..., dimension) in float32 or float64."""
        if c.shape[-1:] != (self.dimension,):
            raise ValueError(
                f"coordinates of {self} are (..., {self.dimension}), got {tuple(c.shape)}"
            )
        check_precision("coordinates", c)
