"""Forty programs of other kinds than the cases, written down before any of them was measured.

A program is written once over a `System` (its arrays' namespace `s.np`, `s.scan`, `s.vmap`), as a
scientist would write it for JAX: pure functions of float64 or integer arrays. Not here: how they
become cases (`benchmarks/cases/unseen.py`).
"""

from __future__ import annotations

from benchmarks.programs import grids, inference, physics, sequences
from benchmarks.programs.program import Program

PROGRAMS: dict[str, Program] = {
    **physics.PROGRAMS,
    **inference.PROGRAMS,
    **grids.PROGRAMS,
    **sequences.PROGRAMS,
}
