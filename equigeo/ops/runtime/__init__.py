"""How ops are declared, checked and loaded."""
