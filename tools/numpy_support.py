"""The table of NumPy, `docs/numpy.md`: what becomes of each public function under transformations.

`python -m tools.numpy_support` writes it. Nothing in it is written by hand: every call of
`tests/numpy/public_calls.py` is transformed, its values are compared with NumPy's and its
derivatives with finite differences, and what it becomes in a compiled program is read from plans.
"""

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
import numpy.polynomial as npp

import ftrace
from ftrace.core.errors import ConcretizationTypeError, FtraceError, LiftError, ShapeError
from ftrace.tree_util import tree_leaves
from tests.numpy.public_calls import CALLS, MODULES_OUTSIDE, OUTSIDE, REFUSED, Call

FILE: Final = Path(__file__).resolve().parent.parent / "docs" / "numpy.md"
YES, ERROR, VALUES, NONE = "✓", "E", "V", "·"
DEVICES: Final = ("CPU", "GPU")
WAYS: Final = ("eager", "jvp", "vjp", "vmap", "jit")
MEMBERS: Final = 2
STEP: Final = 1e-6


class WrongError(AssertionError):
    """A transformed call gives other values than NumPy, or no named error."""


# ---------------------------------------------------------------------------------- names


def public() -> Iterator[str]:
    """The names of all public functions of NumPy, as the table has them."""
    for name in sorted(vars(np)):
        value = getattr(np, name)
        is_dtype = isinstance(value, type) and issubclass(value, np.generic)
        if not name.startswith("_") and callable(value) and not is_dtype:
            yield name
    for module in ("linalg", "fft", "emath", "lib.stride_tricks"):
        yield from (f"{module}.{name}" for name in _functions(_module(module)))
    for basis in ("polynomial", "chebyshev", "legendre", "hermite", "hermite_e", "laguerre"):
        yield from (f"polynomial.{basis}.{name}" for name in _functions(getattr(npp, basis)))
    yield from (f"ndarray.{name}" for name in dir(np.ndarray) if not name.startswith("_"))


def _module(name: str) -> Any:
    found: Any = np
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _functions(module: Any) -> Iterator[str]:
    names = getattr(module, "__all__", None) or dir(module)
    for name in names:
        value = getattr(module, name)
        if callable(value) and not name.startswith("_") and not isinstance(value, type):
            yield name


def modules() -> set[str]:
    """The public modules of NumPy."""
    return {n for n in dir(np) if isinstance(getattr(np, n), ModuleType) and n[0] != "_"}


def names() -> dict[str, str]:
    """By each public name the one under which its call is: of another name of the same ufunc."""
    found: dict[str, str] = {}
    for name in public():
        value: Any = getattr(np, name, None)
        same = getattr(value, "__name__", name)
        found[name] = name if name in CALLS or getattr(np, same, None) is not value else same
    return found


# ---------------------------------------------------------------------------------- outcomes

_ASKING: Final = (ConcretizationTypeError, LiftError, ShapeError)


