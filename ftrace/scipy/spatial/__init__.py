"""`ftrace.scipy.spatial`: distances between points."""

import ftrace.numpy  # noqa: F401 # pyright: ignore[reportUnusedImport] - makes tracers arrays
from ftrace.core.jax_names import refusing as _refusing
from ftrace.scipy.spatial import distance as distance

__getattr__ = _refusing("scipy.spatial")
