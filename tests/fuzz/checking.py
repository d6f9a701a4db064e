"""One program under every transformation, compared with plain Python.

Each check loads the program anew, so that nothing that was captured, changed or recorded passes
from one to the next. An answer is *right*, *refused* (an error that ftrace raises on purpose), or
a finding: another value, another kind of error, an input that was written, memory shared with it.
Read next: `shrinking.py`.
"""

import contextlib
import functools
import itertools
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import ftrace
from ftrace.core.config import update
from ftrace.errors import (
    AxisError,
    BackendError,
    FtraceError,
    JaxprError,
    ShapeError,
    TreeError,
)
from ftrace.tree_util import tree_flatten, tree_leaves, tree_map
from tests.fuzz.comparing import (
    CALLS,
    Case,
    Mismatch,
    Raised,
    Skip,
    called,
    compare,
    copied,
    outcome_of,
)
from tests.fuzz.slopes import Slope, along

WRONG = (JaxprError, BackendError, ShapeError, AxisError, TreeError)
Comparison = tuple[str, Callable[[], None]]


class Outcome(NamedTuple):
    """What one comparison gave: `right`, `refused`, `skipped`, `mismatch` or `crash`, and why."""

    check: str
    verdict: str
    reason: str = ""

    @property
    def finding(self) -> bool:
        """Whether it must not be."""
        return self.verdict in ("mismatch", "crash")


def against(
    expected: Any, call: Callable[[], Any], tolerance: float, *, dtypes: bool = True
) -> None:
    """Compare a call with a value or with the exception of plain Python."""
    if not isinstance(expected, Raised):
        return compare(call(), expected, tolerance, dtypes=dtypes)
    if str(expected.error).startswith("Cannot cast"):
        raise Skip  # a dtype that iterations decide is promoted, and then there may be no such cast
    try:
        result = call()
    except type(expected.error):
        return None
    raise Mismatch(f"{result!r:.80}, not {expected.error!r:.80}")


def calls(case: Case, module: ModuleType, f: Any, name: str) -> Iterator[Comparison]:
    """Successive calls, the first one twice, with changes of captured objects between them.

    What a call returned must stay as it is.
    """
    results: list[Any] = []

    def call(k: int) -> Any:
        args, kwargs = module.arguments(k)
        before = copied(results)
        result = called(f, args, kwargs)
        compare(results, before, 0.0)
        results.append(result)
        return result

    for k in (0, 0, 1, 2):
        if k:
            module.change(k)
        yield f"{name} {k}", lambda k=k: against(case.expected[k], lambda: call(k), case.tolerance)


def with_jit(case: Case) -> Iterator[Comparison]:
    """`jit`."""
    module = case.traced()
    yield from calls(case, module, ftrace.jit(module.f, static_argnames=module.STATIC), "jit")


def stacked(trees: list[Any]) -> Any:
    """Trees of one structure, their leaves stacked; `Skip` where they do not fit."""
    flats = [tree_flatten(t) for t in trees]
    if len({str(tree) for _, tree in flats}) > 1:
        raise Skip
    columns = list(zip(*(leaves for leaves, _ in flats), strict=True))
    if any(len({np.shape(x) for x in column}) > 1 for column in columns):
        raise Skip
    return flats[0][1].unflatten([np.stack([np.asarray(x) for x in c]) for c in columns])


class Members:
    """The arguments of all calls as one batch, and plain Python's results of its members."""

    def __init__(self, case: Case) -> None:
        module = case.plain()
        module.change(0)
        self.kwargs, self.tolerance = module.arguments(0)[1], case.tolerance
        self.args = stacked([module.arguments(k)[0] for k in range(CALLS)])
        self.each = [tree_map(lambda x: x[i], self.args) for i in range(CALLS)]  # noqa: B023
        found = [outcome_of(lambda: module.f(*copied(a), **self.kwargs)) for a in self.each]  # noqa: B023
        raised = [r for r in found if isinstance(r, Raised)]
        self.expected = raised[0] if raised else stacked(found)

    def check(self, f: Any) -> None:
        """Compare one call of a mapped function."""
        call = functools.partial(called, f, copied(self.args), {})
        against(self.expected, call, self.tolerance, dtypes=False)


