"""The Array API standard 2024.12: `ftrace.numpy` eagerly and inside `jit`.

`array_api.txt` has the functions of the standard with their signatures. Each is called with every
keyword it has, and elementwise ones on arrays that hypothesis draws; values, shapes and dtypes are
those of array-api-strict where it is installed, else NumPy's, which follows the standard but for
what `DEPARTURES` lists.
"""

import ast
import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp

import ftrace
import ftrace.numpy as fnp
from ftrace.tree_util import tree_leaves

STRICT = importlib.util.find_spec("array_api_strict") is not None
SIGNATURES = Path(__file__).with_name("array_api.txt").read_text("utf-8").splitlines()
X = np.array([[0.5, -1.25, 2.0], [0.75, -0.3, 1.1], [-0.6, 0.9, 3.0]])
SQUARE = X @ X.T + 3 * np.eye(3)
V, W = X[0], X[1]
I = np.array([2, 0, 1])  # noqa: E741 - integers
B = X > 0

DEPARTURES = {
    "sort": {"descending": "NumPy sorts upwards: use flip(sort(x))"},
    "argsort": {"descending": "NumPy sorts upwards: use argsort(-x)"},
    "fft.fftfreq": {"dtype": "NumPy gives double precision"},
    "fft.rfftfreq": {"dtype": "NumPy gives double precision"},
}
"""Keywords of the standard that NumPy has not, and what to write."""


