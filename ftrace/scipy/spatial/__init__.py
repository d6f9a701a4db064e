"""`ftrace.scipy.spatial`: distances between points."""

import ftrace.numpy  # noqa: F401 # pyright: ignore[reportUnusedImport] - makes tracers arrays
from ftrace.scipy.spatial import distance as distance
