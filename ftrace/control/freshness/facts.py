"""Facts: what a trace rests on, each about one object, and one expression that tests them all.

A fact says what an attribute, item, name or cell held before the trace, without running a property:
`h.w is v`. Since every object on the way has a fact of its own, paths are not followed again.
Small immutable values are compared by type and value where they are not identical. Contents of
arrays are compared with a copy: `bytearray == array` is one memcmp.
"""

import operator
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy as np

from ftrace.control.freshness.values import held_in, is_container
from ftrace.core.sameness import is_same
from ftrace.interpreters.captures import COPY_LIMIT, digest

_MISSING: Final = object()

# kind -> what gives the value now, in terms of the holder and the key
_READ: Final = {
    "cell": "{h}.cell_contents",
    "name": "{h}[{k}]",
    "item": "{h}[{k}]",
    "attribute": "{h}.{n}",
    "method": "{h}.{n}.__func__",
    "class": "type({h})",
    "of class": "type({h}).{n}",
    "own": "{h}.__dict__.get({k})",
}
_ABSENT: Final = {
    "name": "{k} not in {h}",
    "item": "{k} not in {h}",
    "attribute": "not hasattr({h}, {k})",
}
_BY_VALUE: Final = (int, float, complex, str, bytes, tuple, np.generic)

_TEMPLATE: Final = """
def guard():
    try:
        return {tests}
    except Exception:
        return False
"""


class Facts:
    """Facts by (kind, id of the holder, key), and where each was read.

    Attributes:
        weak: what the user's weak references refer to: no guard keeps it alive.
    """

    __slots__ = ("_found", "_updated", "weak")

    def __init__(self) -> None:
        self.weak: list[Any] = []
        self._updated: dict[Any, tuple[Any, Any, set[Any]]] = {}  # what is only read to be updated
        self._found: dict[tuple[str, int, type, Any], tuple[Any, Any, set[Any]]] = {}

    def add(self, kind: str, holder: Any, key: Any, value: Any, site: Any) -> Any:
        """Note a fact; returns its key."""
        name: Any = (kind, id(holder), type(key), key)
        self._found.setdefault(name, (holder, value, set()))[2].add(site)
        return name

    def absent(self, kind: str, holder: Any, key: Any, site: Any) -> None:
        """Note that something is not there."""
        self.add(kind, holder, key, _MISSING, site)

    def whole(self, holder: Any, site: Any) -> None:
        """Note all that a container holds."""
        if issubclass(type(holder), np.ndarray):
            self.add("objects", holder, None, tuple(holder.ravel().tolist()), site)
        else:
            kind = "pairs" if isinstance(holder, dict) else "items"
            kind = kind if is_container(holder) else "contents"
            self.add(kind, holder, None, held_in(holder), site)

    def without(self, name: Any, site: Any) -> None:
        """One place less that reads: it only updates what it read."""
        fact = self._found.get(name)
        if fact is not None:
            fact[2].discard(site)
            if not fact[2]:
                self._updated[name] = self._found.pop(name)

    def names(self, known: dict[int, str]) -> Iterator[tuple[str, Any]]:
        """What was read, by words for it; `known` are words for where reading begins."""
        words = dict(known)
        for (kind, number, _, key), (_, value, _) in (self._found | self._updated).items():
            base = words.get(number)
            if kind in ("cell", "name"):
                text = str(key)
            elif base is None or kind not in ("attribute", "item"):
                continue
            else:
                text = f"{base}.{key}" if kind == "attribute" else f"{base}[{key!r}]"
            words.setdefault(id(value), text)
            yield text, value

    def renew(self, logs: set[int]) -> bool:
        """Take containers that are appended to where they are now; returns whether one moved.

        Lifting may have put another list in the place of one. What they hold, where that is read,
        is to be what it was.
        """
        moved: dict[int, Any] = {}
        for name, (holder, value, sites) in list(self._found.items()):
            kind, _, _, key = name
            if id(value) in logs and kind == "cell":
                moved[id(value)] = now = holder.cell_contents
                self._found[name] = (holder, now, sites)
            elif id(holder) in moved:
                del self._found[name]
                self.add(kind, moved[id(holder)], key, value, None)
        return any(number != id(now) for number, now in moved.items())

    def changed(self) -> Iterator[str]:
        """Words for the facts that do not hold any longer."""
        for (kind, _, _, key), (holder, _, _) in self._broken().items():
            known = kind in ("cell", "name", "attribute")
            yield f"`{key}`" if known else f"a {type(holder).__name__}"

    def places(self) -> Iterator[tuple[str, Any, Any, Any]]:
        """(kind, holder, key, value) of all of them, also of what is only read to be updated."""
        for (kind, _, _, key), (holder, value, _) in (self._found | self._updated).items():
            if value is not _MISSING:
                yield kind, holder, key, value

    def settle(self) -> None:
        """Forget them."""
        for name in self._broken():
            del self._found[name]

    def _broken(self) -> dict[Any, Any]:
        broken: dict[Any, Any] = {}
        for name, fact in self._found.items():
            (kind, _, _, key), (holder, value, _) = name, fact
            scope: dict[str, Any] = {"same": is_same, "equal": _same_objects, "held_in": held_in}
            test = _function([_test(scope, kind, holder, key, value, ())], scope)
            if test is not None and not test():
                broken[name] = fact
        return broken

    def guard(
        self,
        weak: Iterable[Any],
        given: Iterable[Any],
        arrays: Iterable[Any],
        contents: Iterable[tuple[Any, bytearray]],
    ) -> Any:
        """A function that tests all facts; None if there are none.

        Args:
            weak: objects that the guard does not keep alive.
            given: objects whose content is not asked.
            arrays: whose shapes and dtypes stay.
            contents: whose contents stay.
        """
        scope: dict[str, Any] = {"same": is_same, "equal": _same_objects, "held_in": held_in}
        roots, known = set(map(id, (*weak, *self.weak))), set(map(id, given))
        tests = [
            _test(scope, kind, holder, key, value, roots)
            for (kind, number, _, key), (holder, value, _) in self._found.items()
            if number not in known
        ]
        for a in arrays:
            i = len(scope)
            scope |= {f"h{i}": a, f"s{i}": a.shape, f"d{i}": a.dtype}
            tests.append(f"h{i}.shape == s{i} and h{i}.dtype is d{i}")
        for a, before in contents:
            i = len(scope)
            scope |= {f"h{i}": _contiguous(a), f"b{i}": before}
            tests.append(
                f"b{i} == h{i}" if scope[f"h{i}"].flags.c_contiguous else f"h{i}.tobytes() == b{i}"
            )
        return _function(tests, scope)


