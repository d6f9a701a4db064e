"""How transformations lift by themselves: one recorded restart.

A function is traced as it is. Where a traced value decides a Python branch, or is stored into a
plain array, tracing fails; then it is traced once more, lifted, with all functions that the error
passed through. That is recorded for the function's code, so that later calls start lifted. Nothing
is done where nothing fails, but for functions that ask what tracers cannot be asked: they start
lifted (`asking.py`). Of `jit`, `vmap` and `vectorize` the outermost starts again, of those
that run the function, such as `grad`, the innermost.

The second run repeats what tracing does besides computing. An array that it writes would be
written twice: then a `LiftError` says so, and the array is as the first run left it.
"""

import weakref
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any, Final, TypeVar

from ftrace.control.drawing import Draws
from ftrace.core.config import changes, config
from ftrace.core.errors import ConcretizationTypeError, FtraceError, LiftError
from ftrace.core.lazy import lazy
from ftrace.core.trace import as_it_is, ctx, forget, refused
from ftrace.core.weak import dropping
from ftrace.lifting.sources.reach import PLAIN, Asked, asking, reached_by
from ftrace.lifting.sources.unanswered import NOTHING_WATCHED, Watched, noticing, refusing
from ftrace.lifting.state.outliving import Outliving
from ftrace.lifting.state.roots import innermost, lifting

R = TypeVar("R")

_captured_arrays = lazy("ftrace.control.guards", "captured_arrays")
_territory_of = lazy("ftrace.lifting.lifted_calls", "territory_of")
_advice = lazy("ftrace.lifting.substitutes.scipy_names", "advice")

_NEWS: Final = 0  # no id of anything

_lifted: dict[int, "weakref.ref[Any]"] = {}
"""The code of functions that are staged lifted from the start, by its id."""
_eager: dict[int, "weakref.ref[Any]"] = {}
"""The same for transformations that run them: there a decision about a value needs no lifting."""


class Restart:
    """Runs attempts to trace one function. Call it with a function of nothing that traces.

    Args:
        fun: the function that is traced, wrapped or not.
        lift: False: it and what it calls is never lifted.
    """

    __slots__ = ("__weakref__", "_asked", "_code", "_fun", "_lift", "_refused", "_territory")
    records = _lifted

    def __init__(self, fun: Callable[..., Any], lift: bool) -> None:
        self._fun = fun
        self._lift = lift
        self._code: Any = None
        self._asked: Any = None  # an `Asked`, once it was called
        self._refused: Watched = NOTHING_WATCHED
        self._territory: Any = None

    def __call__(self, attempt: Callable[[], R], given: Iterable[Any] = ()) -> R:
        """The result of an attempt, lifted if need be; `given` is what the function is called with.

        Raises:
            LiftError: lifting failed; the error that asked for it is the cause.
            UnexpectedTracerError: the function overwrote what outlives it.
        """
        state = Outliving.of(self._fun) if self._look(given).writes else None
        if state is None:
            return self._called(attempt)

        def restored() -> R:
            state.restore()
            return attempt()

        try:
            result = self._called(restored)
        except BaseException:
            state.restore()
            raise
        state.check()
        return result

    def repeats(self, given: Iterable[Any] = ()) -> bool:
        """Whether a run of the function may change what the next one reads."""
        asked = self._look(given)
        return asked.draws or asked.changes

    def _rewound(self, attempt: Callable[[], R]) -> Callable[[], R]:
        """The attempt, each time with the generators of random numbers as they are now."""
        if not self._asked.draws:
            return attempt
        draws = Draws([self._fun])

        def rewound() -> R:
            draws.restore()
            return attempt()

        return rewound

    def _called(self, attempt: Callable[[], R]) -> R:
        if not self._lift or not self._may_lift():
            try:
                noted = noticing() if self._asked.swallows else nullcontext()
                with lifting(ctx.lift if self._lift else as_it_is), noted:
                    return attempt()
            except ConcretizationTypeError as error:
                _name_counterpart(error)
                raise
        outer = ctx.restarts
        if outer is not None:
            return self._marked(attempt, outer, outermost=False)
        marked: list[int] = []
        attempt = self._rewound(attempt)
        try:
            return self._marked(attempt, marked)
        except ConcretizationTypeError as error:
            if not marked:
                raise
            first = error
        return self._restarted(attempt, marked, first)

    def _may_lift(self) -> bool:
        settings = config.defaults if changes() is None else config.settings
        return ctx.lift is not as_it_is and settings.lift

    def _restarted(self, attempt: Callable[[], R], marked: list[int], first: FtraceError) -> R:
        """The result of lifted attempts; `first` is the error that asked for them."""
        found = _captured_arrays(self._fun)
        arrays = [(name, a, a.copy()) for name, a in found.items() if a.flags.writeable]
        try:
            result = self._again(attempt, marked)
            _check_unwritten(arrays)
            return result
        except (LiftError, ConcretizationTypeError) as error:
            for number in marked:  # it did not help: the next call says the same again
                self.records.pop(number, None)
            _name_counterpart(error)
            if isinstance(error, LiftError) and error.__cause__ is None:
                raise error from first
            raise

    def _again(self, attempt: Callable[[], R], marked: list[int]) -> R:
        """The result of lifted attempts: another one, where more iterations out to need lifting."""
        while True:
            before = len(marked)
            try:
                return self._marked(attempt, marked)
            except ConcretizationTypeError:
                if len(marked) == before:
                    raise

    def _marked(self, attempt: Callable[[], R], marked: list[int], outermost: bool = True) -> R:
        """The result of an attempt, or the error and whom it passed through."""
        before = refused.get(ctx.trace) if refused else None
        if outermost:
            ctx.restarts = marked
        try:
            if not self.records or id(self._key()) not in self.records:
                result = attempt()
                if not self._asked.waits or not self._has_imported():
                    return result
            with lifting(self._own_territory()), refusing(self._refused):
                return attempt()
        except ConcretizationTypeError as error:
            self._mark(error, marked)
            if outermost:
                forget(before)
            raise
        finally:
            if outermost:
                ctx.restarts = None

    def _own_territory(self) -> Any:
        if self._territory is None:
            self._territory = _territory_of(innermost(self._fun))
        return self._territory

    def _key(self) -> Any:
        """What is recorded: the code of the user's function, or this object if there is none."""
        if self._code is None:
            root = innermost(self._fun)
            self._code = False if root is None else root.__code__
        return self._code or self

    def _ask(self) -> Asked:
        """Lift the function from the start if no error would ask for that (`asking.py`)."""
        asked = self._asked = asking(self._fun)
        if asked.asks:
            self._lift_what_asks(asked)
        return asked

    def _lift_what_asks(self, asked: Asked) -> None:
        if asked.asks and self._lift:
            if asked.implied:
                self._refused = self._refused.union(asked.codes)
            self._own_territory().own(asked.places, asked.implied)
            self._record(self._key())

    def _look(self, given: Iterable[Any]) -> Asked:
        """Look for questions: in what the function reaches and in what it is given."""
        asked = self._asked
        if asked is None or not asked.holds():
            asked = self._ask()
        for x in given:
            if type(x) not in PLAIN:
                break
        else:
            return asked
        parts = {id(part): part for x in given for part in reached_by(x)}
        if parts:
            self._lift_what_asks(asking(self._fun, tuple(parts.values())))
        return asked

    def _has_imported(self) -> bool:
        """Whether the function has just imported what asks."""
        if self._asked.holds():
            return False
        self._ask()
        return asking(self._fun).asks

    def _record(self, key: Any) -> None:
        number, records = id(key), self.records
        records[number] = dropping(key, records, number)

    def _mark(self, error: ConcretizationTypeError, marked: list[int]) -> None:
        """Lift the function from now on, and those that the error passed through."""
        key = self._key()
        number = id(key)
        new = number not in self.records
        if self._own_territory().follow(error.__traceback__, not new):
            marked.append(_NEWS)
        if new:
            marked.append(number)
            self._record(key)


