"""Bad inputs over the whole public API: what comes back is classified.

Half of the calls pass arguments drawn from values that rarely make sense: types, None, texts,
negative, huge and fractional sizes and axes, empty and mismatched shapes, dtypes that are not
traced, wrong trees, misspelt keywords. The other half are calls that make sense (`good_calls.py`)
in which one argument is replaced by such a value, or a keyword of the function is given one. All
run eagerly or while `grad`, `jit` or `vmap` traces the first array of floats.

`ours` is an `FtraceError` with all its parts, `numpy` an error that NumPy raises on the same call:
its class, and its words or somebody's `raise`; `call` Python's error for a signature, `theirs` an
error from outside of ftrace, `taken` a call that was accepted. `INSIDE` is any other bare error,
also one whose class is right by accident: nobody raised it, and its words are not NumPy's; and a
message longer than `LONGEST`. `SILENT` is a function that takes what NumPy refuses, or, of
functions that NumPy does not have, a value that is no array, number or tree of them.

    python -m tests.fuzz.bad_inputs --count 2000 --seed 0
"""

import argparse
import contextlib
import copy
import dis
import faulthandler
import functools
import inspect
import io
import operator
import random
import re
import signal
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import scipy.special

import ftrace
import ftrace.nn
import ftrace.numpy as fnp
from ftrace import grad, jit, lax, passes, tree_util, vmap
from ftrace.core.trace import EVAL, Tracer, ctx
from ftrace.scipy import special
from tests.fuzz import good_scipy
from tests.fuzz.good_calls import GOOD, KEY, Good, X

ROOT, HERE = str(Path(ftrace.__file__).parent), str(Path(__file__).parent)
LIMIT = 5.0  # seconds that NumPy or ftrace may take for one call
OUTSIDE = re.compile(
    r"index -?\d+ is out of bounds for axis \d+ with size \d+"
    r"|axis -?\d+ is out of bounds for array of dimension \d+"
)
LONGEST = 4096  # characters of a message


def _method(name: str) -> Callable[..., Any]:
    """A method of an array, or the setting of an attribute, as a function."""
    path, sets, _ = name.partition("=")
    *way, last = path.split(".")

    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        for step in way:
            x = getattr(x, step)
        return setattr(x, last, *args) if sets else getattr(x, last)(*args, **kwargs)

    return call


METHODS = SimpleNamespace(**{name: _method(name) for f, name, *_ in GOOD if f == "methods"})
FAMILIES: dict[str, Any] = {
    "ftrace": ftrace,
    "numpy": fnp,
    "linalg": fnp.linalg,
    "fft": fnp.fft,
    "special": special,
    "nn": ftrace.nn,
    "lax": lax,
    "random": ftrace.random,
    "tree_util": tree_util,
    "implicit": ftrace.implicit,
    "passes": passes,
    "methods": METHODS,
    "operators": operator,
    **good_scipy.OURS,
}
NUMPYS: dict[str, Any] = {
    "numpy": SimpleNamespace(**vars(np.lib.stride_tricks) | vars(np)),
    "linalg": np.linalg, "fft": np.fft, "special": scipy.special,
    "methods": METHODS, "operators": operator, **good_scipy.SCIPYS,
}  # fmt: skip
# these register for good, wait for a person, change the process, or write files
LEFT_OUT = {
    "register_", "breakpoint", "set_default", "save", "profile", "check_", "inserted", "finalize",
    "start_", "stop_trace", "set_printoptions", "fromfile", "load", "tofile", "genfromtxt",
    "fromfunction", "devices",
}  # fmt: skip
VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None, "'abc'": lambda: "abc", "-1": lambda: -1, "0": lambda: 0,
    "2.5": lambda: 2.5, "10**40": lambda: 10**40, "-5": lambda: -5, "nan": lambda: np.nan,
    "True": lambda: True, "()": lambda: (), "(2, -1)": lambda: (2, -1), "[]": lambda: [],
    "{'a': 1}": lambda: {"a": 1}, "np.sin": lambda: np.sin, "object()": lambda: THING,
    "X": X.copy, "ones(2, 2)": lambda: np.ones((2, 2)), "empty": lambda: np.zeros((0, 3)),
    "objects": lambda: np.array([1, None], object), "ints": lambda: np.array([1, 2, 9]),
    "dates": lambda: np.array(["2020"], "M8[s]"), "texts": lambda: np.array(["a"]),
    "KEY": KEY.copy, "float": lambda: float, "1j": lambda: 1j, "b''": lambda: b"",
    "(1, 'a')": lambda: (1, "a"), "10**6": lambda: 10**6, "'i4'": lambda: "i4",
}  # fmt: skip
THING = object()
BEYOND = (  # whose density is documented as 0 where SciPy's raises: it depends on values
    *("dirichlet.pdf", "dirichlet.logpdf"),
)
PASSING = (  # which give back what they do not know, or take dtypes
    *("block_until_ready", "device_get", "tree_broadcast", "scalar_type_of"),
)
NO_NUMBERS = ("'abc'", "object()", "np.sin", "objects", "dates", "texts", "float", "b''", "'i4'")


