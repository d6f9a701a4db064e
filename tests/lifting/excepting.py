"""Programs that catch the errors that values decide about, for test_raising.py."""

import math
from inspect import isfunction

import numpy as np

from ftrace import grad, jit, vectorize, vmap
from tests.lifting.raised import RejectedError, helper


def a_raise_of_its_own(x):
    try:
        if x > 1:
            raise ValueError("no")
        return x
    except ValueError:
        return -x


def a_function_that_raises(x):
    try:
        return math.log(x)
    except ValueError:
        return 0.0


def what_was_bound_before(x):
    y = 5.0
    try:
        z = x + 1
        y = math.sqrt(z)
        z = 7.0
    except ValueError:
        pass
    return y + z


def a_name_bound_before_the_raise(x):
    y = 1.0
    try:
        if x > 1:
            y = 2.0
            raise KeyError("k")
        y = 3.0
    except KeyError:
        y = y + 10
    return y


def several_handlers(x):
    try:
        a = [1.0, 2.0, 3.0][int(x)]
        return a + math.log(x - 1)
    except IndexError:
        return -1.0
    except (KeyError, ValueError):
        return -2.0


def a_base_class(x):
    try:
        if x > 10:
            raise RejectedError("large")
        if x < -5:
            raise IndexError("small")
        y = x
    except ValueError:
        y = 1.0
    except LookupError:
        y = 2.0
    return y * 2


def a_bare_handler(x):
    try:
        y = math.acos(x)
    except:  # noqa: E722
        y = 9.0
    return y


def an_else(x):
    try:
        y = math.sqrt(x)
    except ValueError:
        y = -1.0
    else:
        y = y * 10
        if y > 20:
            y = y + 100
    return y


def a_finally(x):
    n = 0.0
    try:
        n = n + 1
        y = math.sqrt(x)
        n = n + 10
    except ValueError:
        y = x
        n = n + 100
    finally:
        n = n * 2
    return y + n


def nested(x):
    try:
        try:
            y = math.log(x)
        except KeyError:
            y = 100.0
        y = y + math.sqrt(5 - x)
    except ValueError:
        y = -50.0
    return y


def caught_inside_and_outside(x):
    try:
        try:
            if x > 10:
                raise KeyError
            y = math.sqrt(x)
        except KeyError:
            y = 1.0
            if x > 30:
                raise ValueError("again") from None
        y = y + 1
    except ValueError as error:
        y = -3.0
    return y


def raised_again(x):
    try:
        try:
            return math.sqrt(x + 3)
        except ValueError:
            if x < -10:
                raise
            return -1.0
    except ValueError:
        return -2.0


def raised_again_after_a_handler_in_the_handler(x):
    try:
        if x > 1:
            raise ValueError("outer")
    except ValueError:
        try:
            if x > 2:
                raise KeyError("inner")
        except KeyError:
            pass
        raise
    return x


def not_caught(x):
    try:
        if x > 10:
            raise RuntimeError("not caught")
        y = math.sqrt(x)
    except ValueError:
        y = 0.0
    return y


def by_a_helper(x):
    total = 0.0
    for limit in (30.0, 5.0, 1.0):
        try:
            total = total + helper(x, limit)
        except ValueError:
            total = total + 100
    return total


def writes(a, x):
    a[0] = a[0] + 1
    v = math.log(x)
    a[1] = v
    if x > 5:
        raise RejectedError("after a write")
    a[2] = v * 2


def a_helper_that_writes(x):
    a = np.zeros(3)
    try:
        writes(a, x)
    except ValueError:
        a[2] = -1.0
    return a[0] + 10 * a[1] + 100 * a[2]


def in_a_loop(x):
    n = 0
    total = 0.0
    while n < 6:
        n += 1
        try:
            total = total + math.sqrt(x - n)
        except ValueError:
            continue
        if total > 5:
            break
    return total + n


def around_a_loop(x):
    n = 0
    try:
        while True:
            n += 1
            x = x - math.log(x)
            if n > 8:
                return x
    except ValueError:
        return x - n


def a_loop_in_it_that_python_runs(x):
    total = 0.0
    k = -1
    try:
        for k in range(4):
            total = total + [1.0, 2.0, 4.0][int(x) + k - 1]
    except IndexError:
        total = -total
    return total + k


def in_a_decision(x):
    if x > 0:
        try:
            y = math.acos(x)
        except ValueError:
            y = x * 100
    else:
        y = x
    return y


def a_division(x):
    n = int(x)
    try:
        y = 7 // n
        y = y + 6 % (n - 3)
    except ZeroDivisionError:
        y = -1
    return y


def divided_in_place(x):
    n = int(x)
    y = 12
    try:
        y -= 1
        y //= n
        y += 100
    except ArithmeticError:
        y = y + 1000
    return y


