"""NumPy's functions for traced arrays: `import ftrace.numpy as fnp`.

Every function takes arrays, scalars and tracers and follows NumPy 2. With no transformation
running it is NumPy's own function; inside one it is recorded, differentiated or batched.
Plain `numpy` functions on tracers do the same through NumPy's protocols (`protocols.py`).
"""
import sys
from ftrace.numpy import cells, methods, operators, protocols, writers
from ftrace.numpy.ufuncs import *
from ftrace.numpy.reductions import *
from ftrace.numpy.shaping import *
from ftrace.numpy.products import *
from ftrace.numpy.elementary import *
from ftrace.numpy.joining import *
from ftrace.numpy.sorting import *
protocols.install(protocols.PROTOCOLS, operators.OPERATORS, methods.METHODS, cells.CELLS, writers.METHODS)
protocols.set_namespace(sys.modules[__name__])
