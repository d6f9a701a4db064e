"""`ftrace.scipy.ndimage`: images read between their pixels.

With no trace running `map_coordinates` is SciPy's own function.
"""

import ftrace.numpy  # noqa: F401 # pyright: ignore[reportUnusedImport] - makes tracers arrays
from ftrace.core.arguments import explain as _explain
from ftrace.scipy.ndimage.resampling import map_coordinates as map_coordinates

_explain(globals())