def an_assertion(x):
    try:
        assert x > 0, "positive"
        assert math.log(x) < 2
        return x
    except AssertionError:
        return -1.0


def a_test(x):
    try:
        if math.sqrt(x) > 2:
            y = 1.0
        elif math.sqrt(x - 1) > 1:
            y = 2.0
        else:
            y = 3.0
    except ValueError:
        y = 4.0
    return y


def the_test_of_a_loop(x):
    n = 0
    try:
        while math.log(x - n) < 10:
            n += 1
    except ValueError:
        n = n + 100
    return n


def a_conditional_expression(x):
    try:
        y = math.log(x) if x > -5 else x
        y = y + (1.0 if x > 0 and math.sqrt(x - 1) > 1 else 2.0)
    except ValueError:
        y = -9.0
    return y


def a_return_under_a_decision(x):
    try:
        if x > 2:
            return x * 2
        y = math.sqrt(x)
    except ValueError:
        return -1.0
    return y


def a_dict(x):
    try:
        return {2: 1.0, 7: 2.0}[int(x)]
    except KeyError:
        return 0.5


def an_error_that_is_read(x):
    try:
        if x > 2:
            raise ValueError(3.0, "known")
        return x
    except ValueError as error:
        return x + error.args[0]


def a_nested_function(x):
    n = 0.0

    def count():
        nonlocal n
        n = n + 1
        return math.sqrt(x)

    try:
        y = count()
        n = n + 10
    except ValueError:
        y = 0.5
    return y + n


def writes_before_the_error(x):
    a = np.zeros(3)
    try:
        a[0] = 1.0
        a[1] = math.sqrt(x)
        a[2] = 5.0
    except ValueError:
        a[0] += 10
    return a.sum() + a[0] * 100


def a_finally_inside(x):
    try:
        try:
            y = math.sqrt(x)
        finally:
            z = 3.0
    except ValueError:
        return -z
    return y + z


def safe(x):
    try:
        return math.log(x)
    except ValueError:
        return -7.0


def a_helper_that_catches(x):
    return safe(x) * 2 + safe(x - 1)


def an_error_of_pythons_in_an_arm(x):
    y = 0.0
    try:
        y = 1 / 0 if x > 10 else 2.0
        if x > 1:
            y = {"a": 1.0}["b"]
    except ZeroDivisionError:
        y = 5.0
    except KeyError:
        y = y * 10
    return y


def an_else_of_a_loop(x):
    k = 0
    for i in range(5):
        try:
            math.sqrt(x - i)
        except ValueError:
            break
        k += 1
    else:
        k += 50
    return k


class SpecialError(RejectedError):
    pass


def a_class_and_its_base(x):
    try:
        if x > 3:
            raise SpecialError("a")
        if x > 1:
            raise RejectedError("b")
    except SpecialError:
        return 2.0
    except RejectedError:
        return 1.0
    else:
        return 0.0


def of_a_mapped_function(x):
    try:
        return vmap(lambda z: math.sqrt(z))(np.stack([x, x + 1])).sum()
    except ValueError:
        return -1.0


def of_compiled_functions(x):
    try:
        y = jit(lambda z: math.sqrt(z) + 1)(x)
        y = y + vectorize(lambda z: math.sqrt(z - 1))(x)
    except ValueError:
        y = -1.0
    return y


def of_a_derivative(x):
    try:
        return grad(lambda z: math.log(z) * z)(x)
    except ValueError:
        return -1.0


def all_parts(x):
    if x > 1:
        try:
            if x > 3:
                raise ValueError
            r = 1.0
        except ValueError:
            r = 2.0
        else:
            r += 10
        finally:
            r *= 3
    else:
        r = 0.0
    return r


def bound_before_it_breaks(x):
    while True:
        try:
            z = math.log(x)
            break
        except ValueError:
            x += 4.5
    return z


def bound_before_it_breaks_in_else(x):
    n = 0
    while True:
        n += 1
        try:
            z = math.log(x)
            w = z * n
        except ValueError:
            x += 4.5
        else:
            break
        finally:
            n += 2
    return z + w


def tried_for_some_turns(x):
    for k in range(9):
        try:
            z = math.log(x) * k
            break
        except ValueError:
            x += 4.5
    else:
        z = -1.0
    return z


def bound_in_an_inner_try(x):
    while True:
        try:
            try:
                z = math.log(x)
                break
            except ZeroDivisionError:
                z = 5.0
        except ValueError:
            x += 4.5
    return z


def bound_in_a_case(x):
    while True:
        match x:
            case v if v > 0:
                z = v * 2
                break
            case _:
                x += 4.5
    return z


PROGRAMS = [f for f in list(globals().values()) if isfunction(f) and f.__module__ == __name__]
PROGRAMS.remove(writes)
