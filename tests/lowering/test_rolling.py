"""Rolling: repeats of a traced program become loops, and compute the same to the last bit."""

import itertools

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import passes
from ftrace.core.avals import aval
from ftrace.core.check import check_jaxpr
from ftrace.core.jaxpr import Eqn, Var, eval_jaxpr
from ftrace.core.kinds import is_reshape
from ftrace.lowering.planning.pipeline import alive, opened
from ftrace.lowering.rolling import bodies, listing, loop_stacks, repeats, roll, rolled_row, unify
from ftrace.primitives.elementwise import sin
from ftrace.tree import leaves
from tests.lowering.random_loops import RandomLoop

SEEDS = range(14)


def opened_jaxpr(f, *args):
    jaxpr = ftrace.jit(f).lower(*args).jaxpr
    return alive(opened(jaxpr, jaxpr.invars))


def rolled_jaxpr(f, *args, least=4):
    """The unrolled program and the rolled one."""
    plain = opened_jaxpr(f, *args)
    found = roll.roll(plain, least)
    check_jaxpr(found)
    return plain, found


def loops(jaxpr):
    return [e for e in jaxpr.eqns if e.primitive is rolled_row.rolled]


def same_bits(found, wanted):
    return all(
        np.array_equal(a, b, equal_nan=True)
        and np.array_equal(np.signbit(np.real(a)), np.signbit(np.real(b)))
        for a, b in zip(leaves(found), leaves(wanted), strict=True)
    )


def agree(f, *args, least=4):
    """Whether both programs give the same bits, and how many loops were found."""
    plain, found = rolled_jaxpr(f, *args, least=least)
    with np.errstate(all="ignore"):
        pair = [eval_jaxpr(j, leaves(args)) for j in (plain, found)]
    return same_bits(*pair), len(loops(found))


def functions(seed):
    loop = RandomLoop(seed)
    return [(f, loop.x, loop.rows) for f in (loop, ftrace.grad(loop, (0, 1)))]


@pytest.fixture
def eager(monkeypatch):
    """Rolls what would be too short to pay."""
    monkeypatch.setattr(roll, "SAVED", 6)


# ---------------------------------------------------------------------------------- random loops


def test_random_loops_keep_their_bits(eager):
    found = [agree(*case) for seed in SEEDS for case in functions(seed)]
    assert all(same for same, _ in found)
    assert sum(n > 0 for _, n in found) > 0.5 * len(found)


@pytest.mark.parametrize("seed", range(100, 103))
def test_random_loops_keep_their_bits_compiled(seed, eager):
    loop = RandomLoop(seed)
    f = ftrace.value_and_grad(loop, (0, 1))
    with ftrace.config.update(roll=3):
        found = ftrace.jit(f)(loop.x, loop.rows)
    with ftrace.config.update(roll=0):
        wanted = ftrace.jit(f)(loop.x, loop.rows)
    assert same_bits(found, wanted)


def reversed_inits(monkeypatch):
    old = bodies.Body._inits
    monkeypatch.setattr(bodies.Body, "_inits", lambda self: old(self)[::-1])


def windows_backwards(monkeypatch):
    old = loop_stacks.Stacks.window

    def window(self, atoms):
        found, low, high = old(self, atoms)
        if found is not None:
            found = loop_stacks.StackWindow(found.array, found.first, abs(found.step))
        return found, low, high

    monkeypatch.setattr(loop_stacks.Stacks, "window", window)


def numbers_of_the_first(monkeypatch):
    old = bodies.Body._numbers
    monkeypatch.setattr(
        bodies.Body, "_numbers", lambda self, atoms, a: old(self, sorted(atoms, key=str), a)
    )


def delays_forgotten(monkeypatch):
    old = bodies.Body._operand

    def operand(self, x, atom):
        if type(x) is unify.Handed:
            return next(c for c in self.chains if c.result == x.result).registers[0]
        return old(self, x, atom)

    monkeypatch.setattr(bodies.Body, "_operand", operand)


def peeled_too_few(monkeypatch):
    old = loop_stacks.Stacks.window
    monkeypatch.setattr(
        loop_stacks.Stacks, "window", lambda self, atoms: (old(self, atoms)[0], 0, 0)
    )


def left_behind(monkeypatch):
    monkeypatch.setattr(bodies.Body, "_before", lambda self, r: (self.chains or [None])[0])


@pytest.mark.parametrize(
    "fault",
    [
        *(reversed_inits, windows_backwards, numbers_of_the_first, delays_forgotten),
        *(peeled_too_few, left_behind),
    ],
    ids=lambda f: f.__name__,
)
def test_a_planted_fault_is_found(fault, eager, monkeypatch):
    fault(monkeypatch)

    def is_found(case):
        try:
            return not agree(*case)[0]
        except Exception:
            return True

    cases = itertools.chain.from_iterable(map(functions, SEEDS))
    assert any(map(is_found, cases))


