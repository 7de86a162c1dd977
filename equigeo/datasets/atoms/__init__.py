"""Structures of atoms with energies, forces and stresses."""
