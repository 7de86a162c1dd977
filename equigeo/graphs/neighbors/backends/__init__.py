"""Libraries that list candidate edges, one module each."""