# ---------------------------------------------------------------------------------- what is found


def steps(x, n=40):
    for _ in range(n):
        x = np.sin(x) + 0.5 * x
    return x


def nested(x):
    for _ in range(26):
        x = steps(x, 30) * x
    return np.sum(x)


def multistep(x):
    before = -x
    for _ in range(30):
        now = -np.sin(x)
        x, before = x + 0.01 * (1.5 * now - 0.5 * before), now
    return np.sum(x)


def clock(x):
    t = 0.0
    for _ in range(40):
        x = x + 0.01 * np.sin(x + t)
        t += 0.01
    return np.sum(x)


def appended(x):
    out = []
    for _ in range(30):
        x = np.sin(x) + 0.5 * x
        out.append(x)
    return fnp.stack(out)


def elements(x):
    total = 0.0
    for i in range(len(x)):
        total = total + np.sin(x[i]) * x[len(x) - 1 - i]
    return total


def written(x):
    y = x * 1.0
    for i in range(1, len(x)):
        y = fnp.at(y)[i].set(0.9 * y[i - 1] + np.sin(x[i]))
    return y


def layers(x, w):
    for i in range(len(w)):
        x = np.tanh(x @ w[i]) + x * 0.5
    return np.sum(x)


RNG = np.random.default_rng(3)
V = RNG.normal(size=3)
LONG = RNG.normal(size=24)
STACK = RNG.normal(size=(20, 4, 4))

# program, arguments, equations left, at most
FOUND = {
    "a chain": (steps, (V,), 1),
    "its gradient": (ftrace.grad(lambda x: np.sum(steps(x))), (V,), 8),
    "a loop in a loop": (nested, (V,), 2),
    "its gradient backwards": (ftrace.grad(nested), (V,), 30),
    "values of two iterations before": (multistep, (V,), 3),
    "numbers that change": (clock, (V,), 3),
    "a list that is appended to": (appended, (V,), 2),
    "elements, from both ends": (elements, (LONG,), 12),
    "elements that are written": (written, (LONG,), 14),
    "layers of one array": (layers, (V[:2] @ STACK[0, :2], STACK), 3),
    "Python numbers": (lambda x: steps(x) + appended(x)[3], (0.3,), 15),
    "halves": (lambda x: np.sum(steps(x)), (V.astype(np.float16),), 3),
    "complex numbers": (lambda x: steps(x * 1j), (V,), 3),
    "mapped": (ftrace.vmap(elements), (RNG.normal(size=(5, 24)),), 12),
    "checkpoint": (ftrace.grad(ftrace.checkpoint(lambda x: np.sum(steps(x)))), (V,), 12),
}


@pytest.mark.parametrize("name", FOUND)
def test_repeats_become_loops(name):
    f, args, most = FOUND[name]
    plain, found = rolled_jaxpr(f, *args)
    assert len(found.eqns) <= most < len(plain.eqns), found
    assert agree(f, *args)[0]


@pytest.mark.parametrize("name", ["its gradient", "elements, from both ends", "Python numbers"])
def test_loops_compiled(name):
    f, args, _ = FOUND[name]
    with ftrace.config.update(roll=0):
        wanted = ftrace.jit(f)(*args)
    lowered = ftrace.jit(f).lower(*args)
    assert "roll" in lowered.passes
    assert same_bits(ftrace.jit(f)(*args), wanted)


def shaken(x):
    for i in range(60):
        x = [np.sin, np.cos, np.tanh][hash((i, 1)) % 3](x) + x
    return x


def shrinking(x):
    while len(x) > 1:
        x = np.sin(x[1:]) + x[:-1]
    return x


def told(x):
    for _ in range(40):
        x = ftrace.pure_callback(np.sin, x, x) + 0.5 * x
        ftrace.debug.callback(lambda _: None, x)
    return x


LEFT = {
    "no repeats": (shaken, (V,)),
    "shapes that change": (shrinking, (RNG.normal(size=40),)),
    "few iterations": (lambda x: steps(x, 3), (V,)),
    "few equations": (lambda x: steps(x, 12), (V,)),
    "weights in a list": (lambda x, *w: layers(x, w), (V[:1] * np.ones(4), *STACK)),
    "effects": (told, (V,)),
}


@pytest.mark.parametrize("name", LEFT)
def test_programs_that_stay_as_they_are(name):
    f, args = LEFT[name]
    plain = opened_jaxpr(f, *args)
    assert roll.roll(plain, 4) is plain


