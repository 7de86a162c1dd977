"""Groups with one chart that covers the component of the identity."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from equigeo.groups.group import Group
from equigeo.groups.inclusions import PolarForm
from equigeo.groups.matrices.check_matrices import check_precision


class ChartedGroup(Group):
    """Base of groups with coordinates and a density of the Haar measure.

    Elements are an exponential of symmetric matrices times a rotation, and a translation where the
    group is affine: what :attr:`polar_form` says.

    Examples
    --------
    >>> import torch
    >>> from equigeo.groups import GLPlus
    >>> group = GLPlus(2)
    >>> isinstance(group, ChartedGroup), group.dimension
    (True, 4)
    >>> c = torch.tensor([0.1, 0.2, -0.3, 0.4], dtype=torch.float64)
    >>> torch.allclose(group.coordinates(group.from_coordinates(c)), c)
    True
    >>> group.haar_density(torch.zeros(4))
    tensor(1.)
    """

    @property
    @abstractmethod
    def polar_form(self) -> PolarForm:
        """Polar form of the group of the linear parts."""

    @abstractmethod
    def coordinates(self, g: Tensor) -> Tensor:
        """Return coordinates in one chart that covers the component of the identity.

        Parameters
        ----------
        g : Tensor, (..., size, size), float32 or float64
            Elements.

        Returns
        -------
        Tensor, (..., dimension), dtype of ``g``
            Twice differentiable except at half turns, where the rotation coordinates jump.

        Raises
        ------
        ValueError
            If a matrix is no element, or improper: the component is not in the coordinates.
        """

    @abstractmethod
    def from_coordinates(self, c: Tensor) -> Tensor:
        """Return elements with given coordinates, the inverse of :meth:`coordinates`.

        Parameters
        ----------
        c : Tensor, (..., dimension), float32 or float64
            Any real numbers.

        Returns
        -------
        Tensor, (..., size, size), dtype of ``c``
            Elements of the component of the identity.

        Raises
        ------
        ValueError
            If the last axis has another length or the type is too coarse.
        """

    @abstractmethod
    def haar_density(self, c: Tensor) -> Tensor:
        """Return the density of the left Haar measure in the coordinates that are not rotations.

        The measure is ``haar_density(c)`` times Lebesgue measure in translations and stretches,
        times the uniform distribution of rotations.

        Parameters
        ----------
        c : Tensor, (..., dimension), float32 or float64
            Coordinates.

        Returns
        -------
        Tensor, (...), dtype of ``c``
            Positive; 1 at the identity.

        Raises
        ------
        ValueError
            If the last axis has another length or the type is too coarse.
        """

    @abstractmethod
    def log_stretch(self, g: Tensor) -> Tensor:
        """Largest ``|log s|`` over the singular values of the linear parts.

        Parameters
        ----------
        g : Tensor, (..., size, size), floating
            Elements.

        Returns
        -------
        Tensor, (...), dtype of ``g``
            At most the sum of those of two factors, the same for an inverse, and unchanged by
            rotations on either side: the radius by which windows of groups are measured.

        Raises
        ------
        ValueError
            If ``g`` has the wrong shape.
        """

    def check_coordinates(self, c: Tensor) -> None:
        """Raise if a tensor cannot hold coordinates; values are not read.

        Parameters
        ----------
        c : Tensor, (..., dimension)
            Candidates.

        Raises
        ------
        ValueError
            If the last axis has another length or the type is too coarse.
        """
        if c.shape[-1:] != (self.dimension,):
            raise ValueError(
                f"coordinates of {self} are (..., {self.dimension}), got {tuple(c.shape)}"
            )
        check_precision("coordinates", c)
