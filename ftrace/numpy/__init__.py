"""NumPy's functions for traced arrays: `import ftrace.numpy as fnp`.

Every function takes arrays, scalars and tracers and follows NumPy 2. With no transformation
running it is NumPy's own function; inside one it is recorded, differentiated or batched. Plain
`numpy` functions on tracers do the same through NumPy's protocols (`protocols.py`). Constants,
dtypes and helpers that never see a tracer are NumPy's own (`passive.py`). What fewer programs use
is loaded when it is asked for (`_LATE`), also by plain `numpy`'s function of a tracer.
"""

import typing as _typing

import numpy as _numpy
from numpy import __array_api_version__ as __array_api_version__

from ftrace.core.jax_names import refusing as _refusing
from ftrace.core.lazy import Late as _Late
from ftrace.numpy import (
    cells,
    methods,
    promote,
    protocols,
    scimath,
    segment_folds,
    selections,
    tracer_operators,
    writers,
)
from ftrace.numpy.creation import arange as arange
from ftrace.numpy.creation import array as array
from ftrace.numpy.creation import asanyarray as asanyarray
from ftrace.numpy.creation import asarray as asarray
from ftrace.numpy.creation import asarray_chkfinite as asarray_chkfinite
from ftrace.numpy.creation import ascontiguousarray as ascontiguousarray
from ftrace.numpy.creation import asfortranarray as asfortranarray
from ftrace.numpy.creation import copy as copy
from ftrace.numpy.creation import empty as empty
from ftrace.numpy.creation import empty_like as empty_like
from ftrace.numpy.creation import from_dlpack as from_dlpack
from ftrace.numpy.creation import full as full
from ftrace.numpy.creation import full_like as full_like
from ftrace.numpy.creation import geomspace as geomspace
from ftrace.numpy.creation import linspace as linspace
from ftrace.numpy.creation import logspace as logspace
from ftrace.numpy.creation import ones as ones
from ftrace.numpy.creation import ones_like as ones_like
from ftrace.numpy.creation import require as require
from ftrace.numpy.creation import zeros as zeros
from ftrace.numpy.creation import zeros_like as zeros_like
from ftrace.numpy.cumulative_functions import cumprod as cumprod
from ftrace.numpy.cumulative_functions import cumsum as cumsum
from ftrace.numpy.cumulative_functions import cumulative_prod as cumulative_prod
from ftrace.numpy.cumulative_functions import cumulative_sum as cumulative_sum
from ftrace.numpy.einsum import einsum_path as einsum_path
from ftrace.numpy.elementary import angle as angle
from ftrace.numpy.elementary import around as around
from ftrace.numpy.elementary import choose as choose
from ftrace.numpy.elementary import clip as clip
from ftrace.numpy.elementary import fix as fix
from ftrace.numpy.elementary import imag as imag
from ftrace.numpy.elementary import isclose as isclose
from ftrace.numpy.elementary import iscomplex as iscomplex
from ftrace.numpy.elementary import iscomplexobj as iscomplexobj
from ftrace.numpy.elementary import isneginf as isneginf
from ftrace.numpy.elementary import isposinf as isposinf
from ftrace.numpy.elementary import isreal as isreal
from ftrace.numpy.elementary import isrealobj as isrealobj
from ftrace.numpy.elementary import nan_to_num as nan_to_num
from ftrace.numpy.elementary import piecewise as piecewise
from ftrace.numpy.elementary import real as real
from ftrace.numpy.elementary import real_if_close as real_if_close
from ftrace.numpy.elementary import round as round
from ftrace.numpy.elementary import select as select
from ftrace.numpy.elementary import sinc as sinc
from ftrace.numpy.elementary import where as where
from ftrace.numpy.joining import append as append
from ftrace.numpy.joining import array_split as array_split
from ftrace.numpy.joining import block as block
from ftrace.numpy.joining import column_stack as column_stack
from ftrace.numpy.joining import concat as concat
from ftrace.numpy.joining import concatenate as concatenate
from ftrace.numpy.joining import dsplit as dsplit
from ftrace.numpy.joining import dstack as dstack
from ftrace.numpy.joining import hsplit as hsplit
from ftrace.numpy.joining import hstack as hstack
from ftrace.numpy.joining import insert as insert
from ftrace.numpy.joining import split as split
from ftrace.numpy.joining import stack as stack
from ftrace.numpy.joining import tile as tile
from ftrace.numpy.joining import unstack as unstack
from ftrace.numpy.joining import vsplit as vsplit
from ftrace.numpy.joining import vstack as vstack
from ftrace.numpy.matrices import diag as diag
from ftrace.numpy.matrices import diagflat as diagflat
from ftrace.numpy.matrices import eye as eye
from ftrace.numpy.matrices import fromfunction as fromfunction
from ftrace.numpy.matrices import identity as identity
from ftrace.numpy.matrices import indices as indices
from ftrace.numpy.matrices import meshgrid as meshgrid
from ftrace.numpy.matrices import ravel_multi_index as ravel_multi_index
from ftrace.numpy.matrices import tri as tri
from ftrace.numpy.matrices import tril as tril
from ftrace.numpy.matrices import triu as triu
from ftrace.numpy.matrices import unravel_index as unravel_index
from ftrace.numpy.matrices import vander as vander
from ftrace.numpy.matrix_products import cross as cross
from ftrace.numpy.matrix_products import kron as kron
from ftrace.numpy.matrix_products import outer as outer
from ftrace.numpy.nanfunctions import nanargmax as nanargmax
from ftrace.numpy.nanfunctions import nanargmin as nanargmin
from ftrace.numpy.nanfunctions import nancumprod as nancumprod
from ftrace.numpy.nanfunctions import nancumsum as nancumsum
from ftrace.numpy.nanfunctions import nanmax as nanmax
from ftrace.numpy.nanfunctions import nanmean as nanmean
from ftrace.numpy.nanfunctions import nanmin as nanmin
from ftrace.numpy.nanfunctions import nanprod as nanprod
from ftrace.numpy.nanfunctions import nanstd as nanstd
from ftrace.numpy.nanfunctions import nansum as nansum
from ftrace.numpy.nanfunctions import nanvar as nanvar
from ftrace.numpy.numerics import allclose as allclose
from ftrace.numpy.numerics import array_equal as array_equal
from ftrace.numpy.numerics import array_equiv as array_equiv
from ftrace.numpy.numerics import diff as diff
from ftrace.numpy.numerics import ediff1d as ediff1d
from ftrace.numpy.numerics import gradient as gradient
from ftrace.numpy.numerics import i0 as i0
from ftrace.numpy.numerics import interp as interp
from ftrace.numpy.numerics import kaiser as kaiser
from ftrace.numpy.numerics import trapezoid as trapezoid
from ftrace.numpy.numerics import unwrap as unwrap
from ftrace.numpy.passive import *
from ftrace.numpy.products import convolve as convolve
from ftrace.numpy.products import correlate as correlate
from ftrace.numpy.products import dot as dot
from ftrace.numpy.products import einsum as einsum
from ftrace.numpy.products import inner as inner
from ftrace.numpy.products import matmul as matmul
from ftrace.numpy.products import matvec as matvec
from ftrace.numpy.products import tensordot as tensordot
from ftrace.numpy.products import vdot as vdot
from ftrace.numpy.products import vecdot as vecdot
from ftrace.numpy.products import vecmat as vecmat
from ftrace.numpy.reductions import all as all
from ftrace.numpy.reductions import amax as amax
from ftrace.numpy.reductions import amin as amin
from ftrace.numpy.reductions import any as any
from ftrace.numpy.reductions import argmax as argmax
from ftrace.numpy.reductions import argmin as argmin
from ftrace.numpy.reductions import average as average
from ftrace.numpy.reductions import count_nonzero as count_nonzero
from ftrace.numpy.reductions import max as max
from ftrace.numpy.reductions import mean as mean
from ftrace.numpy.reductions import min as min
from ftrace.numpy.reductions import prod as prod
from ftrace.numpy.reductions import ptp as ptp
from ftrace.numpy.reductions import std as std
from ftrace.numpy.reductions import sum as sum
from ftrace.numpy.reductions import trace as trace
from ftrace.numpy.reductions import var as var
from ftrace.numpy.shaping import astype as astype
from ftrace.numpy.shaping import atleast_1d as atleast_1d
from ftrace.numpy.shaping import atleast_2d as atleast_2d
from ftrace.numpy.shaping import atleast_3d as atleast_3d
from ftrace.numpy.shaping import broadcast_arrays as broadcast_arrays
from ftrace.numpy.shaping import broadcast_to as broadcast_to
from ftrace.numpy.shaping import diagonal as diagonal
from ftrace.numpy.shaping import expand_dims as expand_dims
from ftrace.numpy.shaping import flip as flip
from ftrace.numpy.shaping import fliplr as fliplr
from ftrace.numpy.shaping import flipud as flipud
from ftrace.numpy.shaping import matrix_transpose as matrix_transpose
from ftrace.numpy.shaping import moveaxis as moveaxis
from ftrace.numpy.shaping import ndim as ndim
from ftrace.numpy.shaping import permute_dims as permute_dims
from ftrace.numpy.shaping import ravel as ravel
from ftrace.numpy.shaping import reshape as reshape
from ftrace.numpy.shaping import resize as resize
from ftrace.numpy.shaping import roll as roll
from ftrace.numpy.shaping import rollaxis as rollaxis
from ftrace.numpy.shaping import rot90 as rot90
from ftrace.numpy.shaping import shape as shape
from ftrace.numpy.shaping import size as size
from ftrace.numpy.shaping import squeeze as squeeze
from ftrace.numpy.shaping import swapaxes as swapaxes
from ftrace.numpy.shaping import transpose as transpose
from ftrace.numpy.sorting import argpartition as argpartition
from ftrace.numpy.sorting import argsort as argsort
from ftrace.numpy.sorting import argwhere as argwhere
from ftrace.numpy.sorting import bincount as bincount
from ftrace.numpy.sorting import compress as compress
from ftrace.numpy.sorting import delete as delete
from ftrace.numpy.sorting import digitize as digitize
from ftrace.numpy.sorting import extract as extract
from ftrace.numpy.sorting import flatnonzero as flatnonzero
from ftrace.numpy.sorting import lexsort as lexsort
from ftrace.numpy.sorting import nonzero as nonzero
from ftrace.numpy.sorting import partition as partition
from ftrace.numpy.sorting import repeat as repeat
from ftrace.numpy.sorting import searchsorted as searchsorted
from ftrace.numpy.sorting import sort as sort
from ftrace.numpy.sorting import sort_complex as sort_complex
from ftrace.numpy.sorting import take as take
from ftrace.numpy.sorting import take_along_axis as take_along_axis
from ftrace.numpy.statistics import corrcoef as corrcoef
from ftrace.numpy.statistics import cov as cov
from ftrace.numpy.statistics import median as median
from ftrace.numpy.statistics import nanmedian as nanmedian
from ftrace.numpy.statistics import nanpercentile as nanpercentile
from ftrace.numpy.statistics import nanquantile as nanquantile
from ftrace.numpy.statistics import percentile as percentile
from ftrace.numpy.statistics import quantile as quantile
from ftrace.numpy.ufuncs import *  # all its ufuncs
from ftrace.numpy.updates import at as at
from ftrace.numpy.writers import copyto as copyto
from ftrace.numpy.writers import fill_diagonal as fill_diagonal
from ftrace.numpy.writers import place as place
from ftrace.numpy.writers import put as put
from ftrace.numpy.writers import put_along_axis as put_along_axis
from ftrace.numpy.writers import putmask as putmask

