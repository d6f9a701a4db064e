"""`ftrace.scipy.signal`: convolutions, filters and spectra, by SciPy's names.

With no trace running each is SciPy's own function. Windows and designs of filters depend on static
numbers: call SciPy's, or `scipy.signal` as it is, which is lifted.
"""

import ftrace.numpy  # noqa: F401 # pyright: ignore[reportUnusedImport] - makes tracers arrays
from ftrace.core.arguments import explain as _explain
from ftrace.core.jax_names import refusing as _refusing
from ftrace.scipy.signal.changed_rates import resample_poly as resample_poly
from ftrace.scipy.signal.changed_rates import upfirdn as upfirdn
from ftrace.scipy.signal.convolving import convolve as convolve
from ftrace.scipy.signal.convolving import convolve2d as convolve2d
from ftrace.scipy.signal.convolving import correlate as correlate
from ftrace.scipy.signal.convolving import correlate2d as correlate2d
from ftrace.scipy.signal.convolving import fftconvolve as fftconvolve
from ftrace.scipy.signal.convolving import oaconvolve as oaconvolve
from ftrace.scipy.signal.filtering import detrend as detrend
from ftrace.scipy.signal.filtering import lfilter as lfilter
from ftrace.scipy.signal.filtering import lfilter_zi as lfilter_zi
from ftrace.scipy.signal.filtering import medfilt as medfilt
from ftrace.scipy.signal.filtering import medfilt2d as medfilt2d
from ftrace.scipy.signal.filtering import sosfilt as sosfilt
from ftrace.scipy.signal.power_spectra import csd as csd
from ftrace.scipy.signal.power_spectra import periodogram as periodogram
from ftrace.scipy.signal.power_spectra import welch as welch
from ftrace.scipy.signal.waveforms import sawtooth as sawtooth

_explain(globals())
__getattr__ = _refusing("scipy.signal")