def with_vmap(case: Case) -> Iterator[Comparison]:
    """`vmap` against a loop over members, also under `jit`."""
    members = Members(case)
    for name, outer in (("vmap", lambda h: h), ("jit(vmap)", ftrace.jit)):
        module = case.traced()
        mapped = ftrace.vmap(module.mapped(members.kwargs))
        yield name, lambda: members.check(outer(mapped))  # noqa: B023


def with_vectorize(case: Case) -> Iterator[Comparison]:
    """`vectorize` of a function of numbers against a loop over places."""
    members = Members(case)
    leaves = [*tree_leaves(members.args), *tree_leaves(members.expected)]
    if isinstance(members.expected, Raised) or any(np.ndim(x) != 1 for x in leaves):
        raise Skip
    module = case.traced()
    f = ftrace.vectorize(module.f, static_argnames=module.STATIC)
    yield "vectorize", lambda: members.check(lambda *args: f(*args, **members.kwargs))


def with_derivatives(case: Case) -> Iterator[Comparison]:
    """Forward and reverse mode against differences and each other, under `jit` and `vmap`."""
    slope, found = Slope(case, 0), {}

    def gradient(outer: Any, inner: Any) -> Any:
        module = case.traced()
        loss = module.loss(slope.kwargs, inner)
        return outer(ftrace.grad(loss, argnums=slope.nums))(*module.arguments(0)[0])

    def forward() -> None:
        module = case.traced()
        tangents = dict(zip(slope.nums, slope.v, strict=True))
        every = tuple(tangents.get(i) for i in range(len(slope.args)))
        value, found["forward"] = ftrace.jvp(
            module.loss(slope.kwargs), module.arguments(0)[0], every
        )
        compare(value, slope.base, case.tolerance, dtypes=False)
        slope.check(found["forward"])

    def reverse() -> None:
        found["reverse"] = gradient(lambda g: g, lambda f: f)
        slope.check(along(found["reverse"], slope.v))

    def both() -> None:
        if len(found) < 2 or not np.isfinite(slope.base):
            raise Skip
        compare(along(found["reverse"], slope.v), found["forward"], case.tolerance, dtypes=False)

    def same(outer: Any, inner: Any) -> None:
        if not np.isfinite(slope.base):
            raise Skip  # a derivative of what is NaN may be anything
        got = gradient(outer, inner)
        if "reverse" in found:
            return compare(got, found["reverse"], case.tolerance, dtypes=False)
        return slope.check(along(got, slope.v))

    static = case.plain().STATIC
    yield "jvp", forward
    yield "grad", reverse
    yield "forward is reverse", both
    yield "jit(grad)", lambda: same(ftrace.jit, lambda f: f)
    yield "grad(jit)", lambda: same(lambda g: g, lambda f: ftrace.jit(f, static_argnames=static))


def with_kept_derivatives(case: Case) -> Iterator[Comparison]:
    """What `vjp` and `linearize` gave, used after captured objects and arguments changed."""
    slope = Slope(case, 0)

    def check(make: Any) -> None:
        module = case.traced()
        args = module.arguments(0)[0]
        use = make(module.loss(slope.kwargs), args)
        first = use()
        for k in (1, 2):
            module.change(k)
        for x in tree_leaves(args):
            if isinstance(x, np.ndarray):
                x[...] = x[::-1].copy() if x.ndim else 0
        compare(use(), first, 0.0, dtypes=False)

    def pulled(f: Any, args: Any) -> Any:
        pullback = ftrace.vjp(f, *args)[1]
        return lambda: tuple(pullback(1.0)[i] for i in slope.nums)

    def pushed(f: Any, args: Any) -> Any:
        tangents = dict(zip(slope.nums, slope.v, strict=True))
        pushforward = ftrace.linearize(ftrace.jit(f), *args)[1]
        return lambda: pushforward(*[tangents.get(i) for i in range(len(args))])

    yield "vjp kept", lambda: check(pulled)
    yield "linearize(jit) kept", lambda: check(pushed)


