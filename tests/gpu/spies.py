"""Arrays that answer as CuPy's do, on top of NumPy, and complain where CuPy would not.

`Spy` takes part in NumPy's two protocols under CuPy's conditions: ufuncs only as calls, a function
of the same name in `cupy` whose signature takes the arguments, a loop for the dtypes, no NumPy
array among the operands, no conversion to one. `Namespace` stands for the module `cupy` (or one
below it) under the same conditions. Quotients of complex numbers, and Cholesky factors that do not
exist, are CuPy's.
"""

import ctypes
import functools
import importlib
import inspect
import types
from typing import Any

import numpy as np
import scipy.linalg
import scipy.special

from ftrace.gpu.eager import cupy_library
from ftrace.primitives.table import by_name
from tests.gpu.hosted import cupy

SCALARS = (bool, int, float, complex, np.generic)
ATTRIBUTES = ("shape", "dtype", "ndim", "size", "itemsize", "nbytes", "strides")


def plain(x: Any) -> Any:
    """NumPy's array of a spy, also in lists and tuples."""
    if isinstance(x, Spy):
        return x.memory
    return type(x)(map(plain, x)) if type(x) in (list, tuple) else x


def wrapped(x: Any) -> Any:
    """Spies of what NumPy gave; its scalars are arrays of rank 0 on a device."""
    if isinstance(x, np.ndarray | np.generic):
        return Spy(x)
    return type(x)(map(wrapped, x)) if type(x) in (list, tuple) else x


def refuse(args: Any) -> None:
    """Raise where a NumPy array is among arguments that may hold spies."""
    for a in args:
        if isinstance(a, np.ndarray):
            raise TypeError("Unsupported type <class 'numpy.ndarray'>")
        if type(a) in (list, tuple):
            refuse(a)


def check_loop(function: Any, inputs: Any) -> None:
    """Raise where a ufunc of CuPy has no loop for the dtypes of operands."""
    for loop in getattr(function, "types", None) or ("",):
        chars = loop.split("->")[0] or "D" * len(inputs)
        if not set(chars) <= set(np.typecodes["All"]):  # bfloat16, where ml_dtypes is installed
            continue
        if all(_fits(x, c) for x, c in zip(inputs, chars, strict=True)):
            return
    raise TypeError(f"{function} has no loop for {[getattr(x, 'dtype', type(x)) for x in inputs]}")


def _fits(x: Any, char: str) -> bool:
    if isinstance(x, Spy | np.generic):
        return np.can_cast(x.dtype, char)
    return "biufc".index(np.dtype(type(x)).kind) <= "biufc".index(np.dtype(char).kind)


class Namespace:
    """A module of CuPy's whose functions run NumPy's (or SciPy's) of the same names."""

    ndarray: Any

    def __init__(self, theirs: Any, ours: Any) -> None:
        self._theirs, self._ours = theirs, ours
        self.__name__ = theirs.__name__
        self.__version__ = cupy.__version__

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._theirs, name)
        if isinstance(function, types.ModuleType):
            return Namespace(function, getattr(self._ours, name))
        return functools.partial(call, function, getattr(self._ours, name))


def call(theirs: Any, ours: Any, *args: Any, **kwargs: Any) -> Any:
    """NumPy's function, where CuPy's takes these arguments."""
    if theirs in (cupy.sort, cupy.argsort) and not args[0].size:
        raise ZeroDivisionError("CuPy divides by lengths")
    if theirs not in (cupy.array, cupy.asarray):
        refuse((*args, *kwargs.values()))
    if hasattr(theirs, "types"):
        assert set(kwargs) <= {"dtype", "out"}, kwargs
        check_loop(theirs, args)
    else:
        inspect.signature(theirs).bind(*args, **kwargs)
    kwargs = {k: plain(v) for k, v in kwargs.items()}
    ours = {cupy.true_divide: divided, cupy.linalg.cholesky: factor}.get(theirs, ours)
    return wrapped(ours(*map(plain, args), **kwargs))


def divided(x: Any, y: Any, **kwargs: Any) -> Any:
    """The quotient; of complex numbers as Thrust's: NaN where the divisor is infinite."""
    found = np.true_divide(x, y, **kwargs)
    if found.dtype.kind == "c":
        with np.errstate(invalid="ignore"):
            found = np.where(np.isinf(y), found.dtype.type(complex(np.nan, np.nan)), found)
    return found


def factor(a: Any) -> Any:
    """Cholesky factors; of a matrix without one what cuSOLVER leaves: no positive pivot."""
    try:
        return np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        if a.ndim == 2:
            return np.tril(a) * np.where(np.eye(len(a)), -1, 1)
        return np.stack(list(map(factor, a)))


