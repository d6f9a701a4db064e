"""`ftrace.scipy.ndimage`: images filtered, and read between their pixels.

With no trace running all of these are SciPy's own functions. What is missing here and Python in
SciPy may be transformed as it stands: it calls these.
"""

import ftrace.numpy  # noqa: F401 # pyright: ignore[reportUnusedImport] - makes tracers arrays
from ftrace.core.arguments import explain as _explain
from ftrace.scipy.ndimage.compound_filters import gaussian_filter as gaussian_filter
from ftrace.scipy.ndimage.compound_filters import gaussian_filter1d as gaussian_filter1d
from ftrace.scipy.ndimage.compound_filters import gaussian_laplace as gaussian_laplace
from ftrace.scipy.ndimage.compound_filters import laplace as laplace
from ftrace.scipy.ndimage.compound_filters import prewitt as prewitt
from ftrace.scipy.ndimage.compound_filters import sobel as sobel
from ftrace.scipy.ndimage.compound_filters import spline_filter as spline_filter
from ftrace.scipy.ndimage.compound_filters import uniform_filter as uniform_filter
from ftrace.scipy.ndimage.linear_filters import convolve as convolve
from ftrace.scipy.ndimage.linear_filters import correlate as correlate
from ftrace.scipy.ndimage.linear_filters import correlate1d as correlate1d
from ftrace.scipy.ndimage.linear_filters import uniform_filter1d as uniform_filter1d
from ftrace.scipy.ndimage.order_filters import maximum_filter as maximum_filter
from ftrace.scipy.ndimage.order_filters import maximum_filter1d as maximum_filter1d
from ftrace.scipy.ndimage.order_filters import median_filter as median_filter
from ftrace.scipy.ndimage.order_filters import minimum_filter as minimum_filter
from ftrace.scipy.ndimage.order_filters import minimum_filter1d as minimum_filter1d
from ftrace.scipy.ndimage.order_filters import percentile_filter as percentile_filter
from ftrace.scipy.ndimage.order_filters import rank_filter as rank_filter
from ftrace.scipy.ndimage.resampling import affine_transform as affine_transform
from ftrace.scipy.ndimage.resampling import geometric_transform as geometric_transform
from ftrace.scipy.ndimage.resampling import map_coordinates as map_coordinates
from ftrace.scipy.ndimage.resampling import rotate as rotate
from ftrace.scipy.ndimage.resampling import shift as shift
from ftrace.scipy.ndimage.resampling import zoom as zoom
from ftrace.scipy.ndimage.spline_filters import spline_filter1d as spline_filter1d

_explain(globals())