def test_the_setting_says_how_many_iterations_and_is_part_of_the_key():
    def f(x):
        for _ in range(10):
            x = np.sin(x) + np.cos(x) * np.exp(-x) + 0.5 * x
        return x

    assert [len(loops(rolled_jaxpr(f, V, least=n)[1])) for n in (0, 4, 10, 11)] == [0, 1, 1, 0]
    g = ftrace.jit(f)
    assert "roll" in g.lower(V).passes
    with ftrace.config.update(roll=0):
        assert "roll" not in g.lower(V).passes
        assert same_bits(g(V), ftrace.jit(f)(V))


@pytest.mark.by_name
def test_a_users_pass_sees_each_equation_once():
    """One behind "dce" before loops are made, one behind "roll" their bodies."""
    for after, wanted in (("dce", [40]), ("roll", [0, 1])):
        seen = []

        def count(jaxpr, seen=seen):
            seen.append(sum(e.primitive.name == "sin" for e in jaxpr.eqns))
            return jaxpr

        with passes.inserted(count, after=after):
            ftrace.jit(steps).lower(V).program  # noqa: B018 - planned here
        assert sorted(set(seen)) == wanted


@pytest.mark.by_name
def test_a_pass_that_changes_what_it_sees_is_done_once_compiled():
    with passes.inserted(passes.replacing("sin", lambda x: np.sin(x) * 0.5)):
        found = ftrace.jit(steps)(V)
    wanted = V
    for _ in range(40):
        wanted = np.sin(wanted) * 0.5 + 0.5 * wanted
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_captured_arrays_are_read_at_each_call_compiled():
    weights = LONG.copy()

    @ftrace.jit
    def f(x):
        for i in range(len(weights)):
            x = np.sin(x) * fnp.asarray(weights)[i] + 0.5 * x + weights
        return x

    f(V[0])
    weights[5] = 7.0
    with ftrace.config.update(disable_jit=True):
        wanted = f(V[0])
    np.testing.assert_allclose(f(V[0]), wanted, rtol=1e-13)


def test_programs_without_repeats_are_looked_at_a_few_times(monkeypatch):
    rng = np.random.default_rng(0)

    def f(x):
        values = [x]
        for _ in range(2000):
            a, b = rng.integers(0, len(values), 2)
            values.append(values[a] + values[b])
        return values

    looks = []

    def counted(listing, run):
        found = unify.unify(listing, run)
        looks.append(
            run.period * (run.iterations if isinstance(found, unify.Unified) else found + 1)
        )
        return found

    monkeypatch.setattr(roll, "unify", counted)
    jaxpr = ftrace.make_jaxpr(f)(V)
    assert len(roll.roll(jaxpr, 4).eqns) > 1900  # nothing to find
    assert sum(looks) < (roll.BUDGET + 2) * len(jaxpr.eqns)


def test_multiples_of_a_period_whose_run_was_taken_are_not_looked_at(monkeypatch):
    cuts = []
    cut = repeats.Stretch.cut
    monkeypatch.setattr(
        repeats.Stretch, "cut", lambda s, listing: (cuts.append(s), cut(s, listing))[1]
    )
    _, found = rolled_jaxpr(lambda x: steps(x, 300), V)
    assert len(found.eqns) == 1
    assert [s.period for s in cuts] == [3]


def test_bodies_read_elements_where_they_lie():
    _, found = rolled_jaxpr(layers, V[:2] @ STACK[0, :2], STACK)
    (loop,) = loops(found)
    assert not any(map(is_reshape, loop.params["body"].eqns))


def test_numbers_that_are_equal_and_mean_different_things():
    numbers = (0.0, -0.0, np.nan, 1.0, np.float64(-0.0), np.float64(np.nan))

    def f(x):
        out = []
        for i in range(60):
            x = x * numbers[i % 6] + 1.0
            out.append(x * numbers[(i * 5) % 6])
        return fnp.stack(out)

    same, found = agree(f, V)
    assert same
    assert found


def test_names_tell_equal_params_of_other_types_apart():
    values = (1, True, 1.0, (1, 1), (1, True), (1.0, 1.0), 0.0, -0.0, "1", None)
    rows = [Eqn(sin, [Var(aval((), np.dtype(float)))], {"k": v}, [], None) for v in values]
    names = [name for name, _ in listing.Naming().of([*rows, *rows])]
    assert len({*names[: len(values)]}) == len(values)
    assert names[: len(values)] == names[len(values) :]