class Spy(np.lib.mixins.NDArrayOperatorsMixin):
    """An array that answers as CuPy's."""

    synchronised = 0

    def __init__(self, memory: Any) -> None:
        self.memory = np.asarray(memory)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        function = getattr(cupy, ufunc.__name__, None)
        if method != "__call__" or function is None:
            return NotImplemented
        return call(function, ufunc, *inputs, **kwargs)

    def __array_function__(self, func: Any, classes: Any, args: Any, kwargs: Any) -> Any:
        module = functools.reduce(getattr, func.__module__.split(".")[1:], cupy)
        function = getattr(module, func.__name__, None)
        if function is None or function is func:
            return NotImplemented
        return call(function, func, *args, **kwargs)

    @property
    def data(self) -> Any:
        return types.SimpleNamespace(ptr=self.memory.ctypes.data)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(cupy.ndarray, name):
            raise AttributeError(f"cupy.ndarray has no {name}")
        found = getattr(self.memory, name)
        if name in ATTRIBUTES:
            return found
        if not callable(found):
            return Spy(found)

        def method(*args: Any, **kwargs: Any) -> Any:
            refuse((*args, *kwargs.values()))
            return wrapped(found(*map(plain, args), **kwargs))

        return method

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, Spy) and key.dtype == bool:
            Spy.synchronised += 1
        return Spy(self.memory[plain(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        refuse((value,))
        self.memory[plain(key)] = plain(value)

    def __bool__(self) -> bool:
        Spy.synchronised += 1
        return bool(self.memory)

    def __int__(self) -> int:
        Spy.synchronised += 1
        return int(self.memory)

    def __iter__(self) -> Any:
        raise TypeError("a loop over a device's array reads element after element")


Namespace.ndarray = Spy


def own(kind: str, v: Any, x: Any) -> Spy:
    """What a kernel of ours gives."""
    assert all(a.memory.flags.c_contiguous and a.dtype == np.float64 for a in (v, x))
    return Spy(getattr(scipy.special, kind)(v.memory, x.memory))


class Cublas:
    """Products as cuBLAS does them: in place, of matrices that lie column by column."""

    TYPES = ((2, "e", 68), (0, "f", 68), (1, "d", 70), (4, "F", 68), (5, "D", 70))

    def __init__(self) -> None:
        self.calls = 0

    def gemmEx(self, *given: Any) -> None:  # noqa: N802 - cuBLAS's name
        head, (a, kind_a, lda, b, kind_b, ldb, zero, c, *rest) = given[:7], given[7:]
        kind_c, ldc, compute, algorithm = rest
        self.gemmStridedBatchedEx(
            *(*head, a, kind_a, lda, 0, b, kind_b, ldb, 0),
            *(zero, c, kind_c, ldc, 0, 1, compute, algorithm),
        )

    def gemmStridedBatchedEx(self, handle: int, *given: Any) -> None:  # noqa: N802
        turn_a, turn_b, m, n, k, one, *given = given
        a, kind, lda, step_a, b, kind_b, ldb, step_b, zero, c, kind_c, ldc, step_c, *rest = given
        count, compute, algorithm = rest
        assert handle == 7
        assert algorithm == -1
        assert kind == kind_b == kind_c
        ((dtype, needed),) = [(t, z) for number, t, z in self.TYPES if number == kind]
        assert compute == needed
        wide = np.dtype("f" if dtype == "e" else dtype)
        for scalar, value in ((one, 1), (zero, 0)):
            assert _seen(scalar, wide, (), ()) == value
        at_a = _seen(a, dtype, (count, *((k, m) if turn_a else (m, k))), (step_a, 1, lda))
        at_b = _seen(b, dtype, (count, *((n, k) if turn_b else (k, n))), (step_b, 1, ldb))
        x = (np.swapaxes(at_a, 1, 2) if turn_a else at_a).astype(wide)
        y = (np.swapaxes(at_b, 1, 2) if turn_b else at_b).astype(wide)
        _seen(c, dtype, (count, m, n), (step_c, 1, ldc))[...] = np.matmul(x, y)
        self.calls += 1


def _seen(address: int, dtype: Any, shape: Any, steps: Any) -> Any:
    """Memory as an array; steps are in elements, of columns at least as long as these are."""
    assert not shape or steps[2] >= max(shape[1], 1)
    size = np.dtype(dtype).itemsize
    last = sum(max(n - 1, 0) * max(s, 0) for n, s in zip(shape, steps, strict=True))
    memory = (ctypes.c_char * ((last + 1) * size)).from_address(address)
    return np.ndarray(shape, dtype, memory, 0, tuple(size * s for s in steps))


def compiled(row: Any, *operands: Any) -> Spy:
    """What the kernel of a compiled function gives."""
    return Spy(row.impl(*map(plain, operands)))


def added(rows: Spy, places: Spy, values: Spy) -> Spy:
    """What kernels of ours add."""
    assert rows.ndim == values.ndim == 2
    assert rows.dtype.char in "fdFDiIlL"
    assert places.dtype == np.int64
    found, inside = rows.memory.copy(), (places.memory >= 0) & (places.memory < len(rows.memory))
    np.add.at(found, places.memory[inside], values.memory[inside])
    return Spy(found)


def accumulated(operation: str, x: Spy, axis: int, reverse: bool) -> Spy:
    """What kernels of ours accumulate."""
    rows = {joins: name for name, joins in cupy_library._CUMULATIVE.items()}
    return Spy(by_name[rows[operation]].impl(x.memory, axis, reverse))


def special() -> Namespace:
    """The namespace of `cupyx.scipy.special`."""
    return Namespace(importlib.import_module("cupyx.scipy.special"), scipy.special)


class LinearAlgebra:
    """The functions of `cupyx.scipy.linalg`, which only CUDA's libraries let a machine import."""

    @staticmethod
    def solve_triangular(
        a: Any, b: Any, trans: int = 0, lower: bool = False, unit_diagonal: bool = False
    ) -> Spy:
        assert a.shape[:-1] == b.shape[:-1], "it does not broadcast"
        out = np.empty(b.shape, b.dtype)
        for i in np.ndindex(b.shape[:-2]):
            options = {"lower": lower, "unit_diagonal": unit_diagonal, "check_finite": False}
            out[i] = scipy.linalg.solve_triangular(a.memory[i], b.memory[i], trans, **options)
        return Spy(out)

    @staticmethod
    def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
        assert a.ndim == 2
        return wrapped(scipy.linalg.lu_factor(a.memory, check_finite=check_finite))

    @staticmethod
    def expm(a: Any) -> Spy:
        assert a.ndim == 2
        return Spy(scipy.linalg.expm(a.memory))
