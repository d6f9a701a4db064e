"""`ftrace.scipy.ndimage`: images filtered, read between their pixels, taken apart and measured.

With no trace running all of these are SciPy's own functions. What is missing here and Python in
SciPy may be transformed as it stands: it calls these.
"""

import ftrace.numpy  # noqa: F401 # pyright: ignore[reportUnusedImport] - makes tracers arrays
from ftrace.core.arguments import explain as _explain
from ftrace.scipy.ndimage.binary_morphology import binary_closing as binary_closing
from ftrace.scipy.ndimage.binary_morphology import binary_dilation as binary_dilation
from ftrace.scipy.ndimage.binary_morphology import binary_erosion as binary_erosion
from ftrace.scipy.ndimage.binary_morphology import binary_fill_holes as binary_fill_holes
from ftrace.scipy.ndimage.binary_morphology import binary_hit_or_miss as binary_hit_or_miss
from ftrace.scipy.ndimage.binary_morphology import binary_opening as binary_opening
from ftrace.scipy.ndimage.binary_morphology import binary_propagation as binary_propagation
from ftrace.scipy.ndimage.binary_morphology import distance_transform_bf as distance_transform_bf
from ftrace.scipy.ndimage.binary_morphology import distance_transform_cdt as distance_transform_cdt
from ftrace.scipy.ndimage.binary_morphology import distance_transform_edt as distance_transform_edt
from ftrace.scipy.ndimage.binary_morphology import label as label
from ftrace.scipy.ndimage.binary_morphology import watershed_ift as watershed_ift
from ftrace.scipy.ndimage.compound_filters import gaussian_filter as gaussian_filter
from ftrace.scipy.ndimage.compound_filters import gaussian_filter1d as gaussian_filter1d
from ftrace.scipy.ndimage.compound_filters import gaussian_laplace as gaussian_laplace
from ftrace.scipy.ndimage.compound_filters import laplace as laplace
from ftrace.scipy.ndimage.compound_filters import prewitt as prewitt
from ftrace.scipy.ndimage.compound_filters import sobel as sobel
from ftrace.scipy.ndimage.compound_filters import spline_filter as spline_filter
from ftrace.scipy.ndimage.compound_filters import uniform_filter as uniform_filter
from ftrace.scipy.ndimage.fourier_filters import fourier_ellipsoid as fourier_ellipsoid
from ftrace.scipy.ndimage.fourier_filters import fourier_gaussian as fourier_gaussian
from ftrace.scipy.ndimage.fourier_filters import fourier_shift as fourier_shift
from ftrace.scipy.ndimage.fourier_filters import fourier_uniform as fourier_uniform
from ftrace.scipy.ndimage.grey_morphology import black_tophat as black_tophat
from ftrace.scipy.ndimage.grey_morphology import grey_closing as grey_closing
from ftrace.scipy.ndimage.grey_morphology import grey_dilation as grey_dilation
from ftrace.scipy.ndimage.grey_morphology import grey_erosion as grey_erosion
from ftrace.scipy.ndimage.grey_morphology import grey_opening as grey_opening
from ftrace.scipy.ndimage.grey_morphology import morphological_gradient as morphological_gradient
from ftrace.scipy.ndimage.grey_morphology import morphological_laplace as morphological_laplace
from ftrace.scipy.ndimage.grey_morphology import white_tophat as white_tophat
from ftrace.scipy.ndimage.linear_filters import convolve as convolve
from ftrace.scipy.ndimage.linear_filters import correlate as correlate
from ftrace.scipy.ndimage.linear_filters import correlate1d as correlate1d
from ftrace.scipy.ndimage.linear_filters import uniform_filter1d as uniform_filter1d
from ftrace.scipy.ndimage.measurements import center_of_mass as center_of_mass
from ftrace.scipy.ndimage.measurements import extrema as extrema
from ftrace.scipy.ndimage.measurements import maximum as maximum
from ftrace.scipy.ndimage.measurements import maximum_position as maximum_position
from ftrace.scipy.ndimage.measurements import mean as mean
from ftrace.scipy.ndimage.measurements import median as median
from ftrace.scipy.ndimage.measurements import minimum as minimum
from ftrace.scipy.ndimage.measurements import minimum_position as minimum_position
from ftrace.scipy.ndimage.measurements import standard_deviation as standard_deviation
from ftrace.scipy.ndimage.measurements import sum_labels as sum_labels
from ftrace.scipy.ndimage.measurements import variance as variance
from ftrace.scipy.ndimage.order_filters import generic_filter as generic_filter
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