class Given(NamedTuple):
    """An argument that makes sense."""

    value: Any

    def __str__(self) -> str:
        return getattr(self.value, "__name__", "") or " ".join(repr(self.value).split())[:60]


Argument = str | Given  # a name of VALUES, or what it is


def value_of(a: Argument) -> Any:
    """The value of an argument, which the call may write."""
    return VALUES[a]() if isinstance(a, str) else copy.deepcopy(a.value)


class Call(NamedTuple):
    """One call: a function by name, its arguments and keywords, and a context."""

    family: str
    name: str
    arguments: tuple[Argument, ...]
    keywords: tuple[tuple[str, Argument], ...]
    context: str

    def __str__(self) -> str:
        given = [*map(str, self.arguments), *(f"{k}={v}" for k, v in self.keywords)]
        return f"{self.context}: {self.family}.{self.name}({', '.join(given)})"

    def values(self) -> tuple[list[Any], dict[str, Any]]:
        """New arguments and keywords."""
        return [*map(value_of, self.arguments)], {k: value_of(v) for k, v in self.keywords}

    def function(self, families: dict[str, Any]) -> Callable[..., Any] | None:
        """The function among those of ftrace, or of NumPy."""
        return getattr(families.get(self.family), self.name, None)


def public() -> list[tuple[str, str]]:
    """Every callable of the API that may be called with anything."""
    return [
        (family, name)
        for family, module in FAMILIES.items()
        if family not in ("methods", "operators", "matrices")
        for name in sorted(getattr(module, "__all__", None) or dir(module))
        if not name.startswith("_")
        and not any(name.startswith(s) for s in LEFT_OUT)
        and callable(found := getattr(module, name, None))
        and not inspect.ismodule(found)
        and found is not Any
        and not (inspect.isclass(found) and issubclass(found, np.generic | BaseException | Enum))
    ]


def keywords_of(family: str, name: str) -> list[str]:
    """The names of a function's parameters, as far as its signature says."""
    try:
        found = inspect.signature(getattr(FAMILIES[family], name)).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in found if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]


