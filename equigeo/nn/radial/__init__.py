"""Functions of distances: bases and the envelope at the cutoff."""
