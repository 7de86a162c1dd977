"""Rules on the form of the package, one test module for each kind of rule."""
