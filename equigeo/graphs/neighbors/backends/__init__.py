"""Libraries that list candidates for edges, one module each, behind one switch."""
