"""On known values lifted code is Python: values, exceptions, order, objects, names, lines."""

import inspect
import traceback
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace.errors import LiftError
from ftrace.lifting.syntax.rewriting import rewrite


def test_evaluation_order_and_number():
    log: list[Any] = []

    def say(x, v):
        log.append(x)
        return v

    def f():
        if (say(1, True) and say(2, False)) or say(3, True):
            y = say(4, 1) < say(5, 2) < say(6, 3)
        z = say(7, 1) if say(8, 0) else say(9, 2)
        for i in say(10, range(2)):
            while say(11, i < 1):
                i += 1
                if say(12, True):
                    continue
        else:
            say(13, 0)
        return y, z, not say(14, 0)

    expected = f()
    plain, log = log, []
    assert ftrace.lift(f)() == expected
    assert log == plain


def test_short_circuits_return_the_objects():
    a, b = [], [1]

    def f():
        return a or b, b and a, b or 1 / 0, a and 1 / 0

    found = ftrace.lift(f)()
    assert found[0] is b
    assert found[1] is a
    assert found[2] is b
    assert found[3] is a


def test_truth_is_asked_once():
    class Truth:
        asked = 0

        def __bool__(self):
            self.asked += 1
            return self.asked < 4

    def f(t):
        n = 0
        if t:
            n += 1
        m = 1 if t else 2
        while t:
            n += 1
        return n, m, t.asked

    assert ftrace.lift(f)(Truth()) == f(Truth()) == (2, 1, 4)


def test_exceptions_are_pythons():
    def f(x):
        if x > 1:
            y = 1
        return y

    with pytest.raises(UnboundLocalError):
        ftrace.lift(f)(0)

    def g(n):
        for i in range(n):
            if i > 2:
                raise KeyError(i)
        assert n > 1, "small"
        return n

    with pytest.raises(KeyError):
        ftrace.lift(g)(5)
    with pytest.raises(AssertionError, match="small"):
        ftrace.lift(g)(1)


def test_tracebacks_show_the_users_lines():
    def f(x):
        for _ in range(3):
            if x:
                return 1 / (x - x)  # here
        return x

    with pytest.raises(ZeroDivisionError) as caught:
        ftrace.lift(f)(1)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert last.filename == __file__
    assert last.name == "f"
    assert str(last.line).endswith("# here")


def test_names_defaults_and_documentation_are_kept():
    def f(x: int, /, y: float = 2.0, *rest: int, z: int = 3, **more: int) -> float:
        """The text."""
        return x + y + sum(rest) + z + sum(more.values())

    new = rewrite(f)
    assert inspect.signature(new) == inspect.signature(f)
    for name in ("__name__", "__qualname__", "__module__", "__doc__", "__annotations__"):
        assert getattr(new, name) == getattr(f, name)
    assert ftrace.lift(f)(1, 5.0, 7, z=1, w=2) == 16.0
    assert ftrace.lift(f)(1) == 6.0


def test_a_function_is_rewritten_once():
    def f(x):
        return x if x > 1 else -x

    assert rewrite(f) is rewrite(f)
    assert rewrite(rewrite(f)) is rewrite(f)


def test_cells_and_globals_are_the_users():
    n = 0

    def f():
        nonlocal n
        n = n + 1 if n < 10 else 0
        return n

    lifted = ftrace.lift(f)
    assert lifted() == 1
    n = 5
    assert lifted() == 6
    assert n == 6
    assert rewrite(f).__globals__ is globals()


def test_generators_coroutines_and_contexts_work_on_known_values():
    def generate(n):
        for i in range(n):
            if i % 2:
                yield i
        with np.errstate(all="ignore"):
            try:
                yield from [10, 20]
            finally:
                yield 30

    assert list(ftrace.lift(generate)(5)) == list(generate(5))


def test_global_statements_work_on_known_values():
    def f(x):
        global _shared
        if x > 1:
            _shared = x
        return _shared

    assert ftrace.lift(f)(3) == 3
    assert _shared == 3


_shared = 0