class Eager(Restart):
    """The same for transformations that run the function on values, such as `grad`.

    Without a failure nothing is written or looked up. So it is the innermost that starts again,
    unless one that stages, as `jit` does, runs around it.
    """

    __slots__ = ()
    records = _eager

    def __call__(self, attempt: Callable[[], R], given: Iterable[Any] = ()) -> R:
        """The result of an attempt, lifted if need be; `given` is what the function is called with.

        Raises:
            LiftError: lifting failed; the error that asked for it is the cause.
        """
        asked = self._look(given)
        if not self._lift or (_eager and id(self._key()) in _eager):
            return super().__call__(attempt)
        before = refused.get(ctx.trace) if refused else None
        attempt = self._rewound(attempt)
        try:
            result = attempt()
            if not asked.waits or not self._has_imported():
                return result
            return super().__call__(attempt)
        except ConcretizationTypeError as error:
            if ctx.restarts is not None or not self._may_lift():
                raise
            forget(before)
            marked: list[int] = []
            self._mark(error, marked)
            first = error
        return self._restarted(attempt, marked, first)


def _name_counterpart(error: FtraceError) -> None:
    """Note the function of ours that does what a function of SciPy's was asked to."""
    swallowed = error.__context__  # compiled code raised it where ours came back to it
    note = _advice(error.__traceback__) or (swallowed and _advice(swallowed.__traceback__))
    if note and note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def _check_unwritten(arrays: list[tuple[str, Any, Any]]) -> None:
    """Raise `LiftError` if the second run wrote an array, as the first then did."""
    written = [name for name, a, before in arrays if a.tobytes() != before.tobytes()]
    if not written:
        return
    for _, array, before in arrays:
        array[...] = before
    raise LiftError(
        f"`{written[0]}`, a captured array, is written by a function that must be traced twice: "
        "once to find that it needs lifting, and once lifted.",
        "Lift it from the start, `ftrace.jit(ftrace.lift(f))`, or write to a copy "
        "(`x = x.copy()`).",
    )
