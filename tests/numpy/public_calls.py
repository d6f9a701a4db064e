"""One call of every public function of NumPy, as a user writes it: what the table of NumPy is from.

`CALLS` maps a name to a function of traced arrays, written with `np` alone, and its arguments;
where `cases.py` has a call of a function, that is taken. `OUTSIDE` names the functions that no
traced array can be given to, with the reason.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.polynomial as npp
from numpy.lib import stride_tricks

from tests.numpy.cases import CASES
from tests.numpy.function_table import SORTED, Case, leaves, lookup, rebuild
from tests.numpy.test_ufuncs import UFUNCS, draw


class Call(NamedTuple):
    """A function of traced arrays, and arrays to call it with.

    Attributes:
        f: the function.
        args: its arguments.
        smooth: whether results of floats have the derivative that finite differences show.
    """

    f: Callable[..., Any]
    args: tuple[Any, ...]
    smooth: bool = True


V = np.array([0.5, -1.25, 2.0, 0.75, -0.3])
W = np.array([1.5, 0.25, -2.0, 1.75, 0.6])
POSITIVE = np.array([0.5, 1.25, 2.0, 0.75, 0.3])
A = np.array([[0.5, -1.25, 2.0], [0.75, -0.3, 1.1], [-0.6, 0.9, 3.0]])
B = A @ A.T + 3 * np.eye(3)
I = np.array([3, 1, 2, 1, 0])  # noqa: E741 - integers
BYTES = np.array([[7, 1, 255], [0, 128, 3]], np.uint8)
S = np.float64(0.75)
ROUGH = False


def _written(write: Callable[..., None], *more: Any) -> Callable[..., Any]:
    """A function that writes into a copy of its first argument."""

    def f(x: Any, *rest: Any) -> Any:
        y = x.copy()
        write(y, *rest, *more)
        return y

    return f


def _set_shape(y: Any) -> None:
    y.shape = (1, 5)


def _listed(f: Callable[..., Any]) -> Callable[..., Any]:
    """The arrays of a result that is an iterator."""
    return lambda *xs: [v for part in f(*xs) for v in (part if type(part) is tuple else (part,))]


def _halves(x: Any) -> Any:
    return x / 2 if x > 0 else x


_FUNCTIONS: dict[str, Call] = {
    "arange": Call(lambda x: x * np.arange(5), (V,)),
    "argpartition": Call(lambda x: np.argpartition(x, 2), (V,)),
    "argwhere": Call(lambda x: np.argwhere(x > 0), (V,)),
    "array": Call(lambda s: np.array([s, 2.0 * s, 1.0]), (S,)),
    "asanyarray": Call(lambda s: np.asanyarray([s, 1.0]), (S,)),
    "asarray": Call(lambda s: np.asarray([s, 1.0]), (S,)),
    "asarray_chkfinite": Call(lambda x: np.asarray_chkfinite(x), (V,)),
    "ascontiguousarray": Call(lambda x: np.ascontiguousarray(x.T), (A,)),
    "asfortranarray": Call(lambda x: np.asfortranarray(x), (A,)),
    "asmatrix": Call(lambda x: np.asmatrix(x), (A,)),
    "bincount": Call(lambda i, w: np.bincount(i, weights=w, minlength=6), (I, V)),
    "bmat": Call(lambda x: np.bmat([[x, x]]), (A,)),
    "broadcast": Call(lambda x: x * np.broadcast(x, W).size, (V,)),
    "can_cast": Call(lambda x: x * np.can_cast(x, np.float32), (V,)),
    "common_type": Call(lambda x: x.astype(np.common_type(x, np.float32(1.0))), (V,)),
    "compress": Call(lambda x: np.compress([True, False, True], x, axis=1), (A,)),
    "copyto": Call(_written(lambda y, v: np.copyto(y, v, where=v > 0)), (V, W)),
    "diag_indices_from": Call(lambda x: x[np.diag_indices_from(x)], (A,)),
    "einsum_path": Call(lambda x: x * len(np.einsum_path("ij,jk", x, x)[0]), (A,)),
    "empty": Call(_written(lambda y, v: np.copyto(y, np.empty(5) * 0 + v)), (V, W)),
    "empty_like": Call(lambda x: np.empty_like(x) * 0 + x, (V,)),
    "extract": Call(lambda x: np.extract([True, False, True, True, False], x), (V,)),
    "eye": Call(lambda x: x * np.eye(3), (A,)),
    "fill_diagonal": Call(_written(lambda y, s: np.fill_diagonal(y, s)), (A, S)),
    "flatnonzero": Call(lambda x: np.flatnonzero(x > 0), (V,)),
    "format_float_positional": Call(lambda s: s * len(np.format_float_positional(s)), (S,)),
    "format_float_scientific": Call(lambda s: s * len(np.format_float_scientific(s)), (S,)),
    "from_dlpack": Call(lambda x: np.from_dlpack(x), (V,)),
    "fromfunction": Call(lambda s: np.fromfunction(lambda i, j: s * i + j, (2, 3)), (S,)),
    "fromiter": Call(lambda x: np.fromiter((v * 2 for v in x), float), (V,)),
    "frompyfunc": Call(lambda x: np.frompyfunc(_halves, 1, 1)(x).astype(float), (V,)),
    "full": Call(lambda s: np.full(3, s), (S,)),
    "histogram2d": Call(lambda x, y: np.histogram2d(x, y, bins=(2, 3)), (V, W), ROUGH),
    "histogramdd": Call(lambda x: np.histogramdd(x, bins=2), (A,), ROUGH),
    "identity": Call(lambda x: x * np.identity(3), (A,)),
    "indices": Call(lambda x: x * np.indices((3, 3))[0], (A,)),
    "intersect1d": Call(lambda x: np.intersect1d(x, W), (V,)),
    "iscomplexobj": Call(lambda x: x * np.iscomplexobj(x), (V,)),
    "isfortran": Call(lambda x: x * np.isfortran(x), (A,)),
    "isrealobj": Call(lambda x: x * np.isrealobj(x), (V,)),
    "isscalar": Call(lambda x: x * np.isscalar(x), (V,)),
    "iterable": Call(lambda x: x * np.iterable(x), (V,)),
    "ix_": Call(lambda i, x: x[np.ix_(i[:2] % 3, [0, 2])], (I, A)),
    "kaiser": Call(lambda s: np.kaiser(5, s), (S,)),
    "mask_indices": Call(lambda x: x[np.mask_indices(3, np.triu)], (A,)),
    "matrix": Call(lambda x: np.matrix(x), (A,)),
    "min_scalar_type": Call(lambda x: x.astype(np.min_scalar_type(x)), (V,)),
    "ndenumerate": Call(lambda x: sum(v * i[0] for i, v in np.ndenumerate(x)), (V,)),
    "ndim": Call(lambda x: x * np.ndim(x), (V,)),
    "ndindex": Call(lambda x: sum(x[i] for i in np.ndindex(2, 2)), (A,)),
    "nditer": Call(lambda x: sum(np.nditer(x)), (V,)),
    "nested_iters": Call(lambda x: x * len(np.nested_iters(x, [[0], [1]])), (A,)),
    "nonzero": Call(lambda x: np.nonzero(x > 0), (V,)),
    "ones": Call(lambda x: x * np.ones(5), (V,)),
    "packbits": Call(lambda i: np.packbits(i > 1), (BYTES,)),
    "partition": Call(lambda x: np.partition(x, 2), (V,)),
    "place": Call(
        _written(lambda y: np.place(y, [True, False, True, True, False], [1.0, 2.0])), (V,)
    ),
    "poly1d": Call(lambda x: np.poly1d([1.0, 2.0, 3.0])(x), (V,)),
    "polydiv": Call(lambda p, q: np.polydiv(p, q), (V, W[:2])),
    "polyfit": Call(lambda x, y: np.polyfit(x, y, 2), (V, W)),
    "put": Call(_written(lambda y, v: np.put(y, [0, 3], v)), (V, W[:2])),
    "put_along_axis": Call(_written(lambda y: np.put_along_axis(y, I[:3, None] % 3, 1.0, 1)), (A,)),
    "putmask": Call(_written(lambda y, v: np.putmask(y, v > 0, v)), (V, W)),
    "ravel_multi_index": Call(lambda i: np.ravel_multi_index((i, i), (4, 5)), (I,)),
    "real_if_close": Call(lambda x: np.real_if_close(x + 0j), (V,)),
    "require": Call(lambda x: np.require(x, requirements="C"), (A,)),
    "result_type": Call(lambda x: x.astype(np.result_type(x, np.float32)), (V,)),
    "roots": Call(lambda p: np.sort(np.roots(p).real), (np.array([1.0, -2.5, 1.0]),)),
    "row_stack": Call(lambda x, y: np.vstack([x, y]), (V, W)),
    "setdiff1d": Call(lambda x: np.setdiff1d(x, W), (V,)),
    "setxor1d": Call(lambda x: np.setxor1d(x, W), (V,)),
    "shape": Call(lambda x: x * np.shape(x)[0], (V,)),
    "size": Call(lambda x: x * np.size(x), (V,)),
    "tri": Call(lambda x: x * np.tri(3), (A,)),
    "tril_indices": Call(lambda x: x[np.tril_indices(3)], (A,)),
    "tril_indices_from": Call(lambda x: x[np.tril_indices_from(x)], (A,)),
    "trim_zeros": Call(lambda x: np.trim_zeros(x), (V,)),
    "triu_indices": Call(lambda x: x[np.triu_indices(3)], (A,)),
    "triu_indices_from": Call(lambda x: x[np.triu_indices_from(x)], (A,)),
    "typename": Call(lambda x: x * len(np.typename(x.dtype.char)), (V,)),
    "union1d": Call(lambda x: np.union1d(x, W), (V,)),
    "unique": Call(lambda x: np.unique(x), (V,)),
    "unique_all": Call(lambda x: np.unique_all(x), (V,)),
    "unique_counts": Call(lambda x: np.unique_counts(x), (V,)),
    "unique_inverse": Call(lambda x: np.unique_inverse(x), (V,)),
    "unique_values": Call(lambda x: np.unique_values(x), (V,)),
    "unpackbits": Call(lambda i: np.unpackbits(i, axis=1), (BYTES,)),
    "unravel_index": Call(lambda i: np.unravel_index(i, (2, 2)), (I,)),
    "vectorize": Call(lambda x: np.vectorize(_halves, otypes=[float])(x), (V,)),
    "zeros": Call(_written(lambda y, v: np.copyto(y, np.zeros(5) + v)), (V, W)),
}

_OTHER_MODULES: dict[str, Call] = {
    "lib.stride_tricks.sliding_window_view": Call(
        lambda x: stride_tricks.sliding_window_view(x, (2, 2)), (A,)
    ),
    "lib.stride_tricks.as_strided": Call(lambda x: stride_tricks.as_strided(x, (2,)), (V,)),
    **{
        f"emath.{name}": Call(getattr(np.emath, name), (V[:2],))
        for name in ("sqrt", "log", "log2", "log10", "arccos", "arcsin", "arctanh")
    },
    "emath.logn": Call(lambda x: np.emath.logn(2.0, x), (V[:2],)),
    "emath.power": Call(lambda x: np.emath.power(x, 1.5), (V[:2],)),
    "linalg.cholesky": Call(lambda x: np.linalg.cholesky((x + x.T) / 2), (B,)),
    "linalg.cond": Call(lambda x: np.linalg.cond(x), (B,)),
    "linalg.det": Call(lambda x: np.linalg.det(x), (A,)),
    "linalg.eig": Call(lambda x: np.linalg.eig(x)[0].real, (B,)),
    "linalg.eigh": Call(lambda x: np.linalg.eigh((x + x.T) / 2)[0], (B,)),
    "linalg.eigvals": Call(lambda x: np.sort(np.linalg.eigvals(x).real), (B,)),
    "linalg.eigvalsh": Call(lambda x: np.linalg.eigvalsh((x + x.T) / 2), (B,)),
    "linalg.inv": Call(lambda x: np.linalg.inv(x), (A,)),
    "linalg.lstsq": Call(lambda x, y: np.linalg.lstsq(x, y, rcond=None)[0], (A[:, :2], V[:3])),
    "linalg.matrix_rank": Call(lambda x: np.linalg.matrix_rank(x), (A,)),
    "linalg.pinv": Call(lambda x: np.linalg.pinv(x), (A[:, :2],)),
    "linalg.qr": Call(lambda x: np.linalg.qr(x), (A,)),
    "linalg.slogdet": Call(lambda x: np.linalg.slogdet(x), (A,)),
    "linalg.solve": Call(lambda x, y: np.linalg.solve(x, y), (A, V[:3])),
    "linalg.svd": Call(lambda x: np.linalg.svd(x)[1], (A,)),
    "linalg.svdvals": Call(lambda x: np.linalg.svdvals(x), (A,)),
    "linalg.tensorinv": Call(lambda x: np.linalg.tensorinv(x, 1), (A,)),
    "linalg.tensorsolve": Call(lambda x, y: np.linalg.tensorsolve(x, y), (A, V[:3])),
    **{
        f"fft.{name}": Call(getattr(np.fft, name), (A,))
        for name in np.fft.__all__
        if not name.endswith("freq")
    },
    "fft.fftfreq": Call(lambda s: np.fft.fftfreq(4, s), (S,)),
    "fft.rfftfreq": Call(lambda s: np.fft.rfftfreq(4, s), (S,)),
}


def _polynomials() -> Iterator[tuple[str, Call]]:
    """The functions of numpy.polynomial, of all six bases."""
    c, d, m = V * 0.45, W[:3] * 0.45, A[:2] * 0.3
    shapes: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        **{end: (lambda f, c: f(c), (c,)) for end in ("der", "int", "mulx", "fromroots")},
        **{end: (lambda f, c: f(c), (c,)) for end in ("companion", "trim", "weight")},
        "roots": (lambda f, c: np.sort(f(c).real), (c,)),
        **{end: (lambda f, c, d: f(c, d), (c, d)) for end in ("add", "sub", "mul", "div")},
        "val": (lambda f, x, c: f(x, c), (c, d)),
        "valfromroots": (lambda f, x, c: f(x, c), (c, d)),
        "pow": (lambda f, c: f(c, 3), (d,)),
        "vander": (lambda f, x: f(x, 3), (c,)),
        "pts1": (lambda f, x: f(3) * x[:3], (c,)),
        "pts2": (lambda f, x: f(3) * x[:3], (c,)),
        "gauss": (lambda f, x: f(3)[0] * x[:3], (c,)),
        "interpolate": (lambda f, s: f(lambda x: x * s[0], 2), (c,)),
        "line": (lambda f, c: f(c[0], c[1]), (c,)),
        "fit": (lambda f, x, y: f(x, y, 2), (c, W)),
        **{f"{end}2d": (lambda f, x, y, m: f(x, y, m), (d, d, m)) for end in ("val", "grid")},
        **{f"{end}3d": (lambda f, x, m: f(x, x, x, m[None]), (d, m)) for end in ("val", "grid")},
        "vander2d": (lambda f, x: f(x, x, [1, 2]), (d,)),
        "vander3d": (lambda f, x: f(x, x, x, [1, 1, 2]), (d,)),
    }
    bases = {"polynomial": "poly", "chebyshev": "cheb", "legendre": "leg"}
    bases |= {"hermite": "herm", "hermite_e": "herme", "laguerre": "lag"}
    for name, prefix in bases.items():
        module = getattr(npp, name)
        for end, (f, args) in shapes.items():
            function = getattr(module, prefix + end, None)
            if function is not None:
                yield (
                    f"polynomial.{name}.{prefix}{end}",
                    Call(lambda *xs, f=f, g=function: f(g, *xs), args),
                )
        for end in (f"{prefix}2poly", f"poly2{prefix}"):
            if hasattr(module, end):
                yield f"polynomial.{name}.{end}", Call(getattr(module, end), (d,))


_UFUNC_METHODS: dict[str, Call] = {
    "add.reduce": Call(lambda x: np.add.reduce(x, where=x > 0, initial=2.0), (V,)),
    "fmax.reduce": Call(lambda x: np.fmax.reduce(x, where=x > 0, initial=-9.0), (V,)),
    "logaddexp.reduce": Call(lambda x: np.logaddexp.reduce(x, where=x > 0), (V,)),
    "subtract.reduce": Call(lambda x: np.subtract.reduce(x, where=x > 0, initial=1.0), (V,)),
    "bitwise_or.reduce": Call(lambda i: np.bitwise_or.reduce(i, where=i > 1), (I,)),
    "multiply.accumulate": Call(lambda x: np.multiply.accumulate(x), (V,)),
    "subtract.accumulate": Call(lambda x: np.subtract.accumulate(x, axis=1), (A,)),
    "add.reduceat": Call(lambda x: np.add.reduceat(x, [0, 3, 1]), (V,)),
    "maximum.reduceat": Call(lambda x: np.maximum.reduceat(x, [0, 2], axis=1), (A,)),
    "multiply.reduceat": Call(lambda x, i: np.multiply.reduceat(x, i), (V, np.array([0, 3, 1]))),
    "multiply.outer": Call(lambda x, y: np.multiply.outer(x, y), (V, W)),
    "add.at": Call(_written(lambda y, i, v: np.add.at(y, i, v)), (V, I, W)),
    "sin(out=, where=)": Call(_written(lambda y, v: np.sin(v, out=y, where=v > 0)), (V, W)),
}


def _ndarray() -> Iterator[tuple[str, Call]]:
    """Methods and attributes of arrays; those that functions have too are called likewise."""
    for name in ("T", "mT", "real", "imag"):
        yield f"ndarray.{name}", Call(lambda x, n=name: getattr(x, n) * 1.0, (A,))
    for name in ("dtype", "itemsize", "nbytes", "ndim", "shape", "size"):
        yield f"ndarray.{name}", Call(lambda x, n=name: x * len(str(getattr(x, n))), (A,))
    for name in ("base", "ctypes", "data", "device", "flags", "strides"):
        yield f"ndarray.{name}", Call(lambda x, n=name: x * len(str(getattr(x, n))), (A,))
    for name in ("all", "any", "argmax", "argmin", "argsort", "conj", "conjugate", "copy"):
        yield f"ndarray.{name}", Call(lambda x, n=name: getattr(x, n)(), (A,))
    for name in ("cumprod", "cumsum", "diagonal", "flatten", "max", "mean", "min", "nonzero"):
        yield f"ndarray.{name}", Call(lambda x, n=name: getattr(x, n)(), (A,))
    for name in ("prod", "ravel", "squeeze", "std", "sum", "trace", "transpose", "var"):
        yield f"ndarray.{name}", Call(lambda x, n=name: getattr(x, n)(), (A,))
    for name in ("byteswap", "dumps", "tobytes"):
        yield f"ndarray.{name}", Call(lambda x, n=name: x * len(str(getattr(x, n)())), (A,))
    yield "ndarray.item", Call(lambda x: x * x.item(1, 1) + x[0, :1].item(), (A,))
    yield "ndarray.tolist", Call(lambda x: x * x.tolist()[1][0], (A,))
    yield "ndarray.argpartition", Call(lambda x: x.argpartition(1), (V,))
    yield "ndarray.astype", Call(lambda x: x.astype(np.complex128), (V,))
    yield "ndarray.choose", Call(lambda i, x: i.choose([x, -x, x * 2, x * 3]), (I, V))
    yield "ndarray.clip", Call(lambda x: x.clip(-0.4, 1.0), (V,))
    yield "ndarray.compress", Call(lambda x: x.compress([True, False, True]), (V,))
    yield "ndarray.dot", Call(lambda x, y: x.dot(y), (V, W))
    yield "ndarray.dump", Call(lambda x: x.dump("/dev/null"), (V,))
    yield "ndarray.fill", Call(_written(lambda y, s: y.fill(s)), (V, S))
    yield "ndarray.flat", Call(lambda x: x.flat[4], (A,))
    yield "ndarray.getfield", Call(lambda x: x.getfield(np.int32), (V,))
    yield "ndarray.partition", Call(_written(lambda y: y.partition(2)), (V,))
    yield "ndarray.put", Call(_written(lambda y, v: y.put([1, 0], v)), (V, W[:2]))
    yield "ndarray.repeat", Call(lambda x: x.repeat(2, axis=0), (A,))
    yield "ndarray.reshape", Call(lambda x: x.reshape(9), (A,))
    yield "ndarray.resize", Call(_written(lambda y: y.resize(3, refcheck=False)), (V,))
    yield "ndarray.round", Call(lambda x: x.round(1), (A,), ROUGH)
    yield "ndarray.searchsorted", Call(lambda x, y: x.searchsorted(y), (SORTED, V))
    yield "ndarray.setfield", Call(_written(lambda y: y.setfield(1.0, float)), (V,))
    yield "ndarray.setflags", Call(_written(lambda y: y.setflags(write=True)), (V,))
    yield "ndarray.shape=", Call(_written(_set_shape), (V,))
    yield "ndarray.sort", Call(_written(lambda y: y.sort()), (V,))
    yield "ndarray.swapaxes", Call(lambda x: x.swapaxes(0, 1), (A,))
    yield "ndarray.take", Call(lambda x: x.take([2, 0]), (V,))
    yield "ndarray.to_device", Call(lambda x: x.to_device("cpu"), (V,))
    yield "ndarray.tofile", Call(lambda x: x.tofile("/dev/null"), (V,))
    yield "ndarray.view", Call(lambda x: x.view() * 2.0, (A,))
    yield "ndarray.x[i] = v", Call(_written(lambda y, v: y.__setitem__(1, v)), (V, S))


# What asks for memory, texts or matrices, and is refused: in the table, but not counted.
_OF_MEMORY = """base ctypes data flags strides byteswap dump dumps getfield resize setfield setflags
    tobytes tofile item tolist"""
_OTHERS = """asmatrix bmat matrix nditer nested_iters isfortran from_dlpack format_float_positional
    format_float_scientific lib.stride_tricks.as_strided"""
REFUSED = {*_OTHERS.split(), *(f"ndarray.{name}" for name in _OF_MEMORY.split())}
_NO_ARRAY = "takes no array: shapes, dtypes, functions, settings"
_REASONS = {
    "reads or writes files": """fromfile fromregex genfromtxt load loadtxt save savetxt savez
        savez_compressed memmap""",
    "makes texts, of values that tracing has not": """array2string array_repr array_str base_repr
        binary_repr""",
    _NO_ARRAY: """bartlett blackman broadcast_shapes diag_indices dtype errstate finfo frombuffer
        fromstring get_include get_printoptions getbufsize geterr geterrcall hamming hanning iinfo
        info isdtype issubdtype mintypecode printoptions promote_types set_printoptions setbufsize
        seterr seterrcall show_config show_runtime test ufunc flatiter ndarray""",
    "is asked about memory": "may_share_memory shares_memory",
    "dates and times are not traced": """busday_count busday_offset busdaycalendar is_busday
        datetime_as_string datetime_data isnat""",
    "records have fields of several dtypes": "recarray record",
}
OUTSIDE = {name: reason for reason, names in _REASONS.items() for name in names.split()}
MODULES_OUTSIDE = {
    **dict.fromkeys(("char", "strings"), "texts are not traced"),
    "ma": "masked arrays hold their masks beside the values: use numpy.where, or nan functions",
    "rec": "records have fields of several dtypes",
    "random": "draws in Python, once: use ftrace.random",
    **dict.fromkeys(("core", "ctypeslib", "dtypes", "exceptions", "f2py", "lib"), _NO_ARRAY),
    **dict.fromkeys(("testing", "typing", "version", "matlib"), _NO_ARRAY),
}


def _of_case(case: Case) -> Call:
    def f(*xs: Any) -> Any:
        return lookup(np, case.name)(*rebuild(case.args, iter(xs)), **case.kwargs)

    return Call(f, tuple(leaves(case.args)), case.smooth)


def _of_ufunc(ufunc: np.ufunc) -> Call:
    dtype = "i8" if "d->d" not in str(ufunc.types).replace("dd", "d") else "f8"
    xs = tuple(draw(ufunc, dtype, (2, 3), seed) for seed in range(ufunc.nin))
    xs = (xs[0], np.array([1, 2, 0])) if ufunc is np.ldexp else xs
    return Call(lambda *a: ufunc(*a), xs, ufunc.__name__ not in ("spacing", "nextafter"))


def _all() -> dict[str, Call]:
    found: dict[str, Call] = {}
    for case in CASES:
        found.setdefault(case.name, _of_case(case))
    for ufunc in UFUNCS:
        found[ufunc.__name__] = _of_ufunc(ufunc)
    found |= _FUNCTIONS | _OTHER_MODULES | dict(_polynomials()) | _UFUNC_METHODS | dict(_ndarray())
    return found


CALLS = _all()