COMPARED: Final = 1 << 26
"""Bytes of the largest array whose content each call of a compiled function compares."""


def content(array: Any) -> bytearray:
    """A copy of an array's content, to be compared with it."""
    return bytearray(_contiguous(array).tobytes())


def noted(array: Any) -> bytearray | bytes:
    """What an array holds, for `held`: of a large one a digest, since most are but operands."""
    small = array.nbytes <= COPY_LIMIT or array.dtype.hasobject
    return content(array) if small else digest(_contiguous(array))


def held(array: Any, before: bytearray | bytes) -> bytearray:
    """A copy of what an array held when it was `noted`; of none that changed if it was large."""
    if type(before) is bytearray:
        return before
    return content(array) if noted(array) == before else bytearray()


def _contiguous(array: Any) -> Any:
    """Its memory, whatever a subclass makes of it, in an order without gaps if there is one."""
    if type(array) is not np.ndarray:
        array = array.view(np.ndarray)
    return array.T if array.flags.f_contiguous else array


ALL_OF: Final = ("length", "items", "pairs", "contents")
"""Kinds of facts about all that a container holds."""
_OF_ALL: Final = {
    "pairs": "equal((*{h}, *{h}.values()), {v})",
    "items": "equal({h}, {v})",
    "contents": "equal(held_in({h}), {v})",
    "objects": "equal({h}.ravel().tolist(), {v})",
    "state": "{k}({h}) == {v}",
    "length": "len({h}) == {v}",
}
"""How what was read of a whole object is compared."""


def _test(scope: dict[str, Any], kind: str, holder: Any, key: Any, value: Any, roots: Any) -> str:
    i = len(scope)
    h, v = (f"{letter}{i}" for letter in "hv")
    for name, x in ((h, holder), (v, value)):
        scope[name] = weakref.ref(x) if id(x) in roots else x
    h, v = (f"{n}()" if id(x) in roots else n for n, x in ((h, holder), (v, value)))
    words = {"h": h, "n": key, "k": _key(scope, i, key)}
    if value is _MISSING:
        return _ABSENT[kind].format(**words)
    if kind in _OF_ALL:
        return _OF_ALL[kind].format(**words, v=v)
    if kind == "own" and id(holder) not in roots:  # `__dict__` takes longer than the item
        scope[h] = holder.__dict__
        read = ("{h}.get({k})" if value is None else "{h}[{k}]").format(**words)
    else:
        read = _READ[kind].format(**words)
    if issubclass(type(value), _BY_VALUE) and type(value) is not bool:
        return f"((t := {read}) is {v} or same(t, {v}))"
    return f"{read} is {v}"


def _key(scope: dict[str, Any], i: int, key: Any) -> str:
    if type(key) in (str, int, bool):
        return repr(key)
    scope[f"k{i}"] = key
    return f"k{i}"


def _same_objects(now: Any, before: tuple[Any, ...]) -> bool:
    """Whether a container still holds these very objects, or equal numbers and strings."""
    return len(now) == len(before) and (
        all(map(operator.is_, now, before)) or all(map(_is_still, now, before))
    )


def _is_still(now: Any, before: Any) -> bool:
    return now is before or (issubclass(type(before), _BY_VALUE) and is_same(now, before))


def _function(tests: list[str], scope: dict[str, Any]) -> Callable[[], bool] | None:
    if not tests:
        return None
    exec(compile(_TEMPLATE.format(tests=" and ".join(tests)), "<ftrace guard>", "exec"), scope)
    return scope["guard"]
