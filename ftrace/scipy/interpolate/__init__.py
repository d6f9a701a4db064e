"""`ftrace.scipy.interpolate`: interpolators, with derivatives by the data and by the places.

They are pytrees: made outside of a program or in it, passed in and out. SciPy's own interpolators
become these in lifted code, where their data or the places are traced.
"""

import ftrace.numpy  # noqa: F401 # pyright: ignore[reportUnusedImport] - makes tracers arrays
from ftrace.core.arguments import explain as _explain
from ftrace.scipy.interpolate.basis_splines import BSpline as BSpline
from ftrace.scipy.interpolate.basis_splines import make_interp_spline as make_interp_spline
from ftrace.scipy.interpolate.basis_splines import make_lsq_spline as make_lsq_spline
from ftrace.scipy.interpolate.basis_splines import make_smoothing_spline as make_smoothing_spline
from ftrace.scipy.interpolate.bivariate_splines import BivariateSpline as BivariateSpline
from ftrace.scipy.interpolate.bivariate_splines import LSQBivariateSpline as LSQBivariateSpline
from ftrace.scipy.interpolate.bivariate_splines import RectBivariateSpline as RectBivariateSpline
from ftrace.scipy.interpolate.bivariate_splines import (
    SmoothBivariateSpline as SmoothBivariateSpline,
)
from ftrace.scipy.interpolate.bivariate_splines import bisplev as bisplev
from ftrace.scipy.interpolate.cubic_splines import Akima1DInterpolator as Akima1DInterpolator
from ftrace.scipy.interpolate.cubic_splines import CubicHermiteSpline as CubicHermiteSpline
from ftrace.scipy.interpolate.cubic_splines import CubicSpline as CubicSpline
from ftrace.scipy.interpolate.cubic_splines import PchipInterpolator as PchipInterpolator
from ftrace.scipy.interpolate.fitpack import spalde as spalde
from ftrace.scipy.interpolate.fitpack import splev as splev
from ftrace.scipy.interpolate.fitpack import splint as splint
from ftrace.scipy.interpolate.fitpack import splprep as splprep
from ftrace.scipy.interpolate.fitpack import splrep as splrep
from ftrace.scipy.interpolate.grids import RegularGridInterpolator as RegularGridInterpolator
from ftrace.scipy.interpolate.grids import interp1d as interp1d
from ftrace.scipy.interpolate.grids import interpn as interpn
from ftrace.scipy.interpolate.one_polynomial import (
    BarycentricInterpolator as BarycentricInterpolator,
)
from ftrace.scipy.interpolate.one_polynomial import (
    barycentric_interpolate as barycentric_interpolate,
)
from ftrace.scipy.interpolate.piecewise import PPoly as PPoly
from ftrace.scipy.interpolate.radial_functions import RBFInterpolator as RBFInterpolator
from ftrace.scipy.interpolate.scattered_points import LinearNDInterpolator as LinearNDInterpolator
from ftrace.scipy.interpolate.scattered_points import NearestNDInterpolator as NearestNDInterpolator
from ftrace.scipy.interpolate.scattered_points import griddata as griddata
from ftrace.scipy.interpolate.tensor_splines import NdBSpline as NdBSpline
from ftrace.scipy.interpolate.univariate_splines import (
    InterpolatedUnivariateSpline as InterpolatedUnivariateSpline,
)
from ftrace.scipy.interpolate.univariate_splines import LSQUnivariateSpline as LSQUnivariateSpline
from ftrace.scipy.interpolate.univariate_splines import UnivariateSpline as UnivariateSpline

_explain(globals())