def _call(*args: Any, **options: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return args, options


_KEPT = [_call(X), _call(X, axis=1), _call(X, axis=(0, 1), keepdims=True)]
_TYPED = [*_KEPT, _call(X, axis=0, dtype=np.float32)]
_RUNNING = [_call(V), _call(X, axis=1, dtype=np.float32, include_initial=True)]


def _fft(x: Any) -> list[Any]:
    return [_call(x), _call(x, n=4, axis=0, norm="ortho"), _call(x, n=2, axis=-1, norm="forward")]


def _fftn(x: Any) -> list[Any]:
    return [_call(x), _call(x, s=(2, 4), axes=(0, 1), norm="ortho")]


Z = X + 1j * X.T
_MADE = {"dtype": np.float32, "device": "cpu"}
CALLS: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    **dict.fromkeys(("all", "any", "max", "min", "mean", "count_nonzero"), _KEPT),
    **dict.fromkeys(("sum", "prod"), _TYPED),
    **{name: [*_KEPT, _call(X, axis=0, correction=1)] for name in ("std", "var")},
    **{name: [_call(X), _call(X, axis=1, keepdims=True)] for name in ("argmax", "argmin")},
    **dict.fromkeys(("cumulative_sum", "cumulative_prod"), _RUNNING),
    **{name: [_call(X), _call(X, axis=0, stable=False)] for name in ("sort", "argsort")},
    **{
        name: [_call(X), _call(X, dtype=np.int64, device="cpu")]
        for name in ("empty_like", "ones_like", "zeros_like")
    },
    **{name: [_call((2, 3)), _call(3, **_MADE)] for name in ("empty", "ones", "zeros")},
    **{name: [_call(X), _call(X, k=-1)] for name in ("tril", "triu")},
    "arange": [_call(5), _call(1, stop=9, step=2, **_MADE)],
    "asarray": [_call(X), _call(X, dtype=np.float32, copy=True, device="cpu"), _call([1.0, 2.0])],
    "astype": [_call(X, np.float32), _call(X, np.float64, copy=False, device="cpu")],
    "broadcast_arrays": [_call(X, V)],
    "broadcast_to": [_call(V, (2, 3))],
    "can_cast": [_call(np.int32, np.int64), _call(X, np.float32)],
    "clip": [_call(X, min=-0.5, max=1.0), _call(X, min=0.0), _call(X, max=V)],
    "concat": [_call([X, X]), _call((X, X), axis=1), _call([X, V], axis=None)],
    "diff": [_call(X), _call(X, axis=0, n=2), _call(V, prepend=W, append=W)],
    "expand_dims": [_call(X, axis=1), _call(X, -1)],
    "eye": [_call(3), _call(2, 3, k=1, **_MADE)],
    "finfo": [],
    "iinfo": [],
    "flip": [_call(X), _call(X, axis=1)],
    "from_dlpack": [],
    "full": [_call((2, 3), 4), _call(2, 1.5, **_MADE)],
    "full_like": [_call(X, 2.0), _call(X, 3, dtype=np.int64, device="cpu")],
    "isdtype": [_call(np.dtype(np.int32), "integral"), _call(np.dtype(float), ("bool", "numeric"))],
    "linspace": [_call(0.0, 1.0, 5), _call(1.0, 2.0, 4, endpoint=False, **_MADE)],
    "matmul": [_call(X, X), _call(X, V)],
    "matrix_transpose": [_call(X)],
    "meshgrid": [_call(V, W[:2]), _call(V, W, indexing="ij")],
    "moveaxis": [_call(np.zeros((2, 3, 4)), (0, 1), (2, 0))],
    "nonzero": [],
    "permute_dims": [_call(X, (1, 0))],
    "repeat": [_call(X, 2), _call(X, 2, axis=1)],
    "reshape": [_call(X, (9,)), _call(X, (-1,), copy=True)],
    "result_type": [_call(X, np.float32), _call(I, np.int8, np.int32)],
    "roll": [_call(X, 2), _call(X, (1, 2), axis=(0, 1))],
    "searchsorted": [_call(np.sort(V), W), _call(V, W, side="right", sorter=np.argsort(V))],
    "squeeze": [_call(X[None, :, :, None], axis=(0, 3)), _call(X[None], 0)],
    "stack": [_call([V, W]), _call((V, W), axis=1)],
    "take": [_call(V, I), _call(X, I, axis=1)],
    "take_along_axis": [_call(X, I[:, None]), _call(X, I[None, :], axis=0)],
    "tensordot": [_call(X, X), _call(X, X, axes=((0,), (1,)))],
    "tile": [_call(X, (2, 1))],
    "unstack": [_call(X), _call(X, axis=1)],
    "vecdot": [_call(X, X), _call(X, X, axis=-2)],
    "where": [_call(B, X, -X)],
    **{f"unique_{name}": [] for name in ("all", "counts", "inverse", "values")},
    "linalg.cholesky": [_call(SQUARE), _call(SQUARE, upper=True)],
    "linalg.cross": [_call(X, SQUARE), _call(X, SQUARE, axis=-2)],
    "linalg.diagonal": [_call(X), _call(X, offset=1)],
    "linalg.matrix_norm": [_call(X), _call(X, keepdims=True, ord=1)],
    "linalg.matrix_power": [_call(X, 3)],
    "linalg.matrix_rank": [_call(X), _call(X, rtol=0.5)],
    "linalg.outer": [_call(V, W)],
    "linalg.pinv": [_call(X[:, :2]), _call(X, rtol=0.1)],
    "linalg.qr": [_call(X), _call(X[:, :2], mode="complete")],
    "linalg.solve": [_call(SQUARE, X), _call(SQUARE, V)],
    "linalg.svd": [_call(X[:, :2]), _call(X[:, :2], full_matrices=False)],
    "linalg.tensordot": [_call(X, X), _call(X, X, axes=1)],
    "linalg.trace": [_call(X), _call(X, offset=1, dtype=np.float32)],
    "linalg.vecdot": [_call(X, X, axis=-2)],
    "linalg.matmul": [_call(X, V)],
    "linalg.vector_norm": [_call(X), _call(X, axis=1, keepdims=True, ord=3)],
    **{f"linalg.{n}": [_call(SQUARE)] for n in ("det", "inv", "slogdet", "eigh", "eigvalsh")},
    **{f"linalg.{n}": [_call(SQUARE)] for n in ("svdvals", "matrix_transpose")},
    **{f"fft.{n}": _fft(Z) for n in ("ifft", "fft", "irfft", "hfft")},
    **{f"fft.{n}": _fft(X) for n in ("rfft", "ihfft")},
    **{f"fft.{n}": _fftn(Z) for n in ("fftn", "ifftn", "irfftn")},
    "fft.rfftn": _fftn(X),
    **{f"fft.{n}": [_call(X), _call(X, axes=(1,))] for n in ("fftshift", "ifftshift")},
    **{f"fft.{n}": [_call(5), _call(4, d=0.5, device="cpu")] for n in ("fftfreq", "rfftfreq")},
}
EAGER_ONLY = {
    "finfo": lambda m: float(m.finfo(m.float32).max),
    "iinfo": lambda m: m.iinfo(m.int16).max,
    "nonzero": lambda m: m.nonzero(m.asarray(B)),
    "from_dlpack": lambda m: m.from_dlpack(m.asarray(X), copy=True),
    **{
        f"unique_{name}": lambda m, name=name: getattr(m, f"unique_{name}")(m.asarray(I))
        for name in ("all", "counts", "inverse")
    },
    "unique_values": lambda m: m.sort(m.unique_values(m.asarray(I))),
}
"""What inspects dtypes, or has a shape that depends on values: under `jit` a named error."""

# ---------------------------------------------------------------------------------- elementwise