def test_few_iterations_over_long_arrays_stay_one_kernel():
    """A loop would write and read the arrays in each iteration; registers do not."""

    def recurrence(x):
        s = 0.0
        for i in range(len(x) - 1):
            s = s * x[i] + np.sin(x[i + 1]) * x[i]
        return s

    mapped = ftrace.vmap(ftrace.jacfwd(recurrence))
    _, long = rolled_jaxpr(mapped, np.ones((20_000, 8)))
    assert not loops(long)
    _, short = rolled_jaxpr(mapped, np.ones((20, 8)))
    assert loops(short)

    def many(x):
        for _ in range(200):
            x = np.sin(x) + 0.5 * x
        return x

    assert loops(rolled_jaxpr(many, np.ones(20_000))[1]), "so many compile for seconds"


# ---------------------------------------------------------------------------------- what is told


def test_the_lowering_tells_which_repeats_are_loops_and_why_others_are_not():
    (line,) = ftrace.jit(steps).lower(V).rolled
    assert line.endswith("40 iterations of 3 equations became a loop")
    assert "test_rolling.py" in line
    f, args = LEFT["weights in a list"]
    (line,) = ftrace.jit(f).lower(*args).rolled
    assert "stay as they are: arrays of 2560 bytes would be copied" in line
    assert ftrace.jit(np.sin).lower(V).rolled == ()


def test_compilations_are_logged_with_their_reasons_compiled(caplog):
    f = ftrace.jit(steps)
    with ftrace.config.update(log_compiles=True):
        for x in (V, V, V[:2]):
            f(x)
        with ftrace.config.update(roll=0):
            f(V[:2])
    first, second, third = (r.getMessage() for r in caplog.records)
    assert first.startswith("compiled steps: 120 equations (its first call), in ")
    assert "40 iterations of 3 equations became a loop" in first
    assert "([f64[2]] after [f64[3]])" in second
    assert "(other settings or another device)" in third
    assert "became a loop" not in third


def test_a_long_compilation_says_so_on_a_terminal_only_compiled(monkeypatch, capsys):
    monkeypatch.setattr("ftrace.lowering.program.compilations.LONG", 0.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    ftrace.jit(lambda x: steps(x) + 1.25)(V)
    assert "ftrace: compiling <lambda>: 121 equations: " in capsys.readouterr().err
    with ftrace.config.update(progress=False):
        ftrace.jit(lambda x: steps(x) + 1.5)(V)
    monkeypatch.setattr("sys.stderr.isatty", lambda: False, raising=False)
    ftrace.jit(lambda x: steps(x) + 1.75)(V)
    assert capsys.readouterr().err == ""


def sandpile(n, steps):
    def f(x):
        g = x.copy()
        for _ in range(steps):
            for i in range(n):
                for j in range(n):
                    if g[i, j] >= 4:
                        g[i, j] -= 4
                        for k, m in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)):
                            if 0 <= k < n and 0 <= m < n:
                                g[k, m] += 1
        return g

    return f


def test_a_period_that_repeats_within_itself_is_found():
    """Sites of a grid are alike in places, in no regular order; the sweeps over it are alike."""
    x = np.random.default_rng(5).uniform(0, 6, size=(4, 4))
    f = sandpile(4, 6)
    plain, found = rolled_jaxpr(f, x)
    (loop,) = loops(found)
    assert loop.params["loop"].length == 6
    np.testing.assert_array_equal(ftrace.jit(f)(x), f(x))
    assert 5 * len(found.eqns) < len(plain.eqns)


# ---------------------------------------------------------------------------------- index errors


def raised(f, *args):
    """What an index error says, line and all; None without one."""
    try:
        ftrace.jit(lambda *xs: f(*xs))(*args)
    except IndexError as error:
        return str(error)
    return None


def one_element_again_and_again(x, k):
    return [x[k[3]] * 2.0 for _ in range(60)]


def alike_in_two_lines(x, k):
    s = x[0]
    for i in range(30):
        s = s * 0.5 + x[k[2 * i]]
        s = s * 0.5 + x[k[2 * i + 1]]
    return s


@pytest.mark.parametrize(
    ("f", "number"),
    [(one_element_again_and_again, 3), (alike_in_two_lines, 32), (alike_in_two_lines, 33)],
)
def test_loops_raise_what_their_iterations_did_compiled(f, number, eager):
    x, k = np.arange(40) / 7.0, np.arange(60) % 40
    assert len(loops(rolled_jaxpr(f, x, k)[1])) == 1
    assert raised(f, x, k) is None
    k[number] = 77
    with ftrace.config.update(roll=0):
        wanted = raised(f, x, k)
    assert wanted is not None
    assert raised(f, x, k) == wanted
