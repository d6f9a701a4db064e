"""Rows on CuPy arrays by CuPy's own functions: what `CupyDevice.library` does.

A row runs its `impl` where that consists of ufuncs, operators and functions that NumPy hands over
to CuPy by its protocols. `RULES` has all others, written over a namespace (`library_arrays.py`,
`library_places.py`, `library_folds.py`). Whatever a function of CuPy gives is brought to the type
that the row promises. Results may be views of operands, as those of an `impl` may.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Final

from ftrace.core.avals import ShapedArray, typeof
from ftrace.core.errors import BackendError, DtypeError, FtraceError, RuleError
from ftrace.core.primitive import Primitive
from ftrace.gpu.eager import bessel, compiled_rows
from ftrace.gpu.eager import library_arrays as arrays
from ftrace.gpu.eager import library_folds as folds
from ftrace.gpu.eager import library_matrices as matrices
from ftrace.gpu.eager import library_places as places
from ftrace.gpu.eager import library_products as products
from ftrace.gpu.eager.library_arrays import Rule
from ftrace.primitives.convert import rounded
from ftrace.primitives.table import by_name

_ELSEWHERE: Final = (
    "Compute this part on the host, `ftrace.device_put(f(ftrace.device_get(x)))`, or write it with "
    "functions that CuPy has."
)


def namespace() -> Any:
    """CuPy."""
    return import_module("cupy")


def special() -> Any:
    """CuPy's counterpart of `scipy.special`."""
    return import_module("cupyx.scipy.special")


def scipys_linear_algebra() -> Any:
    """CuPy's counterpart of `scipy.linalg`."""
    return import_module("cupyx.scipy.linalg")


def own(kind: str, v: Any, x: Any) -> Any:
    """A function that CuPy lacks, by a kernel of ours."""
    return bessel.evaluate(kind, v, x)


def compiled(row: Primitive, *operands: Any) -> Any:
    """A row by the kernel that compiled functions have."""
    return compiled_rows.evaluate(row, *operands)


def added(*operands: Any) -> Any:
    """Rows with sums added to them, by kernels of ours."""
    return compiled_rows.added(*operands)


def accumulated(operation: str, x: Any, axis: int, reverse: bool) -> Any:
    """All prefixes along an axis joined, by kernels of ours."""
    return compiled_rows.accumulated(operation, x, axis, reverse)


def _accumulated(operation: str, xp: Any, x: Any, axis: int, reverse: bool) -> Any:
    return accumulated(operation, x, axis, reverse)


_CUMULATIVE: Final = {
    "cumsum": "add",
    "cumprod": "mul",
    "cummax": "max",
    "cummin": "min",
    "cumlogsumexp": "logaddexp",
}


def _compiled(name: str, xp: Any, *operands: Any) -> Any:
    return compiled(by_name[name], *operands)


_SPECIAL: Final = {
    "erf": "erf",
    "erfc": "erfc",
    "erf_inv": "erfinv",
    "ndtri": "ndtri",
    "log_ndtr": "log_ndtr",
    "gamma": "gamma",
    "lgamma": "gammaln",
    "digamma": "digamma",
    "zeta": "zeta",
    "igamma": "gammainc",
    "igammac": "gammaincc",
    "xlogy": "xlogy",
    **{name: name for name in ("ndtr", "logit", "log_expit", "entr", "xlog1py")},
    **{name: name for name in ("rel_entr", "kl_div")},
    "i0": "i0",
    "i1": "i1",
    "i0e": "i0e",
    "i1e": "i1e",
}
_BESSEL: Final = {"bessel_iv": "iv", "bessel_ive": "ive", "bessel_jv": "jv"}

_COMPARISONS: Final = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}

_COMBINING: Final = {
    "set": places.by_ufunc(None),
    "add": places.by_sums(lambda *a: added(*a)),
    "mul": places.by_ufunc("multiply"),
    "min": places.by_ufunc("minimum"),
    "max": places.by_ufunc("maximum"),
}