FLOATS, COMPLEX = ("f4", "f8"), ("c8", "c16")
INTEGERS, BOOLEANS = ("i1", "i4", "i8", "u1", "u8"), ("?",)
_CATEGORIES = {
    FLOATS: """ceil floor trunc signbit nextafter copysign hypot atan2 logaddexp""",
    FLOATS
    + COMPLEX: """acos acosh asin asinh atan atanh cos cosh exp expm1 log log10 log1p log2 sin
        sinh sqrt tan tanh divide reciprocal""",
    FLOATS + INTEGERS: """greater greater_equal less less_equal maximum minimum remainder
        floor_divide""",
    FLOATS + INTEGERS + COMPLEX: """abs add subtract multiply negative positive square isfinite
        isinf isnan round sign equal not_equal pow""",
    COMPLEX: "conj imag real",
    INTEGERS: "bitwise_left_shift bitwise_right_shift",
    INTEGERS + BOOLEANS: "bitwise_and bitwise_or bitwise_xor bitwise_invert",
    BOOLEANS: "logical_and logical_or logical_xor logical_not",
}
ELEMENTWISE = {name: kinds for kinds, names in _CATEGORIES.items() for name in names.split()}


def elements(dtype: np.dtype[Any]) -> Any:
    """Numbers that no function overflows on, zeros and negative ones among them."""
    if dtype.kind == "b":
        return st.booleans()
    if dtype.kind in "iu":
        return st.integers(0 if dtype.kind == "u" else -5, 6)
    parts = st.sampled_from([0.0, 1.0, -1.0, 0.5, -0.75, 2.5, -3.0, 1e-3])
    return parts if dtype.kind == "f" else st.builds(complex, parts, parts)


@st.composite
def operands(draw: Any, name: str) -> list[Any]:
    dtype = np.dtype(draw(st.sampled_from(ELEMENTWISE[name])))
    count = 2 if "x2" in signature(name)[0] else 1
    shapes = draw(hnp.mutually_broadcastable_shapes(num_shapes=count, max_dims=3, max_side=3))
    xs = [draw(hnp.arrays(dtype, s, elements=elements(dtype))) for s in shapes.input_shapes]
    if dtype.kind in "iu" and count == 2 and name in ("floor_divide", "remainder", "pow"):
        xs[1] = np.where(xs[1] <= 0, dtype.type(1), xs[1])
    if "shift" in name:
        xs[1] = np.asarray(np.abs(xs[1]))
    return xs


def signature(name: str) -> tuple[list[str], list[str]]:
    """The parameters by position, and those by keyword alone."""
    line = next(line for line in SIGNATURES if line.partition("(")[0] == name)
    given: ast.FunctionDef = ast.parse(f"def f({line.partition('(')[2]}: pass").body[0]  # type: ignore[assignment]
    return [a.arg for a in given.args.posonlyargs + given.args.args], [
        a.arg for a in given.args.kwonlyargs
    ]


NAMES = [line.partition("(")[0] for line in SIGNATURES]


def function(module: Any, name: str) -> Callable[..., Any]:
    for part in name.split("."):
        module = getattr(module, part)
    return module