if _typing.TYPE_CHECKING:
    from ftrace.numpy import fft as fft
    from ftrace.numpy import linalg as linalg
    from ftrace.numpy.bits import packbits as packbits
    from ftrace.numpy.bits import unpackbits as unpackbits
    from ftrace.numpy.histograms import histogram as histogram
    from ftrace.numpy.histograms import histogram2d as histogram2d
    from ftrace.numpy.histograms import histogram_bin_edges as histogram_bin_edges
    from ftrace.numpy.histograms import histogramdd as histogramdd
    from ftrace.numpy.kinds_asked import can_cast as can_cast
    from ftrace.numpy.kinds_asked import common_type as common_type
    from ftrace.numpy.kinds_asked import min_scalar_type as min_scalar_type
    from ftrace.numpy.kinds_asked import result_type as result_type
    from ftrace.numpy.open_grids import diag_indices_from as diag_indices_from
    from ftrace.numpy.open_grids import ix_ as ix_
    from ftrace.numpy.open_grids import tril_indices_from as tril_indices_from
    from ftrace.numpy.open_grids import triu_indices_from as triu_indices_from
    from ftrace.numpy.padding import pad as pad
    from ftrace.numpy.polynomials import poly as poly
    from ftrace.numpy.polynomials import polyadd as polyadd
    from ftrace.numpy.polynomials import polyder as polyder
    from ftrace.numpy.polynomials import polydiv as polydiv
    from ftrace.numpy.polynomials import polyfit as polyfit
    from ftrace.numpy.polynomials import polyint as polyint
    from ftrace.numpy.polynomials import polymul as polymul
    from ftrace.numpy.polynomials import polysub as polysub
    from ftrace.numpy.polynomials import polyval as polyval
    from ftrace.numpy.polynomials import roots as roots
    from ftrace.numpy.polynomials import trim_zeros as trim_zeros
    from ftrace.numpy.sets import intersect1d as intersect1d
    from ftrace.numpy.sets import isin as isin
    from ftrace.numpy.sets import setdiff1d as setdiff1d
    from ftrace.numpy.sets import setxor1d as setxor1d
    from ftrace.numpy.sets import union1d as union1d
    from ftrace.numpy.sets import unique as unique
    from ftrace.numpy.sets import unique_all as unique_all
    from ftrace.numpy.sets import unique_counts as unique_counts
    from ftrace.numpy.sets import unique_inverse as unique_inverse
    from ftrace.numpy.sets import unique_values as unique_values
    from ftrace.numpy.sliding import sliding_window_view as sliding_window_view
    from ftrace.numpy.vectorizing import apply_along_axis as apply_along_axis
    from ftrace.numpy.vectorizing import apply_over_axes as apply_over_axes
    from ftrace.numpy.vectorizing import vectorize as vectorize

