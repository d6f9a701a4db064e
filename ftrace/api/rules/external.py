"""`external`: opaque functions (C, Fortran, ctypes, numba, Python) with derivatives.

The function runs as a callback; its derivative is a linear map (`control/rules/linear_call.py`)
made of the user's rules or of finite differences, in `api/rules/differences.py`. A direction
without a rule is derived from the other one: a traceable rule is transposed, an opaque one is asked
for one column (or row) of the Jacobian after the other.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from ftrace.api.calls import brief, check_callable
from ftrace.api.compiled.callbacks import VmapMethod, check_vmap_method
from ftrace.api.compiled.inspecting import ShapeDtypeStruct
from ftrace.api.rules.differences import FD_METHODS, columns, difference, rows
from ftrace.api.rules.rules import called, home, positional_arguments
from ftrace.control.functions import argument_avals, flatten_call, frozen, name_of
from ftrace.control.rules.custom_derivatives import custom_jvp_call
from ftrace.control.rules.host_calls import Host, host_of, pure_callback_call
from ftrace.control.rules.linear_call import linear_call
from ftrace.core.avals import ShapedArray, strengthen, typeof
from ftrace.core.dtypes import is_inexact
from ftrace.core.errors import CustomRuleError, FtraceError, UnexpectedTracerError
from ftrace.core.trace import attempting
from ftrace.core.tree import PyTreeDef, paths, tree_flatten, tree_mismatch
from ftrace.interpreters.staging import trace_to_jaxpr
from ftrace.interpreters.tangents import zeros
from ftrace.interpreters.transpose import instantiate_cotangent, pull_jaxpr
from ftrace.primitives.convert import convert_element_type

NO_RULE_FIX: Final = (
    'Give ftrace.external its derivative: jvp=, vjp=, or fd="central" for finite differences; '
    "stop_gradient on the arguments says that it has none."
)
NO_SECOND_FIX: Final = (
    "Write the rule with NumPy functions, which ftrace traces, and make the opaque functions it "
    "calls with ftrace.external and rules of their own."
)

FD_FIX: Final = "Give ftrace.external jvp= or vjp=, rules that ftrace can trace."


class External:
    """An opaque function of arrays that ftrace's transformations can handle; see `external`."""

    def __init__(self, fn: Callable[..., Any], result: Any, vmap_method: str, **rules: Any) -> None:
        self.fn, self.result, self.vmap_method = fn, result, vmap_method
        self.jvp, self.vjp, self.fd = rules["jvp"], rules["vjp"], rules["fd"]
        self.opaque: dict[str, Exception | None] = {}  # why a rule cannot be traced, if so
        self.__name__ = name_of(fn)
        self.__doc__ = fn.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        if kwargs:
            args = positional_arguments(self.fn, args, kwargs)
        leaves, tree = flatten_call(args)
        avals = argument_avals(self.fn, leaves, tree)
        fix = NO_RULE_FIX
        host = host_of(
            "external",
            self.fn,
            tree,
            self._promise(tree, avals),
            fix=fix,
            vmap_method=self.vmap_method,
            copies=True,
        )
        assert host.tree is not None
        if self.jvp is None and self.vjp is None and self.fd is None:
            return host.tree.unflatten(pure_callback_call(*leaves, host=host))
        derivative = Derivative(self, host, tree, avals)
        return host.tree.unflatten(derivative(*leaves))

    def _promise(self, tree: PyTreeDef, avals: Sequence[ShapedArray]) -> Any:
        if not callable(self.result):
            return self.result
        args, _ = tree.unflatten([ShapeDtypeStruct(a.shape, a.dtype) for a in avals])
        return self.result(*args)

    def __repr__(self) -> str:
        return f"<external {self.__name__}>"


