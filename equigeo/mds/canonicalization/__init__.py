"""Canonicalization by a learned energy: inputs moved to where it is least on their orbit."""