_LATE = _Late(
    __name__,
    {
        "bits": "packbits unpackbits",
        "fft": "",
        "histograms": "histogram histogram2d histogram_bin_edges histogramdd",
        "kinds_asked": "can_cast common_type min_scalar_type result_type",
        "linalg": "",
        "open_grids": "diag_indices_from ix_ tril_indices_from triu_indices_from",
        "padding": "pad",
        "polynomials": "poly polyadd polyder polydiv polyfit polyint polymul polysub polyval roots "
        "trim_zeros",
        "sets": "intersect1d isin setdiff1d setxor1d union1d unique unique_all unique_counts "
        "unique_inverse unique_values",
        "sliding": "sliding_window_view",
        "vectorizing": "apply_along_axis apply_over_axes vectorize",
    },
)
promote.LATE.append(_LATE.load_all)
protocols.install(
    protocols.PROTOCOLS,
    tracer_operators.OPERATORS,
    methods.METHODS,
    cells.CELLS,
    writers.METHODS,
)
if hasattr(_numpy, "__array_namespace_info__"):  # NumPy 2.0 has none
    __array_namespace_info__ = _numpy.__array_namespace_info__
segment_folds.install()
scimath.install()
selections.install()
__getattr__ = _LATE.getter(_refusing("numpy"))


def __dir__() -> list[str]:
    """All names, those that nobody has asked for too."""
    return sorted({*globals(), *_LATE.homes})
