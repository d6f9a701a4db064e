"""Random programs of numbers: Python's and NumPy's, chosen by decisions, counted, divided, held.

Ints, floats and bools of Python meet NumPy's scalars in variables, lists and dicts, beside
decisions, loops and `try`. Each program runs compiled, mapped and vectorized, for float64, float32
and Python's floats, against plain Python: values, exceptions, and dtypes of what is NumPy's.

    python -m tests.fuzz.numbers --count 2000 --seed 0
"""

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np

import ftrace
from ftrace.errors import FtraceError
from tests.fuzz.small import LOUD, command, indented, loaded

HEAD = "import math\nimport numpy as np\n"
START = "a = {a}; n = {n}; L = [{first}, 1.0]; D = {{'n': 0, 'v': {v}}}"
RESULT = "(a, n, L[0], L[1], D['n'], D['v'])"
DECISIONS = (
    "x > 0", "y > 1", "a > n", "n > 1", "x > y", "a < 2", "L[0] > 0", "D['n'] < 2", "D['v'] > a",
    "a == 0", "n and x > 0", "not a > 1", "n % 2", "x > 0 or n", "0 < a < 3", "L[1] >= D['v']",
)  # fmt: skip
CHANGES = (
    "n += 1", "n = n + 2", "n = 0", "n *= 2", "a = a + n", "a = x", "a = 0", "a = 1.5", "a = y * n",
    "a = a / 2", "a = n / 2", "a = a // 2", "a = x % 2", "a = a ** 2", "a = -a", "a = abs(a)",
    "a = max(a, 0)", "a = min(a, n)", "a += 0.5", "a *= n", "a -= y", "L[0] = a", "L[1] += n",
    "L[0] += 1", "L[0] = n", "L = [a, n]", "D['n'] += 1", "D['v'] = a", "D['v'] = L[0]",
    "D['n'] = n", "a = L[n % 2]", "a = sum(L)", "a = math.sqrt(abs(a))", "a = float(n)",
    "L[n % 2] = a", "L[n % 2] += 1",
    "a = n or y", "a = n and x", "a, n = n * 1.0, 1", "a = 2 ** (n % 5)", "a = a * True",
    "a = [x, 0, y][n % 3]", "a = g(a)", "a = g(n) + x", "n = len(L) + n", "a = divmod(a, 2)[1]",
)  # fmt: skip
DIVIDES = (
    "a = 1 / a", "a = n / a", "a = y / a", "a = a % n", "a = 3 // n", "a /= n", "a = x / (n - 1)",
    "a = 1.0 / L[0]", "a = a ** -1", "a = 1 / (D['v'] - D['n'])", "a = a // D['n']", "a = 5 % a",
    "a = math.log(a)", "a = n ** -1", "a = divmod(7, a)[0]",
)  # fmt: skip
VALUES = ("0", "1", "2.0", "x", "y", "0.0", "x * 2", "False")
LOOPS = ("range(3)", "(1, 2.0)", "L", "(x, 0)")
POINTS = [*itertools.product([-0.75, 0.0, 1.5], [0.5, 2.0])]
KINDS: dict[str, Callable[[float], Any]] = {
    **{"float64": np.float64, "float32": np.float32, "float": float},
}