def calls(count: int, seed: int) -> Iterator[Call]:
    """That many calls, in an order that the seed decides; every function comes in turn.

    What is drawn for a function does not depend on which others there are.
    """
    seen: Counter[str] = Counter()
    good: list[tuple[str, Good]] = []
    for g in GOOD:
        own = f"{g[0]} {g[1]} {seen[g[1]]}"
        seen[g[1]] += 1
        good.append((own, g))
    good.sort(key=lambda g: random.Random(f"{seed} {g[0]}").random())
    names = sorted(public(), key=lambda n: random.Random(f"{seed} {n}").random())
    for i in range(count):
        turn, at = divmod(i // 2, len(good) if i % 2 else len(names))
        if i % 2:
            own, call = good[at]
            yield spoilt(call, random.Random(f"{seed} {own} {turn}"))
        else:
            yield nonsense(*names[at], random.Random(f"{seed} {names[at]} {turn}"))


def nonsense(family: str, name: str, rng: random.Random) -> Call:
    """A call with arguments that know nothing of each other."""
    chosen = tuple(rng.choices([*VALUES], k=rng.choice([1, 1, 2, 2, 3, 4])))
    if family == "random" and rng.random() < 0.7:
        chosen = ("KEY", *chosen[1:])
    if family in ("numpy", "linalg", "fft", "special", "nn", "lax") and rng.random() < 0.6:
        chosen = ("X", *chosen[1:])
    typo = (("axes_", "-1"),) if rng.random() < 0.05 else ()
    return Call(family, name, chosen, typo, _context(rng))


def spoilt(good: Good, rng: random.Random) -> Call:
    """A call that makes sense but for one argument."""
    family, name, args, kwargs = good
    arguments: list[Argument] = [Given(a) for a in args]
    keywords: dict[str, Argument] = {k: Given(v) for k, v in kwargs.items()}
    bad, options = rng.choice([*VALUES]), keywords_of(family, name)[len(args) :]
    if options and rng.random() < 0.5:
        keywords[rng.choice(options)] = bad
    else:
        first = 0 if len(args) == 1 or rng.random() < 0.2 else 1
        arguments[rng.randrange(first, len(args))] = bad
    context = _context(rng)
    if family in ("methods", "operators") and context == "eager":
        context = "jit"
    return Call(family, name, tuple(arguments), tuple(keywords.items()), context)


def _context(rng: random.Random) -> str:
    return rng.choice(["eager", "eager", "jit", "grad", "vmap"])


def perform(call: Call) -> Any:
    """Make the call; under a transformation the first array of floats is traced.

    What is given back as a function is called, too.
    """
    fun = call.function(FAMILIES)
    assert fun is not None
    values, more = call.values()
    floats = (i for i, v in enumerate(values) if _is_floats(v))
    place = next(floats, None)
    if call.context == "eager" or place is None:
        return _applied(call, fun(*values, **more))

    def traced(x: Any) -> Any:
        _applied(call, fun(*(x if i == place else v for i, v in enumerate(values)), **more))
        return (x * x).sum()

    wrap = {"jit": jit, "grad": grad, "vmap": lambda f: vmap(f)}[call.context]
    x = values[place] * 1.0 if call.family in ("methods", "operators") else values[place]
    return wrap(traced)(np.stack([x, x]) if call.context == "vmap" else x)


def _is_floats(v: Any) -> bool:
    return type(v) is np.ndarray and v.dtype == np.float64 and v.ndim > 0


def _applied(call: Call, result: Any) -> Any:
    if call.family == "ftrace" and callable(result) and not isinstance(result, type | Tracer):
        return result(X.copy())
    return result


def classified(call: Call) -> tuple[str, str]:
    """The class of what a call gives, and the words of its error."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            perform(call)
        except Exception as error:
            kind = _class_of(call, error)
            return kind, f"{type(error).__name__}: {str(error)[:300]!r}"
        finally:
            ctx.trace = EVAL
        numpys = _numpys(call)
    more = "unexpected keyword" in str(numpys) and _fits(call)  # an option that NumPy's has not
    if isinstance(numpys, MemoryError) or call.name in BEYOND or "zero-size batch" in str(numpys):
        return "taken", ""  # what is only traced needs no memory
    if numpys and not more and call.function(FAMILIES) is not call.function(NUMPYS):
        return "SILENT", f"NumPy: {type(numpys).__name__}: {numpys}"
    if call.function(NUMPYS) is None and (key := _misplaced(call)):
        return "SILENT", f"{key} is no array and no number"
    return "taken", ""


def _misplaced(call: Call) -> str:
    """The name of an argument that is neither, where a call that makes sense has one."""
    if call.family == "initializers" or call.name in PASSING:
        return ""
    for name, given in _named(call).items():
        if given in NO_NUMBERS and f"{call.family}.{call.name}.{name}" in _numbered():
            return name
    return ""


@functools.cache
def _numbered() -> frozenset[str]:
    """The parameters that have an array or a number in every call that makes sense."""
    found: dict[str, bool] = {}
    for family, name, args, kwargs in GOOD:
        arguments = tuple(map(Given, args)), tuple((k, Given(v)) for k, v in kwargs.items())
        for key, given in _named(Call(family, name, *arguments, "eager")).items():
            own, value = f"{family}.{name}.{key}", getattr(given, "value", None)
            is_array = isinstance(value, np.ndarray) and value.dtype.kind in "fiu"
            found[own] = found.get(own, True) and (is_array or type(value) in (int, float))
    return frozenset(k for k, v in found.items() if v)


def _named(call: Call) -> dict[str, Any]:
    """The arguments by their parameters' names, as far as there are any."""
    try:
        signature = inspect.signature(call.function(FAMILIES))  # type: ignore[arg-type]
        return signature.bind(*call.arguments, **dict(call.keywords)).arguments
    except (TypeError, ValueError):
        return {}


def _class_of(call: Call, error: Exception) -> str:
    if len(str(error)) > LONGEST:
        return "INSIDE"
    if isinstance(error, ftrace.errors.FtraceError):
        is_ours = error.what and error.fix and not isinstance(error, ftrace.errors.JaxprError)
        return "ours" if is_ours else "INSIDE"
    if _is_numpys(call, error):
        return "numpy"
    if isinstance(error, TypeError) and not _fits(call):
        return "INSIDE" if "<l" in str(error) else "call"  # <locals>, <lambda>: nobody's words
    if call.name == "power" and str(error).startswith("Integers to negative integer powers"):
        return "numpy"  # its class and words, of `x.at[i].power(-1)` too
    if call.family == "operators" and re.search("supported|only concatenate", str(error)):
        return "call"  # Python's words on operators that no operand knows
    if type(error) in (IndexError, np.exceptions.AxisError) and OUTSIDE.fullmatch(str(error)):
        return "call"  # what `Raises` of functions that take indices or axes says
    return "theirs" if _is_theirs(call, error) else "INSIDE"


def _is_theirs(call: Call, error: Exception) -> bool:
    """Whether a function of the user's raised it: of this folder, SciPy's, or without a frame."""
    frames = [f.filename for f in traceback.extract_tb(error.__traceback__)]
    if frames[-1].startswith(HERE) or not any(f.startswith(ROOT) for f in frames):
        return True
    users, words = any("good_calls" in f for f in frames), str(error)
    if users and frames[-1].startswith(f"{ROOT}/numpy"):
        return True  # NumPy's error in a function of the user's
    last = traceback.extract_tb(error.__traceback__)[-1]
    if users and "lifting/substitutes" in last.filename and "plain(" in (last.line or ""):
        return True  # the same in lifted code, which calls NumPy's function there
    if any(isinstance(a, Given) and words.startswith(f"{a}()") for a in call.arguments):
        return True  # which was called with other arguments than it takes
    if "scipy" in "".join(frames) and hasattr(error, "__notes__"):
        return True  # with the line that called the solver
    given = [*call.arguments, *(v for _, v in call.keywords)]
    # NumPy's and Python's own functions leave no frame where they fail in the place of a user's
    return call.family in ("ftrace", "tree_util", "lax", "implicit", "smaller") and any(
        a in ("np.sin", "float") for a in given if isinstance(a, str)
    )


def _is_numpys(call: Call, error: Exception) -> bool:
    """Whether NumPy raises this error, too: the class, and the words or a `raise`."""
    numpys = _numpys(call)
    if numpys is None or not _related(type(error), type(numpys)):
        return False
    tb = error.__traceback__
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    assert tb is not None
    if str(numpys) == str(error) or not tb.tb_frame.f_code.co_filename.startswith(ROOT):
        return True
    places = {i.offset: i.opname for i in dis.get_instructions(tb.tb_frame.f_code)}
    return places[tb.tb_lasti] == "RAISE_VARARGS"


def _related(one: type, other: type) -> bool:
    return issubclass(one, other) or issubclass(other, one)


def _fits(call: Call) -> bool:
    """Whether the arguments fit the function's signature."""
    values, more = call.values()
    try:
        inspect.signature(call.function(FAMILIES)).bind(*values, **more)  # type: ignore[arg-type]
    except TypeError:
        return False
    except ValueError:
        pass
    return True


def _numpys(call: Call) -> Exception | None:
    """What NumPy raises on the same call of its own function, if it does."""
    fun = call.function(NUMPYS)
    if fun is None:
        return None
    values, more = call.values()
    try:
        fun(*values, **more)
    except Exception as error:
        return error
    return None


def _too_long(*_: Any) -> None:
    raise TimeoutError("a bad input ran for five seconds")


def _limit(seconds: float) -> None:
    """Interrupt after so much processor time, or ten times as much by the clock; 0: never."""
    signal.setitimer(signal.ITIMER_PROF, seconds, seconds)
    signal.setitimer(signal.ITIMER_REAL, 10 * seconds, 10 * seconds)


def table(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """How many calls there were of each class, and those that should not be."""
    found: Counter[str] = Counter()
    wrong: list[str] = []
    signal.signal(signal.SIGALRM, _too_long)
    signal.signal(signal.SIGPROF, _too_long)
    for call in calls(count, seed):
        _limit(LIMIT)
        kind, words = classified(call)
        _limit(0)
        found[kind] += 1
        if kind in ("INSIDE", "SILENT"):
            wrong.append(f"{kind} {call} -> {words}")
    return found, wrong


def main() -> int:
    """Print the table."""
    faulthandler.enable()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found, wrong = table(options.count, options.seed)
    print(*wrong, sep="\n")
    print(*(f"{kind:8s} {n}" for kind, n in found.most_common()), sep="\n")
    print(f"{options.count} bad inputs: {found['INSIDE']} from inside, {found['SILENT']} silent")
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