def outcome(call: Call, way: str) -> str:
    """What becomes of a call: `YES`, `ERROR`, `VALUES`, or `NONE` where there is no derivative.

    Raises:
        WrongError: other values than NumPy's, or an error that is not named.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return _OUTCOMES[way](call)
        except FtraceError as error:
            if not error.fix:
                raise WrongError(
                    f"{way}: an error that does not say what to do: {error}"
                ) from error
            return VALUES if isinstance(error, _ASKING) and way in ("vmap", "jit") else ERROR


def _arrays(result: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(x) for x in tree_leaves(result)]


def _compare(found: Any, wanted: Any, tolerance: float = 1e-10) -> None:
    xs, ys = _arrays(found), _arrays(wanted)
    if len(xs) != len(ys):
        raise WrongError(f"{len(xs)} results, not {len(ys)}")
    for x, y in zip(xs, ys, strict=True):
        if x.shape != y.shape or x.dtype != (y.dtype if y.dtype != object else x.dtype):
            raise WrongError(f"{x.dtype}{x.shape}, not {y.dtype}{y.shape}")
        size = np.max(np.abs(y[np.isfinite(y)]), initial=1.0) if y.dtype.kind in "fc" else 1.0
        if not np.allclose(x, y, rtol=tolerance, atol=tolerance * size, equal_nan=True):
            raise WrongError(f"{x}, not {y}")


def _is_smooth(x: Any) -> bool:
    return np.asarray(x).dtype.kind in "fc"


def _tangents(call: Call) -> tuple[Any, ...]:
    rng = np.random.default_rng(7)
    return tuple(
        np.asarray(rng.normal(size=np.shape(x)), np.asarray(x).dtype)[()] if _is_smooth(x) else None
        for x in call.args
    )


def _slopes(call: Call, tangents: Sequence[Any]) -> list[Any]:
    """Derivatives of the results along tangents, by central differences."""

    def moved(h: float) -> list[Any]:
        xs = [
            x if t is None else (x + h * t).astype(x.dtype)
            for x, t in zip(call.args, tangents, strict=True)
        ]
        return _arrays(call.f(*xs))

    single = any(x.dtype in (np.float32, np.complex64) for x in _arrays(call.f(*call.args)))
    step = 1e-2 if single else STEP
    return [(p - m) / (2 * step) for p, m in zip(moved(step), moved(-step), strict=True)]


def _eager(call: Call) -> str:
    call.f(*call.args)
    return YES


def _has_derivative(call: Call) -> bool:
    return any(map(_is_smooth, call.args)) and any(map(_is_smooth, _arrays(call.f(*call.args))))


def _jvp(call: Call) -> str:
    tangents = _tangents(call)
    ys, dys = ftrace.jvp(call.f, call.args, tangents)
    _compare(ys, call.f(*call.args))
    if not _has_derivative(call):
        return NONE
    if call.smooth:
        pairs = zip(_arrays(ys), _arrays(dys), _slopes(call, tangents), strict=True)
        for y, dy, slope in pairs:
            if _is_smooth(y):
                _compare(dy, slope.astype(dy.dtype), 2e-5 if dy.dtype.itemsize > 4 else 2e-3)
    return YES


def _vjp(call: Call) -> str:
    """The pullback is the transpose of the pushforward."""
    if not _has_derivative(call):
        return NONE
    chosen = [i for i, x in enumerate(call.args) if _is_smooth(x)]

    def smooth(*xs: Any) -> list[Any]:
        args = list(call.args)
        for i, x in zip(chosen, xs, strict=True):
            args[i] = x
        return [y for y in tree_leaves(call.f(*args)) if _is_smooth_aval(y)]

    xs = tuple(call.args[i] for i in chosen)
    ts = tuple(t for t in _tangents(call) if t is not None)
    ys, pull = ftrace.vjp(smooth, *xs)
    rng = np.random.default_rng(8)
    cts = [np.asarray(rng.normal(size=np.shape(y)), np.asarray(y).dtype)[()] for y in ys]
    found = pull(cts)
    _, dys = ftrace.jvp(smooth, xs, ts)
    left = sum(np.sum(ct * dy) for ct, dy in zip(cts, dys, strict=True))
    right = sum(np.sum(t * g) for t, g in zip(ts, found, strict=True))
    _compare(np.real(right), np.asarray(np.real(left), np.real(right).dtype), 1e-4)
    return YES


def _is_smooth_aval(y: Any) -> bool:
    return y.dtype.kind in "fc"


def _vmap(call: Call) -> str:
    stacked = [np.stack([x] * MEMBERS) for x in call.args]
    found = ftrace.vmap(call.f)(*stacked)
    wanted = call.f(*call.args)
    for i in range(MEMBERS):
        _compare([np.asarray(y)[i] for y in tree_leaves(found)], list(_arrays(wanted)))
    return YES


def _jit(call: Call) -> str:
    _compare(ftrace.jit(call.f)(*call.args), call.f(*call.args))
    return YES


_OUTCOMES: Final[dict[str, Callable[[Call], str]]] = {
    "eager": _eager,
    "jvp": _jvp,
    "vjp": _vjp,
    "vmap": _vmap,
    "jit": _jit,
}


# ---------------------------------------------------------------------------------- the page

HEAD: Final = """\
# NumPy's functions on traced values

Made by `python -m tools.numpy_support` (`make golden`) with NumPy {version}. Each public function
of NumPy is called as `tests/numpy/public_calls.py` has it, plain and under each transformation;
values are compared with NumPy's, derivatives with finite differences, pullbacks with pushforwards.
Nothing is written by hand.