class Derivative:
    """The derivative of one call of an external function, as the linear map of `linear_call`.

    Residuals are the arguments and the results; only floats and complex numbers have tangents.

    Attributes:
        outs: types of the results that have tangents; `ins` of the arguments.
    """

    __slots__ = ("avals", "external", "host", "ins", "outs", "tree")

    def __init__(
        self, external: External, host: Host, tree: PyTreeDef, avals: Sequence[ShapedArray]
    ) -> None:
        self.external, self.host, self.tree = external, host, tree
        self.avals = [strengthen(a) for a in avals]
        self.ins = tuple(a for a in self.avals if is_inexact(a.dtype))
        self.outs = tuple(a for a in host.results if is_inexact(a.dtype))

    def __call__(self, *leaves: Any) -> list[Any]:
        """The function of flat values, with its derivative."""
        return custom_jvp_call(*leaves, fun=self.value, rule=self.rule)

    def value(self, *leaves: Any) -> list[Any]:
        """The function of flat values."""
        return pure_callback_call(*leaves, host=self.host)

    def rule(self, *flat: Any) -> list[Any]:
        """Its jvp rule, of flat primals and tangents."""
        n = len(self.avals)
        primals, tangents = flat[:n], flat[n:]
        ys = self(*primals)
        live = [t for t, a in zip(tangents, self.avals, strict=True) if is_inexact(a.dtype)]
        residuals = (*primals, *ys)
        ts = linear_call(*residuals, *live, n=len(residuals), linear=self)
        return [*ys, *_filled(ts, self.host.results)]

    # --- the linear map

    def push(self, residuals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """Tangents of the results."""
        values = (*residuals, *tangents)
        if self.external.jvp is not None:
            return self._apply("jvp", values, self.outs)
        if self.external.fd is not None:
            return self._host(difference(self), "fd", values, self.outs)
        if self._is_traceable("vjp", (*residuals, *map(zeros, self.outs))):
            return self._transposed("vjp", residuals, self.outs, tangents)
        return self._host(rows(self), "vjp", values, self.outs)

    def pull(
        self, residuals: Sequence[Any], cts: Sequence[Any], wanted: Sequence[bool]
    ) -> list[Any]:
        """Cotangents of the arguments."""
        values = (*residuals, *cts)
        avals = tuple(a for a, w in zip(self.ins, wanted, strict=True) if w)
        if self.external.vjp is not None:
            found = self._apply("vjp", values, self.ins)
            return [c if w else None for c, w in zip(found, wanted, strict=True)]
        if self.external.jvp is None:
            found = self._host(columns(self, difference(self), wanted), "fd", values, avals)
        elif self._is_traceable("jvp", (*residuals, *map(zeros, self.ins))):
            found = self._transposed("jvp", residuals, self.ins, cts)
            return [c if w else None for c, w in zip(found, wanted, strict=True)]
        else:
            found = self._host(columns(self, self.flat_jvp, wanted), "jvp", values, avals)
        supply = iter(found)
        return [next(supply) if w else None for w in wanted]

    # --- rules of flat values

    def flat_jvp(self, *values: Any) -> list[Any]:
        """The user's jvp rule: arguments, results and tangents to tangents."""
        args, result, rest = self._residuals(values)
        tangents = self.tree.unflatten(_filled(rest, self.avals))[0]
        answer = called(self.external.jvp, args, result, tangents)
        assert self.host.tree is not None
        found = self._leaves("jvp", answer, self.host.tree, self.host.results, "tangent")
        return [t for t, a in zip(found, self.host.results, strict=True) if is_inexact(a.dtype)]

    def flat_vjp(self, *values: Any) -> list[Any]:
        """The user's vjp rule: arguments, results and cotangents to cotangents."""
        args, result, rest = self._residuals(values)
        assert self.host.tree is not None
        ct = self.host.tree.unflatten(_filled(rest, self.host.results))
        answer = called(self.external.vjp, args, result, ct)
        if not isinstance(answer, tuple | list) or len(answer) != len(args):
            raise CustomRuleError(
                f"The vjp rule of {self.external.__name__} returned {brief(answer)}, not a tuple "
                f"with one cotangent for each of its {len(args)} arguments.",
                "Return a tuple, also for one argument, with None for an argument that gets no "
                "contribution.",
                place=home(self.external.vjp),
            )
        found: list[Any] = []
        avals = iter(self.avals)
        for i, (part, tree) in enumerate(zip(answer, self._parts(), strict=True)):
            own = [next(avals) for _ in range(tree.num_leaves)]
            whole = tree.unflatten([zeros(a) for a in own]) if part is None else part
            leaves = self._leaves("vjp", whole, tree, own, f"cotangent[{i}]")
            found += [c for c, a in zip(leaves, own, strict=True) if is_inexact(a.dtype)]
        return found

    def _parts(self) -> Sequence[PyTreeDef]:
        return self.tree.children()[0].children()

    def _residuals(self, values: Sequence[Any]) -> tuple[tuple[Any, ...], Any, Sequence[Any]]:
        n, m = len(self.avals), len(self.host.results)
        assert self.host.tree is not None
        result = self.host.tree.unflatten(values[n : n + m])
        return self.tree.unflatten(values[:n])[0], result, values[n + m :]

    def _leaves(
        self, which: str, answer: Any, tree: PyTreeDef, avals: Sequence[ShapedArray], name: str
    ) -> list[Any]:
        """The leaves of what a rule returned, which are of the types that they must have."""
        rule = getattr(self.external, which)
        what = f"The {which} rule of {self.external.__name__}"
        leaves, given = tree_flatten(answer)
        if given != tree:
            raise CustomRuleError(
                f"{what} returned containers that differ {tree_mismatch(tree, given, name)}.",
                "Tangents have the containers of the result, cotangents those of the arguments.",
                place=home(rule),
            )
        found: list[Any] = []
        for x, a, path in zip(leaves, avals, paths(tree, name), strict=True):
            got = typeof(x)
            adapts = got.weak or got.dtype == a.dtype or got.dtype.kind in "biu"
            if is_inexact(a.dtype) and (got.shape != a.shape or not adapts):
                raise CustomRuleError(
                    f"{what} returned {got} as {path}, which must be {a}.",
                    "Tangents and cotangents have the shapes and dtypes of what they belong to.",
                    place=home(rule),
                )
            found.append(x if got == a else convert_element_type(x, new_dtype=a.dtype))
        return found

    # --- traced, or called

    def _apply(self, which: str, values: Sequence[Any], avals: Sequence[ShapedArray]) -> list[Any]:
        flat = self.flat_jvp if which == "jvp" else self.flat_vjp
        if self._is_traceable(which, values):
            return flat(*map(frozen, values))
        return self._host(flat, which, values, avals)

    def _is_traceable(self, which: str, values: Sequence[Any]) -> bool:
        """Whether a rule is made of what ftrace traces; tried once."""
        known = self.external.opaque
        if which not in known:
            flat = self.flat_jvp if which == "jvp" else self.flat_vjp
            try:
                with attempting():
                    trace_to_jaxpr(flat, [strengthen(typeof(v)) for v in values])
                known[which] = None
            except (CustomRuleError, UnexpectedTracerError):
                raise
            except Exception as error:  # whatever an opaque function says to a tracer
                known[which] = error
        return known[which] is None

    def _transposed(
        self, which: str, residuals: Sequence[Any], avals: Sequence[ShapedArray], cts: Any
    ) -> list[Any]:
        """A traceable rule, walked back; `avals` are what it is linear in."""
        flat = self.flat_jvp if which == "jvp" else self.flat_vjp
        jaxpr, captured = trace_to_jaxpr(flat, [*map(typeof, residuals), *avals])
        known = [*captured, *residuals]
        linear = (False,) * len(known) + (True,) * len(avals)
        try:
            found = pull_jaxpr(jaxpr, [*known, *(None for _ in avals)], linear, list(cts))
        except FtraceError as error:
            raise CustomRuleError(
                f"The {which} rule of {self.external.__name__} cannot be transposed: {error.what}",
                f"Give the {'vjp' if which == 'jvp' else 'jvp'} rule too, or make this one linear "
                "in its last argument.",
                place=home(getattr(self.external, which)),
            ) from error
        return [instantiate_cotangent(c, a) for c, a in zip(found, avals, strict=True)]

    def _host(
        self,
        flat: Callable[..., Any],
        which: str,
        values: Sequence[Any],
        avals: Sequence[ShapedArray],
    ) -> list[Any]:
        """A function of flat arrays, called on the host."""
        name, fix = self.external.__name__, NO_SECOND_FIX
        if which == "fd":
            what, fn, fix = f"the finite differences of {name}", self.external.fn, FD_FIX
        else:
            what, fn = f"the opaque {which} rule of {name}", getattr(self.external, which)
            why = self.external.opaque.get(which)
            if why is not None:
                what += f" (tracing it failed: {type(why).__name__}: {_first_line(why)})"
        tree = tree_flatten([0] * len(avals))[1]
        host = Host(fn, flat, what, tuple(avals), tree, self.host.place, fix, copies=True)
        return pure_callback_call(*values, host=host)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]