RULES: Final[dict[str, Rule]] = {
    "copy": arrays.copied,
    "name": arrays.copied,
    "stop_gradient": arrays.same,
    "optimization_barrier": arrays.barrier,
    "broadcast_in_dim": arrays.broadcast,
    "reshape": arrays.reshaped,
    "squeeze": arrays.squeezed,
    "pad": arrays.padded,
    "slice": arrays.sliced,
    "update_slice": arrays.updated,
    "select": arrays.select,
    "select_branch": arrays.select,
    "clamp": arrays.clamp,
    **{row: arrays.ufunc(name) for row, name in _COMPARISONS.items()},
    **{name: partial(_compiled, name) for name in ("mod", "floor_divide", "rem")},
    "dot_general": products.dot,
    "convert_element_type": arrays.converted,
    "real": arrays.real,
    "imag": arrays.imag,
    "complex": arrays.complex_of,
    "bitcast_convert_type": arrays.bits_as,
    "reduce_precision": rounded,
    "spacing": arrays.spacing,
    "integer_pow": arrays.integer_pow,
    "population_count": arrays.ones_in,
    "logistic": arrays.logistic(lambda: special()),
    "special": arrays.named_special(lambda: special()),
    "polygamma": arrays.polygamma(lambda: special()),
    **{row: arrays.special(name, lambda: special()) for row, name in _SPECIAL.items()},
    **{row: arrays.of_order(kind, lambda *a: own(*a)) for row, kind in _BESSEL.items()},
    "gather": places.gather,
    "scatter_at": places.scatter_at(_COMBINING),
    "scatter": places.scatter(_COMBINING["set"]),
    **{f"scatter_{how}": places.scatter(_COMBINING[how]) for how in ("add", "mul", "min", "max")},
    "dynamic_slice": places.read,
    "dynamic_update_slice": places.write,
    "sort": places.sort,
    "reduce_sum": folds.reduction("sum", "any", typed=True),
    "reduce_prod": folds.reduction("prod", "all", typed=True),
    "reduce_max": folds.reduction("amax", "any"),
    "reduce_min": folds.reduction("amin", "all"),
    "reduce_and": folds.folded("bitwise_and", -1),
    "reduce_or": folds.folded("bitwise_or", 0),
    "reduce_xor": folds.folded("bitwise_xor", 0),
    **{name: partial(_accumulated, operation) for name, operation in _CUMULATIVE.items()},
    "reduce_window_sum": folds.window("add"),
    "reduce_window_max": folds.window("maximum"),
    "reduce_window_min": folds.window("minimum"),
    "window_argmax": folds.chosen("greater"),
    "window_argmin": folds.chosen("less"),
    "conv": folds.convolved,
    "solve": matrices.called("solve"),
    "solve_again": matrices.called("solve"),
    "inv": matrices.called("inv"),
    "det": matrices.called("det"),
    "slogdet": matrices.slogdet,
    "cofactor": matrices.cofactor,
    "cofactor_slope": matrices.cofactor_slope,
    "cholesky": matrices.cholesky,
    "triangular_solve": matrices.triangular_solve(lambda: scipys_linear_algebra()),
    "triangular_product": matrices.triangular_product,
    "triangular_inv": matrices.triangular_inv(lambda: scipys_linear_algebra()),
    "lu": matrices.lu(lambda: scipys_linear_algebra()),
    "lu_factors": matrices.lu_factors(lambda: scipys_linear_algebra()),
    "solve_factored": matrices.solve_factored(lambda: scipys_linear_algebra()),
    "expm": matrices.expm(lambda: scipys_linear_algebra()),
    "expm_frechet": matrices.expm_frechet(lambda: scipys_linear_algebra()),
    "sylvester": matrices.sylvester,
    "banded_solve": matrices.banded_solve,
    "definite_banded_solve": matrices.definite_banded_solve,
    "lu_pivots_to_permutation": matrices.pivots_to_order,
    "pinv": matrices.pinv,
    "least_squares": matrices.least_squares,
    **dict.fromkeys(("sqrtm", "logm", "logm_slope", "factored"), matrices.lacking),
    "fft": folds.transformed,
}


def evaluate(row: Primitive, args: Sequence[Any], params: Mapping[str, Any]) -> list[Any]:
    """A row on CuPy arrays and numbers: one CuPy array per result.

    Raises:
        IndexError: an index of mode "raise" is out of range; it is read, which waits.
        RuleError, DtypeError: CuPy has no function for the row, or not for these dtypes.
    """
    xp = namespace()
    types = [typeof(a) for a in args]
    promised = row.type(*types, **params)
    rule = RULES.get(row.name) if row.own else None
    try:
        found = rule(xp, *args, **params) if rule else row.impl(*args, **params)
    except (FtraceError, IndexError):
        raise
    except AttributeError as error:
        raise RuleError(
            f"CuPy {xp.__version__} has no function for {row.name} ({error}).", _ELSEWHERE
        ) from error
    except (TypeError, NotImplementedError) as error:
        what = ", ".join(map(repr, types))
        raise DtypeError(
            f"CuPy {xp.__version__} cannot evaluate {row.name} of {what}: {error}", _ELSEWHERE
        ) from error
    if row.multiple:
        return [_as(xp, y, a, row) for y, a in zip(found, promised, strict=True)]
    return [_as(xp, found, promised, row)]


def _as(xp: Any, y: Any, promised: ShapedArray, row: Primitive) -> Any:
    """A result in the dtype that its row promises."""
    if not issubclass(type(y), xp.ndarray):
        y = xp.asarray(y)
    if y.shape != promised.shape:
        raise BackendError(
            f"CuPy {xp.__version__} gave an array of shape {y.shape} for {row.name}, whose result "
            f"is {promised}.",
            "This is a difference between CuPy and NumPy that ftrace does not know: report it.",
        )
    return y if y.dtype == promised.dtype else y.astype(promised.dtype)
