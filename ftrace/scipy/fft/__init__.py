"""`ftrace.scipy.fft`: SciPy's Fourier, cosine and sine transforms, with derivatives.

With no trace running each is SciPy's own function; on traced arrays they are made of the row `fft`.
SciPy's own names work in functions that are lifted.
"""

import ftrace.numpy  # noqa: F401 # pyright: ignore[reportUnusedImport] - makes tracers arrays
from ftrace.core.arguments import explain as _explain
from ftrace.core.lazy import lazy as _lazy
from ftrace.numpy.fft import fftfreq as fftfreq
from ftrace.numpy.fft import fftshift as fftshift
from ftrace.numpy.fft import ifftshift as ifftshift
from ftrace.numpy.fft import rfftfreq as rfftfreq
from ftrace.scipy.fft.cosine_transforms import dct as dct
from ftrace.scipy.fft.cosine_transforms import dctn as dctn
from ftrace.scipy.fft.cosine_transforms import dst as dst
from ftrace.scipy.fft.cosine_transforms import dstn as dstn
from ftrace.scipy.fft.cosine_transforms import idct as idct
from ftrace.scipy.fft.cosine_transforms import idctn as idctn
from ftrace.scipy.fft.cosine_transforms import idst as idst
from ftrace.scipy.fft.cosine_transforms import idstn as idstn
from ftrace.scipy.fft.fourier_transforms import fft as fft
from ftrace.scipy.fft.fourier_transforms import fft2 as fft2
from ftrace.scipy.fft.fourier_transforms import fftn as fftn
from ftrace.scipy.fft.fourier_transforms import hfft as hfft
from ftrace.scipy.fft.fourier_transforms import hfft2 as hfft2
from ftrace.scipy.fft.fourier_transforms import hfftn as hfftn
from ftrace.scipy.fft.fourier_transforms import ifft as ifft
from ftrace.scipy.fft.fourier_transforms import ifft2 as ifft2
from ftrace.scipy.fft.fourier_transforms import ifftn as ifftn
from ftrace.scipy.fft.fourier_transforms import ihfft as ihfft
from ftrace.scipy.fft.fourier_transforms import ihfft2 as ihfft2
from ftrace.scipy.fft.fourier_transforms import ihfftn as ihfftn
from ftrace.scipy.fft.fourier_transforms import irfft as irfft
from ftrace.scipy.fft.fourier_transforms import irfft2 as irfft2
from ftrace.scipy.fft.fourier_transforms import irfftn as irfftn
from ftrace.scipy.fft.fourier_transforms import rfft as rfft
from ftrace.scipy.fft.fourier_transforms import rfft2 as rfft2
from ftrace.scipy.fft.fourier_transforms import rfftn as rfftn

next_fast_len = _lazy("scipy.fft", "next_fast_len")
prev_fast_len = _lazy("scipy.fft", "prev_fast_len")

_explain(globals())