class _Writer:
    """The statements of one program."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.loops = 0

    def test(self) -> str:
        return self.rng.choice(DECISIONS)

    def value(self) -> str:
        return self.rng.choice(VALUES)

    def block(self, depth: int) -> list[str]:
        parts = (self.statement(depth) for _ in range(self.rng.randint(1, 2)))
        return [line for part in parts for line in part]

    def inner(self, head: str, depth: int) -> list[str]:
        return [head, *indented(self.block(depth - 1))]

    def statement(self, depth: int) -> list[str]:
        kind, rng = self.rng.random(), self.rng
        if depth <= 0 or kind < 0.3:
            return [rng.choice(CHANGES)]
        if kind < 0.4:
            return [f"a = {self.value()} if {self.test()} else {self.value()}"]
        if kind < 0.65:
            last = self.inner("else:", depth) if rng.random() < 0.5 else []
            return [*self.inner(f"if {self.test()}:", depth), *last]
        if kind < 0.75:
            return [*self.inner(f"for e in {rng.choice(LOOPS)}:", depth), "    a = a + e"]
        if kind < 0.83:
            self.loops += 1
            i = f"i{self.loops}"
            head = [f"{i} = 0", f"while {i} < {rng.randint(1, 3)} and ({self.test()}):"]
            return [*head, f"    {i} += 1", *indented(self.block(depth - 1))]
        if kind < 0.95:
            caught = rng.choice(["ZeroDivisionError", "(ZeroDivisionError, ValueError)"])
            tried = [*self.block(0), rng.choice(DIVIDES)]
            return ["try:", *indented(tried), f"except {caught}:", *indented(self.block(0))]
        return [rng.choice(DIVIDES)]


def program(seed: int) -> str:
    """The source of a program: a function `f` of two numbers."""
    writer = _Writer(seed)
    a, first, v = (writer.value() for _ in range(3))
    n = writer.rng.randint(0, 2)
    helper = [f"if q > {writer.rng.choice(['0', '1.0'])}:", f"    return {writer.rng.choice('12')}"]
    body = [line for _ in range(writer.rng.randint(2, 4)) for line in writer.statement(3)]
    return "\n".join(
        [
            HEAD,
            "def g(q):",
            *indented([*helper, f"return {writer.rng.choice(['q', 'q * 0.5', '0', '1.5'])}"]),
            "def f(x, y):",
            *indented([START.format(a=a, n=n, first=first, v=v), *body, f"return {RESULT}"]),
            "",
        ]
    )


def _run(f: Callable[..., Any], *args: Any) -> Any:
    """A result, or the exception."""
    try:
        return f(*args)
    except (ArithmeticError, ValueError) as error:
        return error


def _differ(got: Any, wanted: Any, exact: bool) -> str:
    """How a result differs from plain Python's, in words; nothing if it does not."""
    if isinstance(wanted, Exception) or isinstance(got, Exception):
        return "" if type(got) is type(wanted) else f"{got!r}, not {wanted!r}"
    for p, q in zip(got, wanted, strict=True):
        tolerance = 1e-9 if exact else 1e-4
        if not np.allclose(p, q, rtol=tolerance, atol=tolerance, equal_nan=True):
            return f"{got}, not {wanted}"
        strict = isinstance(q, np.floating) and not exact  # of float32 alone: see `CHANGES`
        if strict and np.asarray(p).dtype != q.dtype:
            return f"{p!r} of {np.asarray(p).dtype}, not {q!r}"
    return ""


def _is_fit(wanted: Any) -> bool:
    if isinstance(wanted, OverflowError):
        return False
    return isinstance(wanted, Exception) or all(abs(float(v)) < 1e9 or v != v for v in wanted)


def check(seed: int, folder: str) -> str:
    """What a program gives: `right`, `refused` by name, `raises` in plain Python, or a finding."""
    text = program(seed)
    f = loaded(text, folder, f"numbers_{seed}").f
    results: list[str] = []
    for name, kind in KINDS.items():
        if name == "float32" and "math." in text:
            continue  # there a function of `math` has a result of float32, not of Python
        points = [(kind(x), kind(y)) for x, y in POINTS]
        wanted = [_run(f, *p) for p in points]
        if not all(map(_is_fit, wanted)):
            return "raises"
        exact = name != "float32"
        jitted = ftrace.jit(f)
        for p, w in zip(points, wanted, strict=True):
            if name == "float" and isinstance(w, ZeroDivisionError):
                continue  # Python numbers are divided as in IEEE 754 where nothing is rewritten
            results.append(_compared(f"jit of {name}", lambda: _run(jitted, *p), w, exact, p))  # noqa: B023
        if name == "float":
            continue
        whole = [(p, w) for p, w in zip(points, wanted, strict=True) if not _failed(w)]
        for way in (ftrace.vmap, ftrace.vectorize):
            given = [p for p, _ in whole] or points
            xs, ys = (np.array(v) for v in zip(*given, strict=True))
            results.append(_mapped(f"{way.__name__} of {name}", way(f), (xs, ys), whole, exact))
    found = [r for r in results if r not in ("", "refused")]
    return found[0] if found else "refused" if "refused" in results else "right"


def _failed(wanted: Any) -> bool:
    return isinstance(wanted, Exception)


def _compared(what: str, call: Callable[[], Any], wanted: Any, exact: bool, at: Any) -> str:
    try:
        differs = _differ(call(), wanted, exact)
    except LOUD:
        return "refused"
    except FtraceError as error:
        return f"{what}: {error!r}"
    return f"{what}: {differs} at {at}" if differs else ""


def _mapped(what: str, f: Any, columns: Any, whole: Any, exact: bool) -> str:
    """Compare a mapped call with plain results of elements that do not raise."""
    try:
        found = _run(f, *columns)
    except LOUD:
        return "refused"
    except FtraceError as error:
        return f"{what}: {error!r}"
    if not whole:
        return "" if _failed(found) else f"{what}: {found}, and every element raises"
    if _failed(found):
        return f"{what}: {found!r}"
    for i, (p, w) in enumerate(whole):
        differs = _differ([v[i] for v in found], w, exact)
        if differs:
            return f"{what}: {differs} at {p}"
    return ""


if __name__ == "__main__":
    raise SystemExit(command(__doc__, program, check))
