"""What all distributions of one number share: arguments, location and scale, support, complements.

A distribution says its functions of a standardised value; the rest follows. Outside of the support
no formula is evaluated, so derivatives there are 0, not NaN. Parameters that SciPy refuses give
NaN, as there.
"""

import functools
import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.avals import check_int, typeof
from ftrace.core.errors import DtypeError, RuleError
from ftrace.core.trace import Tracer
from ftrace.interpreters.quiet import quietly
from ftrace.numpy.promote import promote_inexact, value
from ftrace.scipy.borrowing import borrowing

Formula = Callable[..., Any]
LINE: Final = (-math.inf, math.inf)
HALF_LINE: Final = (0.0, math.inf)


def _positive(*parameters: Any) -> Any:
    found: Any = True
    for p in parameters:
        found = fnp.logical_and(found, fnp.greater(p, 0))
    return found


def _masked(outside: Any, x: Any, fill: Any) -> Any:
    """The value with `fill` where it is outside of a support."""
    return x if outside is False else fnp.where(outside, fill, x)


def _either(a: Any, b: Any) -> Any:
    """Whether one of two conditions holds; False if it is known that neither does."""
    if a is False or b is False:
        return b if a is False else a
    return fnp.logical_or(a, b)


def _quiet(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method whose warnings would be about values that are not taken, or infinite as they are.

    Its errors are those of SciPy's method of that name.
    """

    @functools.wraps(method)
    def call(self: Any, x: Any, args: Any, options: Any, name: str, *more: Any) -> Any:
        def ours(x: Any, *args: Any, **options: Any) -> Any:
            with quietly():
                return method(self, x, args, options, name, *more)

        def plain(*args: Any, **options: Any) -> Any:
            theirs = getattr(importlib.import_module("scipy.stats"), self.name)
            return getattr(theirs, name)(*args, **options)

        return borrowing(plain, ours, (x, *args), options, f"{self!r}.{name}")

    return call


class Distribution:
    """A distribution of real numbers with parameters of its own; base of the two kinds.

    Attributes:
        name: SciPy's.
        shapes: names of its parameters, without location and scale.
    """

    _more: tuple[str, ...] = ()

    def __init__(
        self,
        name: str,
        doc: str,
        shapes: str,
        *,
        support: tuple[Any, Any] | Callable[..., tuple[Any, Any]],
        inside: float | Callable[..., Any] = 1.0,
        valid: Callable[..., Any] = _positive,
        **formulas: Formula,
    ) -> None:
        self.name = name
        self.__doc__ = doc
        self.shapes = tuple(shapes.split())
        self._support = support if callable(support) else lambda *p: support
        self._inside = inside if callable(inside) else lambda *p: inside
        self._valid = valid
        self._formulas = formulas

    def __repr__(self) -> str:
        return f"ftrace.scipy.stats.{self.name}"

    def _given(self, x: Any, args: Sequence[Any], options: dict[str, Any]) -> tuple[Any, list[Any]]:
        """The argument and all parameters, of one dtype; location and scale come last.

        Raises:
            TypeError: too many parameters, too few, or one of an unknown name.
        """
        names = (*self.shapes, *self._more)
        if len(args) > len(names):
            raise TypeError(f"{self.name} has the parameters {', '.join(names)}: {len(args)} given")
        found = dict(zip(names, args, strict=False))
        for key, given in options.items():
            if key not in names or key in found:
                raise TypeError(f"{self.name} has the parameters {', '.join(names)}, each once")
            found[key] = given
        missing = [n for n in self.shapes if n not in found]
        if missing:
            raise TypeError(f"{self.name} was not given {', '.join(missing)}")
        default = {"loc": 0.0, "scale": 1.0}
        z, *parameters = map(value, (x, *(found.get(n, default.get(n)) for n in names)))
        for i, (key, given) in enumerate(zip(("x", *names), (z, *parameters), strict=True)):
            if type(given) is int:
                check_int(given, np.iinfo(np.int64).max, key)
            kind = typeof(given).dtype.kind
            if kind == "c" or (kind == "b" and i):
                raise DtypeError(
                    f"{self!r} was given {key} of dtype {typeof(given).dtype}.",
                    "Arguments and parameters are real numbers.",
                )
        z, *parameters = promote_inexact(z, *parameters)
        return z, parameters

    def _refused(self, parameters: Sequence[Any], scale: Any) -> Any:
        """Where parameters make no distribution; False if nowhere."""
        valid = fnp.logical_and(self._valid(*parameters), fnp.greater(scale, 0))
        if not isinstance(valid, Tracer) and np.all(valid):
            return False
        return fnp.logical_not(valid)

    def _outside(self, z: Any, parameters: Sequence[Any], closed: bool) -> tuple[Any, Any]:
        """Where a value lies below the support, and where above; False if nowhere."""
        low, high = self._support(*parameters)
        below, above = (fnp.less, fnp.greater) if closed else (fnp.less_equal, fnp.greater_equal)
        return (
            False if type(low) is float and low == -math.inf and closed else below(z, low),
            False if type(high) is float and high == math.inf and closed else above(z, high),
        )

    def _evaluated(
        self,
        name: str,
        z: Any,
        parameters: Sequence[Any],
        ends: tuple[Any, Any],
        closed: bool,
    ) -> Any:
        """A formula inside of the support, and a value below and above it."""
        below, above = self._outside(z, parameters, closed)
        safe = _masked(_either(below, above), z, self._inside(*parameters))
        found = self._formula(name)(safe, *parameters)
        return _masked(above, _masked(below, found, ends[0]), ends[1])

    def _formula(self, name: str) -> Formula:
        """A formula of the distribution, or what it is by another one."""
        own = self._formulas.get(name)
        if own is not None:
            return own
        if name not in _BY_OTHERS:
            raise RuleError(
                f"{self!r} has no {name}.",
                "Its density is there; call scipy.stats with plain values for the others.",
            )
        other, change = _BY_OTHERS[name]
        found = self._formula(other)
        return lambda x, *parameters: change(x, lambda y: found(y, *parameters))


_BY_OTHERS: Final[dict[str, tuple[str, Callable[..., Any]]]] = {
    "pdf": ("logpdf", lambda x, f: fnp.exp(f(x))),
    "pmf": ("logpmf", lambda x, f: fnp.exp(f(x))),
    "sf": ("cdf", lambda x, f: 1 - f(x)),
    "logcdf": ("cdf", lambda x, f: fnp.log(f(x))),
    "logsf": ("sf", lambda x, f: fnp.log(f(x))),
    "isf": ("ppf", lambda q, f: f(1 - q)),
}
_ENDS: Final = {"cdf": (0.0, 1.0), "sf": (1.0, 0.0), "logcdf": (-math.inf, 0.0)}
_ENDS["logsf"] = (0.0, -math.inf)


class Continuous(Distribution):
    """A distribution with a density: of `(x - loc) / scale`.

    Example:
        >>> import ftrace
        >>> from ftrace.scipy.stats import norm
        >>> round(float(ftrace.grad(norm.logpdf)(1.5)), 6)
        -1.5
    """

    _more = ("loc", "scale")

    @_quiet
    def _applied(self, x: Any, args: Any, options: Any, name: str, ends: Any, closed: bool) -> Any:
        x, (*parameters, loc, scale) = self._given(x, args, options)
        found = self._evaluated(name, (x - loc) / scale, parameters, ends, closed)
        if name == "pdf":
            found = found / scale
        elif name == "logpdf":
            found = found - fnp.log(scale)
        return _masked(self._refused(parameters, scale), found, math.nan)

    def pdf(self, x: Any, *args: Any, **options: Any) -> Any:
        """The density at x; arguments are the parameters, then `loc` and `scale`."""
        return self._applied(x, args, options, "pdf", (0.0, 0.0), True)

    def logpdf(self, x: Any, *args: Any, **options: Any) -> Any:
        """The logarithm of the density at x."""
        return self._applied(x, args, options, "logpdf", (-math.inf, -math.inf), True)

    def cdf(self, x: Any, *args: Any, **options: Any) -> Any:
        """The probability of values up to x."""
        return self._applied(x, args, options, "cdf", _ENDS["cdf"], False)

    def sf(self, x: Any, *args: Any, **options: Any) -> Any:
        """The probability of values above x."""
        return self._applied(x, args, options, "sf", _ENDS["sf"], False)

    def logcdf(self, x: Any, *args: Any, **options: Any) -> Any:
        """The logarithm of `cdf`."""
        return self._applied(x, args, options, "logcdf", _ENDS["logcdf"], False)

    def logsf(self, x: Any, *args: Any, **options: Any) -> Any:
        """The logarithm of `sf`."""
        return self._applied(x, args, options, "logsf", _ENDS["logsf"], False)

    def ppf(self, q: Any, *args: Any, **options: Any) -> Any:
        """The value below which a part q of the probability lies: the inverse of `cdf`."""
        return self._quantile(q, args, options, "ppf")

    def isf(self, q: Any, *args: Any, **options: Any) -> Any:
        """The value above which a part q of the probability lies: the inverse of `sf`."""
        return self._quantile(q, args, options, "isf")

    @_quiet
    def _quantile(self, q: Any, args: Any, options: Any, name: str) -> Any:
        q, (*parameters, loc, scale) = self._given(q, args, options)
        low, high = self._support(*parameters)
        if name == "isf":
            low, high = high, low
        within = fnp.logical_and(fnp.greater(q, 0), fnp.less(q, 1))
        found = self._formula(name)(fnp.where(within, q, 0.5), *parameters)
        found = fnp.where(fnp.equal(q, 0), low, fnp.where(fnp.equal(q, 1), high, found))
        ends = fnp.logical_or(fnp.equal(q, 0), fnp.equal(q, 1))
        found = fnp.where(fnp.logical_or(within, ends), found, math.nan) * scale + loc
        return _masked(self._refused(parameters, scale), found, math.nan)


class Discrete(Distribution):
    """A distribution of integers: of `k - loc`.

    Example:
        >>> import ftrace
        >>> from ftrace.scipy.stats import poisson
        >>> round(float(ftrace.grad(poisson.logpmf, 1)(3, 2.0)), 6)
        0.5
    """

    _more = ("loc",)

    @_quiet
    def _applied(self, k: Any, args: Any, options: Any, name: str, ends: Any) -> Any:
        k, (*parameters, loc) = self._given(k, args, options)
        k = k - loc
        whole = fnp.floor(k)
        mass = name in ("pmf", "logpmf")
        found = self._evaluated(name, whole, parameters, ends, True)
        if not mass:  # at the highest value, and where k is infinite
            found = _masked(
                _either(self._outside(whole, parameters, closed=False)[1], False), found, ends[1]
            )
        if mass:
            found = fnp.where(fnp.not_equal(whole, k), ends[0], found)
        found = fnp.where(fnp.isnan(k), k, found)
        return _masked(self._refused(parameters, 1.0), found, math.nan)

    def pmf(self, k: Any, *args: Any, **options: Any) -> Any:
        """The probability of k; arguments are the parameters, then `loc`."""
        return self._applied(k, args, options, "pmf", (0.0, 0.0))

    def logpmf(self, k: Any, *args: Any, **options: Any) -> Any:
        """The logarithm of the probability of k."""
        return self._applied(k, args, options, "logpmf", (-math.inf, -math.inf))

    def cdf(self, k: Any, *args: Any, **options: Any) -> Any:
        """The probability of values up to k."""
        return self._applied(k, args, options, "cdf", _ENDS["cdf"])

    def sf(self, k: Any, *args: Any, **options: Any) -> Any:
        """The probability of values above k."""
        return self._applied(k, args, options, "sf", _ENDS["sf"])

    def logcdf(self, k: Any, *args: Any, **options: Any) -> Any:
        """The logarithm of `cdf`."""
        return self._applied(k, args, options, "logcdf", _ENDS["logcdf"])

    def logsf(self, k: Any, *args: Any, **options: Any) -> Any:
        """The logarithm of `sf`."""
        return self._applied(k, args, options, "logsf", _ENDS["logsf"])