def _filled(values: Sequence[Any], avals: Sequence[ShapedArray]) -> list[Any]:
    """Values for those avals that have tangents, zeros for the others."""
    supply: Iterator[Any] = iter(values)
    return [next(supply) if is_inexact(a.dtype) else zeros(a) for a in avals]


def external(
    fn: Callable[..., Any],
    result: Any,
    *,
    jvp: Callable[..., Any] | None = None,
    vjp: Callable[..., Any] | None = None,
    fd: str | None = None,
    vmap_method: VmapMethod = "sequential",
) -> External:
    """Make a C, Fortran, ctypes, numba or other opaque function one that ftrace transforms.

    Args:
        fn: function of NumPy arrays (scalars for rank 0), or containers of them, without effects.
            It gets contiguous arrays of its own, which it may write.
        result: container of `ShapeDtypeStruct`s like `fn`'s result, or a function that gives one
            from the arguments as `ShapeDtypeStruct`s: `lambda x: x` for a result like `x`.
        jvp: `(args, result, tangents) -> tangent` of the result; `args` and `tangents` are tuples.
        vjp: `(args, result, ct) -> cotangents`, a tuple with one for each argument, or None.
        fd: "central" or "complex-step", finite differences where a rule is missing.
        vmap_method: what `vmap` does with `fn`, as for `pure_callback`.

    Rules that ftrace can trace are, and can be differentiated again. Others are called as they
    are, with arrays, and have no derivative of their own. With one rule only, the other direction
    is derived: a traceable rule is transposed, an opaque one is called once per element of
    what is differentiated. Finite differences take two calls (complex step: one) for a direction,
    and that for each input element in reverse mode. Central differences step by the cube root of
    the machine epsilon, times `max(1, |x|)`: about 10 digits in float64 for values near 1. The
    complex step is exact, for functions that are analytic and take complex arrays.

    Returns:
        A function of positional arrays; keywords where `fn` has a Python signature.

    Raises:
        RuleError: a derivative is asked for and there is no rule, or a second one of opaque rules.
        CallbackError: the result differs from what was promised.
        CustomRuleError: a rule returned the wrong containers, shapes or dtypes.

    Example:
        >>> import math, numpy as np, ftrace
        >>> gamma = ftrace.external(
        ...     math.gamma, ftrace.ShapeDtypeStruct((), float), fd="central"
        ... )
        >>> round(float(ftrace.jit(ftrace.grad(gamma))(3.0)), 6)
        1.845569
    """
    check_callable(fn, "external")
    check_vmap_method("external", vmap_method)
    for name, rule in (("jvp", jvp), ("vjp", vjp)):
        if rule is not None and not callable(rule):
            raise CustomRuleError(
                f"{name} of external must be a function, not {brief(rule)}.",
                "Pass the rule itself; see help(ftrace.external) for its arguments.",
            )
    if fd not in (None, *FD_METHODS):
        raise CustomRuleError(
            f"fd of external must be one of {', '.join(map(repr, FD_METHODS))}, not {brief(fd)}.",
            "Leave it out if there are rules.",
        )
    return External(fn, result, vmap_method, jvp=jvp, vjp=vjp, fd=fd)
