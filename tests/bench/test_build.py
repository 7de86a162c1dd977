"""What the log of a build says."""

from __future__ import annotations

from bench.build import seconds_of_objects


def test_the_longest_object_comes_first():
    log = "# ninja log v5\n0\t1500\t1\ta.o\tx\n20\t4020\t1\tsub/b.o\ty\n"
    assert list(seconds_of_objects(log).items()) == [("sub/b.o", 4.0), ("a.o", 1.5)]