def test_jvp_on_known_values_runs_python_once():
    log: list[int] = []

    def f(x):
        n = 0
        while x > 1:
            log.append(n)
            x = x / 2
            n += 1
            if n > 50:
                break
        for i in range(3):
            log.append(-i)
            if x > i:
                continue
        return x * n

    assert ftrace.grad(ftrace.lift(f))(5.0) == ftrace.grad(f)(5.0)
    assert log[: len(log) // 2] == log[len(log) // 2 :]


def test_loops_over_known_items_are_unrolled():
    def f(x):
        s = 0.0
        for i in range(4):
            s = s + x * i
        return s

    jaxpr = ftrace.make_jaxpr(ftrace.lift(f))(2.0)
    assert not any(e.primitive.name in ("while", "scan") for e in jaxpr.eqns)


def test_generators_are_read_once_and_in_order():
    log: list[int] = []

    def numbers():
        for i in range(4):
            log.append(i)
            yield float(i)

    def f(x):
        for v in numbers():
            if x < v:
                break
            x = x + v * 0.5
        return x

    assert float(ftrace.jvp(ftrace.lift(f), (0.7,), (1.0,))[0]) == f(0.7)
    assert log == [0, 1] * 2
    with pytest.raises(LiftError, match="`log`, a list from outside, is changed"):
        ftrace.jit(ftrace.lift(f))(0.7)


def test_two_lambdas_on_one_line():
    f, g = (lambda x: x if x > 1 else -x), (lambda x: 2 * x if x > 1 else x)
    assert ftrace.jit(ftrace.lift(f))(3.0) == 3.0
    assert ftrace.jit(ftrace.lift(g))(3.0) == 6.0


def test_functions_without_source_run_all_paths():
    scope: dict[str, Any] = {"np": np}
    text = """
def f(x):
    y = x * x if x > 0 else -x
    if y > 2 and x < 3:
        return np.sin(y)
    return y + 1 if x < -1 else y
"""
    exec(text, scope)
    f = scope["f"]
    for x in (0.5, 2.0, 4.0, -0.5, -3.0):
        assert ftrace.jit(ftrace.lift(f))(x) == pytest.approx(f(x))
        assert ftrace.grad(ftrace.jit(ftrace.lift(f)))(x) == pytest.approx(ftrace.grad(f)(x))
    xs = np.array([0.5, 2.0, 4.0, -0.5, -3.0])
    np.testing.assert_allclose(ftrace.vmap(ftrace.lift(f))(xs), [f(x) for x in xs])


def test_without_source_the_first_of_the_tests_that_a_handler_swallows_is_decided():
    scope: dict[str, Any] = {}
    text = """
def f(x, y):
    try:
        return x * 2 if x > 0 else x * 3
    except BaseException:
        return x * 5 if y > 0 else x * 7
"""
    exec(text, scope)
    for x, y in ((1.0, -1.0), (-1.0, 1.0), (1.0, 1.0), (-1.0, -1.0)):
        assert ftrace.jit(ftrace.lift(scope["f"]))(x, y) == scope["f"](x, y)


def test_the_rewritten_source_can_be_read():
    def f(x):
        while x > 1:
            x = x / 2
        return x

    text = ftrace.lift(f).source
    assert text.startswith("def f(x):")
    assert "x = x / 2" in text
    compile(text, "source", "exec")


def test_a_method_is_lifted_through_its_class():
    class Model:
        @ftrace.lift
        def value(self, x):
            return x if x > 1 else -x

    assert ftrace.jit(Model().value)(-3.0) == 3.0


def test_views_and_aliases_follow_writes_in_arms():
    def f(x):
        a = np.array([1.0, 2.0, 3.0]) * x
        b, c = a, a[1:]
        if x > 1:
            b[1] = 10.0
        return a[1] + c[0] + b[1]

    assert ftrace.jit(ftrace.lift(f))(2.0) == f(np.float64(2.0)) == 30.0
    assert ftrace.jit(ftrace.lift(f))(0.5) == f(np.float64(0.5)) == 3.0


def test_double_buffers():
    def f(x):
        old, new = np.zeros(3) * x, np.ones(3) * x
        n = 0
        while n < x:
            new[1] = old[0] + n
            old[0] = new[1] + 1
            old, new = new, old
            n += 1
        return (old * np.array([1.0, 2.0, 3.0])).sum() - new.sum()

    for x in (0.0, 1.0, 2.0, 3.0, 4.0):
        assert ftrace.jit(ftrace.lift(f))(x) == f(np.float64(x))


def test_an_alias_made_in_an_arm():
    def f(x):
        a = np.ones(2) * x
        b = np.zeros(2) * x
        if x > 1:
            b = a
        b[0] = 7.0
        return a.sum()

    for x in (0.5, 2.0):
        assert ftrace.jit(ftrace.lift(f))(x) == f(np.float64(x))


def test_an_alias_of_a_double_buffer():
    def f(x):
        old, new = np.zeros(2) * x, np.ones(2) * x
        first = old
        while x > 1:
            new[0] = old[0] + x
            old, new = new, old
            x = x / 2
        old[0] = 7.0
        return first.sum()

    for x in (0.5, 2.0, 5.0):
        assert ftrace.jit(ftrace.lift(f))(x) == f(np.float64(x))