| | |
| --- | --- |
| ✓ | NumPy's values, and their derivatives |
| · | no derivative: integers, booleans, nothing |
| E | a named error that says what to use instead |
| V | a named error, as the shape or dtype of the result depends on values that are not known |
| K, S, B, L, H | who does it in a compiled program, as in [the table of rows](support.md) |

Polynomials are as long as their coefficients: the last one in `numpy.polynomial`, the first one in
`numpy.roots` and in remainders of `numpy.polydiv`, which NumPy leaves out where it is zero, is
taken not to be. A program checks that when it runs, and raises a named error if it is.

{summary}
"""
COLUMNS: Final = "| | jvp | vjp | vmap | CPU | GPU |\n| --- | --- | --- | --- | --- | --- |"


def line_of(call: Call, ways: Callable[[Call, str], str]) -> list[str]:
    """The cells of a row: jvp, vjp, vmap, and who does it on each device."""
    found = [outcome(call, way) for way in ("jvp", "vjp", "vmap", "jit")]
    compiled = found.pop()
    return [*found, *(ways(call, d) if compiled == YES else compiled for d in DEVICES)]


def _ways() -> Callable[[Call, str], str]:
    """What plans say, which needs CuPy."""
    from tools import support

    theirs = support.Cupy()

    def ways(call: Call, device: str) -> str:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            program = ftrace.make_jaxpr(ftrace.jit(call.f))(*call.args)
        found = support.ways_of(program, device, theirs)
        return "".join(sorted(found, key=support.ORDER.index))

    return ways


def page() -> str:
    """The text of the file."""
    ways = _ways()
    lines = {name: line_of(call, ways) for name, call in CALLS.items()}
    parts: dict[str, list[str]] = {}
    for name in sorted(lines, key=str.lower):
        module, _, _ = name.rpartition(".")
        home = (
            module if module.partition(".")[0] in _PARTS else "" if _is_function(name) else "ufunc"
        )
        parts.setdefault(home, []).append(f"| `{name}` | {' | '.join(lines[name])} |")
    text = [HEAD.format(version=np.__version__, summary=summary(lines))]
    for home, rows in sorted(parts.items(), key=lambda part: (part[0] != "", part[0])):
        title = {"": "numpy", "ufunc": "Methods of ufuncs"}.get(home, home)
        text.append("\n".join([f"## {title}", "", COLUMNS, *rows, ""]))
    text.append("## Outside of the table\n")
    outside: dict[str, list[str]] = {}
    for name, reason in (*OUTSIDE.items(), *((f"{m}.*", r) for m, r in MODULES_OUTSIDE.items())):
        outside.setdefault(reason, []).append(f"`{name}`")
    text.append("\n".join(f"- {', '.join(ns)}: {reason}." for reason, ns in outside.items()))
    return "\n".join(text) + "\n"


_PARTS: Final = ("linalg", "fft", "emath", "lib", "polynomial", "ndarray")


def _is_function(name: str) -> bool:
    return "." not in name and "(" not in name


def summary(lines: dict[str, list[str]]) -> str:
    """How many there are under each transformation."""
    found = []
    for title, away in (
        ("numpy, with methods of arrays and ufuncs", False),
        ("numpy.linalg, fft, emath and polynomial", True),
    ):
        ours = [
            cells
            for name, cells in lines.items()
            if name not in REFUSED and (name.partition(".")[0] in _AWAY) == away
        ]
        smooth = [cells for cells in ours if cells[0] != NONE]
        shares = [sum(cells[i] == YES for cells in smooth) for i in range(2)]
        mapped = sum(cells[2] == YES for cells in ours)
        compiled = sum(cells[3] not in (ERROR, VALUES) for cells in ours)
        found.append(
            f"- {title}: of {len(smooth)} with derivatives {shares[0]} have them under jvp and "
            f"{shares[1]} under vjp; of all {len(ours)}, {mapped} work under vmap and {compiled} "
            "under jit."
        )
    text = f"Apart from {len(REFUSED)} that ask for memory, texts or matrices:"
    return "\n".join([text, "", *found])


_AWAY: Final = ("linalg", "fft", "emath", "polynomial")


def main() -> None:
    """Write the file."""
    FILE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{FILE.name}\n")


if __name__ == "__main__":
    main()
