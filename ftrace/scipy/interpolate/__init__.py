"""`ftrace.scipy.interpolate`: interpolators, with derivatives by the data and by the places.

They are pytrees: made outside of a program or in it, passed in and out. SciPy's own interpolators
become these in lifted code, where their data or the places are traced.
"""

import ftrace.numpy  # noqa: F401 # pyright: ignore[reportUnusedImport] - makes tracers arrays
from ftrace.core.arguments import explain as _explain
from ftrace.scipy.interpolate.basis_splines import BSpline as BSpline
from ftrace.scipy.interpolate.basis_splines import make_interp_spline as make_interp_spline
from ftrace.scipy.interpolate.cubic_splines import Akima1DInterpolator as Akima1DInterpolator
from ftrace.scipy.interpolate.cubic_splines import CubicHermiteSpline as CubicHermiteSpline
from ftrace.scipy.interpolate.cubic_splines import CubicSpline as CubicSpline
from ftrace.scipy.interpolate.cubic_splines import PchipInterpolator as PchipInterpolator
from ftrace.scipy.interpolate.fitpack import splev as splev
from ftrace.scipy.interpolate.fitpack import splrep as splrep
from ftrace.scipy.interpolate.grids import RegularGridInterpolator as RegularGridInterpolator
from ftrace.scipy.interpolate.grids import interp1d as interp1d
from ftrace.scipy.interpolate.grids import interpn as interpn
from ftrace.scipy.interpolate.piecewise import PPoly as PPoly

_explain(globals())
