"""Canonicalization: inputs moved to the minimum of a learned energy on their orbit."""
