"""`ftrace.scipy.cluster`: assignment of observations to centroids."""

import ftrace.numpy  # noqa: F401 # pyright: ignore[reportUnusedImport] - makes tracers arrays
from ftrace.scipy.cluster import vq as vq
