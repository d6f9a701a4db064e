"""What lifted code is staged to: no flag, no carry and no equation that is not needed."""

from typing import Any

import numpy as np

import ftrace


def staged(f: Any, *args: Any) -> list[Any]:
    """The equations of a lifted function."""
    return list(ftrace.make_jaxpr(ftrace.lift(f))(*args).eqns)


def names(eqns: Any) -> list[str]:
    return [e.primitive.name for e in eqns]


def the(name: str, eqns: Any) -> Any:
    (found,) = [e for e in eqns if e.primitive.name == name]
    return found


def test_a_loop_carries_what_changes_and_is_read():
    def f(x, y):
        unused = 0.0
        limit = y * 2
        n = 0
        while x > limit:
            t = x * 0.5
            unused = unused + 1
            x = t
            n += 1
        return x * y

    loop = the("while", staged(f, 5.0, 1.0))
    assert loop.params["n_consts"] == 1
    assert len(loop.outvars) == 1
    assert names(loop.params["cond"].eqns) == ["gt"]


def test_a_loop_without_a_break_has_no_flag():
    def f(x):
        while x > 1:
            x = x / 2
        return x

    eqns = staged(f, 5.0)
    assert names(eqns) == ["while"]
    loop = eqns[0]
    assert names(loop.params["body"].eqns) == ["div"]
    assert [v.aval.dtype.kind for v in loop.outvars] == ["f"]


def test_a_break_adds_one_flag():
    def f(x):
        while True:
            x = x / 2
            if x < 1:
                break
        return x

    loop = the("while", staged(f, 5.0))
    assert [v.aval.dtype.kind for v in loop.outvars] == ["f", "b"]
    assert loop.params["cond"].eqns == ()


def test_a_first_turn_that_python_decides_is_not_peeled():
    def f(x):
        error = 1.0
        while error > 1e-3:
            new = 0.5 * (x + 2 / x)
            error = abs(new - x)
            x = new
        return x

    assert names(staged(f, 5.0)) == ["while", "raise_where"]  # of 2 / x


def test_an_arm_gives_only_what_is_read():
    def f(x):
        y = z = x
        if x > 1:
            y = x * x
            z = x * 3
        else:
            z = x
        return y

    chosen = the("cond", staged(f, 2.0))
    assert len(chosen.outvars) == 1
    assert len(chosen.invars) == 2


def test_returns_need_no_flag():
    def f(x):
        if x > 5:
            return x
        if x > 1:
            return x * x
        return -x

    chosen = the("cond", staged(f, 2.0))
    assert len(chosen.outvars) == 1
    inner = [e for b in chosen.params["branches"] for e in b.eqns if e.primitive.name == "cond"]
    assert [len(e.outvars) for e in inner] == [1]


def test_cheap_conjunctions_are_logical():
    def f(x):
        if 0 < x < 2 or not x > -1:
            return x
        return -x

    eqns = staged(f, 1.0)
    assert names(eqns).count("cond") == 1
    assert "and" in names(eqns)
    assert "or" in names(eqns)


def test_an_unchanged_array_is_no_result():
    def f(x):
        table = np.arange(5.0) * x
        s = 0.0
        while s < x:
            s = s + table[1]
        return s + table[2]

    loop = the("while", staged(f, 3.0))
    assert [v.aval.shape for v in loop.outvars] == [()]


def test_python_numbers_stay_weak():
    def f(x):
        n = 0
        while n < x:
            n += 1
        return x * n + (2 if x > 1 else 3)

    assert ftrace.jit(ftrace.lift(f))(np.float32(2.5)).dtype == np.float32


def test_code_is_staged_for_every_level_once():
    def f(x):
        if x > 0:
            if x > 1:
                if x > 2:
                    x = x * 2
                x = x + 1
            x = x - 3
        return x

    assert names(staged(f, 2.0)).count("cond") == 1
    assert str(ftrace.make_jaxpr(ftrace.lift(f))(2.0)).count("mul") == 1


def test_what_follows_two_mixed_returns_is_staged_once():
    def f(x):
        y = x
        if x > 0:
            if x > 5:
                return y * y
            y = y + 2
        else:
            if x < -5:
                return -y
            y = y - 3
        return np.sin(y)

    assert str(ftrace.make_jaxpr(ftrace.lift(f))(2.0)).count("sin") == 1


def test_a_number_that_a_loop_carries_as_another_type_is_converted_once():
    def f(x):
        k = 0
        while k < x:
            k = k + 0.5
        return k

    assert "convert_element_type" not in str(ftrace.make_jaxpr(ftrace.lift(f))(2.0))