def reference(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What the standard says: array-api-strict's answer where it is installed, else NumPy's."""
    if not STRICT:
        return function(np, name)(*args, **options)
    import array_api_strict as strict  # type: ignore[import-not-found]

    def theirs(x: Any) -> Any:
        if isinstance(x, np.ndarray):
            return strict.asarray(x)
        if isinstance(x, type | np.dtype) and issubclass(np.dtype(x).type, np.generic):
            return getattr(strict, np.dtype(x).name)
        if type(x) in (list, tuple) and any(isinstance(v, np.ndarray) for v in x):
            return type(x)(map(theirs, x))
        return strict.Device("CPU_DEVICE") if x == "cpu" else x

    return function(strict, name)(
        *map(theirs, args), **{key: theirs(v) for key, v in options.items()}
    )


def plain(result: Any) -> list[Any]:
    """The arrays of a result, as NumPy's."""
    leaves = tree_leaves(result) if not isinstance(result, np.dtype) else [result]
    return [getattr(x, "_array", x) for x in leaves]


def check(found: Any, wanted: Any, compare: bool = True) -> None:
    xs, ys = plain(found), plain(wanted)
    assert len(xs) == len(ys)
    for x, y in zip(xs, ys, strict=True):
        if isinstance(y, bool | np.dtype | tuple) or "DType" in type(y).__name__:
            assert str(x) == str(getattr(y, "_np_dtype", y))
            continue
        x, y = np.asarray(x), np.asarray(y)
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        if compare:
            limit = 1e-4 if x.dtype.itemsize <= 4 or x.dtype == np.complex64 else 1e-11
            np.testing.assert_allclose(x, y, rtol=limit, atol=limit)


# ---------------------------------------------------------------------------------- tests


def test_every_function_and_keyword_of_the_standard_is_called() -> None:
    assert set(NAMES) == {*CALLS, *ELEMENTWISE} | set(EAGER_ONLY)
    for name, calls in CALLS.items():
        if name in EAGER_ONLY:
            continue
        keywords = set(signature(name)[1]) - set(DEPARTURES.get(name, ()))
        used = {key for _, options in calls for key in options}
        assert keywords <= used, f"{name}: {keywords - used}"


def traced(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The result of a call inside `jit`, whose array arguments are traced."""
    static = []

    def call(*xs: Any) -> Any:
        new = iter(xs)
        mixed = [next(new) if isinstance(a, np.ndarray) else a for a in args]
        found = function(fnp, name)(*mixed, **options)
        if isinstance(found, STATIC) or (type(found) is tuple and not _has_arrays(found)):
            static.append(found)
            return []
        return found

    found = ftrace.jit(call)(*[a for a in args if isinstance(a, np.ndarray)])
    return static[0] if static else found


STATIC = (np.dtype, bool)


def _has_arrays(x: Any) -> bool:
    return any(not isinstance(v, int) for v in tree_leaves(x))


@pytest.mark.parametrize("name", [name for name in CALLS if name not in EAGER_ONLY])
def test_a_function_follows_the_standard_eagerly_and_traced(name: str) -> None:
    for args, options in CALLS[name]:
        wanted = reference(name, args, options)
        same = not name.startswith("empty") and name not in UP_TO_SIGNS
        check(function(fnp, name)(*args, **options), wanted, same)
        check(traced(name, args, options), wanted, same)


UP_TO_SIGNS = ("linalg.svd", "linalg.qr", "linalg.eigh")


@pytest.mark.parametrize("name", EAGER_ONLY)
def test_a_function_of_dtypes_or_values_follows_the_standard_eagerly(name: str) -> None:
    if STRICT:
        import array_api_strict

        wanted = EAGER_ONLY[name](array_api_strict)
    else:
        wanted = EAGER_ONLY[name](np)
    check(EAGER_ONLY[name](fnp), wanted)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_an_elementwise_function_follows_the_standard(name: str) -> None:
    @settings(max_examples=8, deadline=None, database=None, derandomize=True)
    @given(operands(name))
    def one(xs: list[Any]) -> None:
        with np.errstate(all="ignore"):
            wanted = reference(name, tuple(xs), {})
            check(function(fnp, name)(*xs), wanted)
            check(ftrace.jit(function(fnp, name))(*xs), wanted)

    one()


def test_arrays_inside_jit_have_what_the_standard_says() -> None:
    def f(x: Any) -> Any:
        xp = x.__array_namespace__(api_version="2024.12")
        assert xp is fnp
        info = xp.__array_namespace_info__()
        assert info.default_device() == x.device == "cpu"
        assert info.dtypes(kind="real floating")["float64"] == x.dtype
        assert info.capabilities()["boolean indexing"]
        assert info.devices() == ["cpu"]
        assert (x.ndim, x.shape, x.size, x.T.shape, x.mT.shape) == (2, (3, 3), 9, (3, 3), (3, 3))
        assert x.to_device("cpu") is not None
        with pytest.raises(ValueError, match="2030"):
            x.__array_namespace__(api_version="2030.01")
        with pytest.raises(ValueError, match="device"):
            x.to_device("moon")
        y = +x - (-x) * abs(x) / 2.0 // 1.0 % 3.0 @ x.T + x**2
        y += x
        y *= 2.0
        return xp.where((y > 0) & ~(y == x) | (y <= -1) ^ (y != y), y, x)

    np.testing.assert_allclose(ftrace.jit(f)(X), f_plain(X))
    assert fnp.__array_api_version__ == np.__array_api_version__


def f_plain(x: Any) -> Any:
    y = +x - (-x) * abs(x) / 2.0 // 1.0 % 3.0 @ x.T + x**2
    y += x
    y *= 2.0
    return np.where((y > 0) & ~(y == x) | (y <= -1) ^ (y != y), y, x)


@pytest.mark.parametrize("name", DEPARTURES)
def test_departures_of_numpy_are_errors(name: str) -> None:
    args = (5,) if name.startswith("fft") else (V,)
    for keyword in DEPARTURES[name]:
        options = {keyword: np.float32 if keyword == "dtype" else True}

        def call(x: Any, options: Any = options) -> Any:
            return function(fnp, name)(*args, **options)

        with pytest.raises(TypeError):
            call(X)
        with pytest.raises((TypeError, NotImplementedError), match=re.escape(keyword)):
            ftrace.jit(call)(X)