def with_mapped_gradients(case: Case) -> Iterator[Comparison]:
    """`vmap(grad)` against gradients of members."""
    members, slope = Members(case), Slope(case, 0)
    if isinstance(members.expected, Raised):
        raise Skip

    def check() -> None:
        module = case.traced()
        g = ftrace.grad(module.loss(slope.kwargs), argnums=slope.nums)
        expected = [g(*copied(a)) for a in members.each]
        if not all(np.isfinite(x).all() for x in tree_leaves(expected)):
            raise Skip
        compare(
            ftrace.vmap(g)(*copied(members.args)), stacked(expected), case.tolerance, dtypes=False
        )

    yield "vmap(grad)", check


def with_changes_of_gradients(case: Case) -> Iterator[Comparison]:
    """`jit(grad)` called again after captured objects changed."""
    slopes = [Slope(case, k) for k in range(2)]
    module = case.traced()
    g = ftrace.jit(ftrace.grad(module.loss(slopes[0].kwargs), argnums=slopes[0].nums))
    for k in range(2):
        if k:
            module.change(k)
        if module.arguments(k)[1] == module.arguments(0)[1]:
            yield (
                f"jit(grad) {k}",
                lambda k=k: slopes[k].check(along(g(*module.arguments(k)[0]), slopes[k].v)),
            )


CHECKS = (
    with_jit,
    with_vmap,
    with_vectorize,
    with_derivatives,
    with_kept_derivatives,
    with_mapped_gradients,
    with_changes_of_gradients,
)
HALVES = (
    (with_jit, with_derivatives, with_kept_derivatives),
    (with_jit, with_vmap, with_vectorize, with_mapped_gradients, with_changes_of_gradients),
)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No warnings about numbers."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def outcome(name: str, call: Callable[[], Any]) -> Outcome:
    """Run one comparison."""
    try:
        call()
    except Skip:
        return Outcome(name, "skipped")
    except Mismatch as error:
        return Outcome(name, "mismatch", str(error))
    except WRONG as error:  # ours, and of our own making: plain Python runs the program
        return Outcome(name, "crash", f"{type(error).__name__}: {error.what}")
    except FtraceError as error:
        return Outcome(name, "refused", f"{type(error).__name__}: {error.what}")
    except Exception as error:
        return Outcome(name, "crash", "".join(traceback.format_exception_only(error)).strip())
    return Outcome(name, "right")


def outcomes(case: Case, only: str, families: Sequence[Any]) -> Iterator[Outcome]:
    """Comparisons of a program; what a family of them needs first is one, too."""
    for family in families:
        pending = family(case)
        while True:
            got: list[Comparison] = []
            setup = outcome(family.__name__, lambda: got.extend(itertools.islice(pending, 1)))  # noqa: B023
            if not got:
                yield from [setup] if setup.verdict != "right" else []
                break
            name, call = got[0]
            if only in ("", name) or name.split(" ")[0] == only.split(" ")[0]:
                yield outcome(name, call)


def check(
    folder: Path, text: str, only: str = "", families: Sequence[Any] = CHECKS
) -> list[Outcome]:
    """The outcomes of a program, or of its comparison of one name."""
    with quiet():
        case = Case(folder, text)
        if all(isinstance(e, Raised) for e in case.expected):
            return []
        checks = {"check_jaxprs": True, "check_captures": True} if case.checked else {}
        with update(compile=case.compiled, **checks):
            return [o for o in outcomes(case, only, families) if only in ("", o.check)]


def right_or_loud(folder: Path, text: str, only: str = "") -> list[Outcome]:
    """Assert that a program's comparisons, or those of one name, find nothing."""
    found = check(folder, text, only)
    assert not [o for o in found if o.finding]
    return found
