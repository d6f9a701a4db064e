"""A later call says what the function says now: what it read from outside may have changed.

A program is text: what stands outside, the function's body, a change. After the change the jitted
function and the plain one must agree; without one, nothing is traced again. Where the change is a
write into arrays that are operands, it must cost no trace either: so training in place does.
"""

import functools
import types

import numpy as np
import pytest

import ftrace
from ftrace.control import guards
from ftrace.control.freshness import calling
from ftrace.control.freshness.values import Held
from ftrace.control.guards import Watch
from ftrace.control.traces import counter
from ftrace.core.errors import MutationError

X = 1.5
V = np.array([1.0, 2.0, 3.0])


def traces_of(call):
    before = counter.count
    result = call()
    return result, counter.count - before


def check(jitted, plain, change, x=X, again=None):
    """Compare before and after a change; `again`: whether the change must cost a trace."""
    np.testing.assert_allclose(jitted(x), plain(x))
    jitted(x)  # what the first trace itself changed is known by now
    assert traces_of(lambda: jitted(x))[1] == 0
    change()
    result, traces = traces_of(lambda: jitted(x))
    np.testing.assert_allclose(result, plain(x))
    assert again is None or bool(traces) == again


def check_text(outside, body, change, x=X, again=None):
    scope = {"np": np, "ftrace": ftrace, "functools": functools, "Model": Model, "types": types}
    exec(outside, scope)
    lines = "\n    ".join(body.split("\n"))
    exec(f"def f(x):\n    {lines}", scope)
    check(ftrace.jit(scope["f"]), scope["f"], lambda: exec(change, scope), x, again)


class Model:
    """An object with numbers, another object, arrays and methods."""

    def __init__(self):
        self.w = 2.0
        self.p = types.SimpleNamespace(w=3.0)
        self.K = np.array([1.0, 2.0, 3.0])
        self.W = np.ones((3, 3))
        self.layers = [(np.ones((3, 3)), np.ones(3)), (np.ones((3, 3)), np.ones(3))]

    def loss(self, x):
        return x * self.w

    def call(self, x):
        return self.loss(x) + 1

    def __call__(self, x):
        return self.helper(x)

    def helper(self, x):
        return x * self.p.w


# ---------------------------------------------------------------------------------- contents

# what a function does with a captured array K, and whether Python reads its content there
CONTENTS = [
    ("return x*K[0]", True),
    ("return x*K.sum()", True),
    ("return x*(K*2)", True),
    ("return x*np.sqrt(K)", True),
    ("return x*(K@K)", True),
    ("if K[0]>3: return x*2\nreturn x*5", True),
    ("s=0.\nfor k in K: s = s + x*k\nreturn s", True),
    ("return x*K", False),
    ("return np.dot(K,K*x)", False),
    ("return x+K[:1]", False),
    ("return x*K[[0,1]]", True),
    ("y=0.\nfor v in (2., x): y = y + (K*v).sum()\nreturn y", True),
    ("return (K.reshape(-1,1)*x)", False),
    ("return np.stack([x*K,K])", False),
    ("return [k for k in K][0]*x", True),
    ("return sum(K)*x", True),
    ("return x*float(K[0])", True),
    ("return x*len(K)", False),
    ("return x*K.shape[0]", False),
    ("return x*np.sin(K).sum()", True),
    ("def g(a): return a*2\nreturn g(K).sum()*x", True),
    ("h=lambda a,b: a*b\nreturn (h(K,2.)).sum()*x + h(K,x)", True),
    ("L=[K,K]\nreturn x*L[0].max()", True),
    ("return x*dict(a=K)['a'][1]", True),
    ("a,b,c=K\nreturn a*x+b", True),
    ("return x*K.T", False),
    ("return x if (K>0).all() else -x", True),
    ("return x*max(K)", True),
    ("return f'{K[0]}'.count('5')*x+0*K[0]", True),
    ("k=K\nk2=k[1:]\nreturn k2*x", False),
    ("return (x+K).sum()-K.mean()", True),
]


@pytest.mark.parametrize(("body", "reads"), CONTENTS, ids=range(len(CONTENTS)))
def test_what_python_reads_of_a_captured_array_is_seen_and_operands_cost_no_trace(body, reads):
    check_text("K = np.array([2.0, 3.0, 4.0])", body, "K[...] = [9.0, 7.0, 5.0]", again=reads)


TRAINING = [
    ("W = [np.ones((3, 3)), np.ones((3, 3))]", "for w in W: x = np.tanh(x @ w)\nreturn x", "W[1]"),
    (
        "P = {'w': np.ones((3, 3)), 'b': np.ones(3)}",
        "return ftrace.grad(lambda v: np.sum(np.tanh(np.dot(v, P['w']) + P['b'])))(x)",
        "P['w']",
    ),
    (
        "m = Model()",
        "for w, b in m.layers: x = np.maximum(x @ w.T + b, 0)\nreturn x",
        "m.layers[0][0]",
    ),
    (
        "m = Model()",
        "if x[0] > 0:\n    for w, b in m.layers: x = np.maximum(x @ w.T + b, 0)\nreturn x",
        "m.layers[0][0]",
    ),
    ("W = np.ones((3, 3))", "return ftrace.vmap(lambda r: r * x @ W)(np.eye(3))", "W"),
    ("W = np.ones((3, 3)); h = ftrace.jit(lambda x: x @ W); h(np.ones(3))", "return h(x) * 2", "W"),
    (
        "W = np.ones((3, 3))\ndef loss(w, x): return np.sum(x @ w)",
        "return ftrace.grad(loss)(W, x)",
        "W",
    ),
    ("m = Model()", "return ftrace.lax.scan(lambda c, t: (c @ m.W + t, c), x, m.K)[0]", "m.W"),
]


@pytest.mark.parametrize(("outside", "body", "weights"), TRAINING, ids=range(len(TRAINING)))
def test_training_in_place_costs_no_trace(outside, body, weights):
    check_text(outside, body, f"{weights}[...] -= 0.3", V, again=False)


# ---------------------------------------------------------------------------------- what is read

READS = [
    # attributes, items, containers
    ("m = Model()", "q = m.p\nreturn x * q.w", "m.p.w = 7.0"),
    ("m = Model()", "return x * getattr(m.p, 'w')", "m.p.w = 7.0"),
    ("m = Model(); n = 'w'", "return x * getattr(m.p, n)", "m.p.w = 7.0"),
    ("m = Model()", "return x * m.extra if hasattr(m, 'extra') else x", "m.extra = 3.0"),
    ("d = {'a': 2.0}; k = 'a'", "return x * d[k]", "d['a'] = 7.0"),
    ("d = {'a': 2.0}", "return x * d.get('a')", "d['a'] = 7.0"),
    ("d = {}", "return x * d.get('a', 1.0)", "d['a'] = 7.0"),
    ("d = {}", "return x * 2 if 'a' in d else x", "d['a'] = 7.0"),
    ("L = [1.0, 2.0]", "s = 0.0\nfor k in L: s = s + x * k\nreturn s", "L.append(4.0)"),
    ("L = [1.0, 2.0]", "return x * sum(L)", "L[0] = 9.0"),
    ("L = [1.0, 2.0]", "return x * len(L)", "L.append(4.0)"),
    ("L = [1.0, 2.0]", "a, b = L\nreturn x * a + b", "L[0] = 9.0"),
    (
        "L = [0.0]",
        "return x * (1 if L[0] == 0 else 2) / (1 if str(L[0]) == '0.0' else 4)",
        "L[0] = -0.0",
    ),
    ("L = [1]", "return x * len(str(L[0]))", "L[0] = 1.0"),
    ("L = [Model(), Model()]", "return sum(m.loss(x) for m in L)", "L[1].w = 5.0"),
    ("L = [Model(), Model()]", "return sum([m.w * x for m in L])", "L[1].w = 5.0"),
    ("L = [Model(), Model()]", "return sum(map(lambda m: m.w * x, L))", "L[1].w = 5.0"),
    (
        "L = [Model(), Model()]; c = [1.0, 2.0]",
        "s = 0.0\nfor i, (m, k) in enumerate(zip(L, c)): s = s + m.loss(x) * k + i\nreturn s",
        "L[1].w = 5.0",
    ),
    (
        "D = {'a': Model()}",
        "s = 0.0\nfor k, m in D.items(): s = s + m.w * x\nreturn s",
        "D['a'].w = 5.0",
    ),
    ("m = Model()", "return x * m.K[0]", "m.K[0] = 9.0"),
    ("m = Model()", "if x > 2: return x * m.w\nreturn x * m.K[0]", "m.K[0] = 9.0"),
    (
        "m = Model()",
        "return ftrace.lax.fori_loop(0, 3, lambda i, c: c * m.K[0], x)",
        "m.K[0] = 9.0",
    ),
    (
        "P = {'a': np.ones(3), 'b': np.ones(3)}",
        "return sum(v.sum() for v in ftrace.tree_util.tree_leaves("
        "ftrace.tree_util.tree_map(lambda p: p * x, P)))",
        "P['b'] = np.full(3, 5.0)",
    ),
    # functions
    ("def h(x): return x * 2", "return h(x)", "def h(x): return x * 3"),
    ("def h(x): return x * 2\ndef g(x): return x * 3", "return h(x)", "h.__code__ = g.__code__"),
    ("D = {'h': lambda x: x * 2}", "return D['h'](x)", "D['h'] = lambda x: x * 3"),
    ("k = 2.0\ndef h(x): return x * k\nD = {'h': h}", "return D['h'](x)", "k = 9.0"),
    (
        "k = 2.0\ndef h(a, x): return x * k * a\nP = functools.partial(h, 3.0)",
        "return P(x)",
        "k = 9.0",
    ),
    ("def h(x, k=2.0): return x * k", "return h(x)", "h.__defaults__ = (5.0,)"),
    ("def h(x, *, k=2.0): return x * k", "return h(x)", "h.__kwdefaults__['k'] = 5.0"),
    ("def h(x, *, k=2.0): return x * k", "return h(x)", "h.__kwdefaults__ = {'k': 5.0}"),
    ("k = 2.0", "def h(y): return y * k\nreturn h(x)", "k = 3.0"),
    (
        "import math as lib",
        "return x * lib.pi",
        "import cmath; lib = types.SimpleNamespace(pi=3.0)",
    ),
    # classes
    ("class A:\n    w = 2.0\na = A()", "return x * a.w", "A.w = 9.0"),
    ("class A:\n    w = 2.0\na = A()", "return x * a.w", "a.w = 9.0"),
    (
        "class A:\n    w = 2.0\n    @classmethod\n    def go(c, x): return x * c.w",
        "return A.go(x)",
        "A.w = 9.0",
    ),
    (
        "class A:\n    @staticmethod\n    def go(x): return x * k\nk = 2.0",
        "return A().go(x)",
        "k = 9.0",
    ),
    ("class A:\n    __slots__ = ('w',)\na = A(); a.w = 2.0", "return x * a.w", "a.w = 9.0"),
    (
        "class A:\n    @property\n    def v(s): return s.w\na = A(); a.w = 2.0",
        "return x * a.v",
        "a.w = 9.0",
    ),
    (
        "class B(Model):\n    def loss(s, x): return super().loss(x) + 1\nb = B()",
        "return b.call(x)",
        "b.w = 9.0",
    ),
    (
        "class H:\n    def __init__(s, m): s.m = m\n    def run(s, x): return x * s.m.w\n"
        "m = Model()",
        "return H(m).run(x)",
        "m.w = 9.0",
    ),
    (
        "class V:\n    w = 2.0\n    def __mul__(s, o): return o * s.w\n"
        "    def __len__(s): return int(s.w)\n"
        "    def __getitem__(s, i): return s.w * i\n    def __iter__(s): yield s.w\nv = V()",
        "return v * x + v[2] * x + len(v) * x + sum(k for k in v)",
        "v.w = 9.0",
    ),
    (
        "class D:\n    def __getattr__(s, n): return s.__dict__['t'][n]\nd = D(); d.t = {'w': 2.0}",
        "return x * d.w",
        "d.t['w'] = 9.0",
    ),
    # written by the function itself
    (
        "m = Model(); m.first = True",
        "if m.first:\n    m.first = False\n    return x * m.w\nreturn x * m.p.w",
        "m.p.w = 9.0",
    ),
    (
        "m = Model(); m.on = False",
        "m.on = True\ntry:\n    return x * m.w if m.on else x\nfinally:\n    m.on = False",
        "m.w = 9.0",
    ),
    # keys that are no text, copies of dicts, keys that are put together
    ("class K:\n    pass\nkey = K()\nd = {key: 2.0}", "return x*d[key]", "d[key] = 3.0"),
    ("d = {(1, 'a'): 2.0}", "return x*d[1, 'a']", "d[1, 'a'] = 3.0"),
    ("d = {'a': 2.0}", "e = dict(d)\nreturn x*e['a']", "d['a'] = 3.0"),
    ("m = Model()", "e = dict(a=m)\nreturn x*e['a'].w", "m.w = 3.0"),
    ("m = Model()\nd = {'a': m}", "e = dict(d)\nreturn x*e['a'].w", "m.w = 3.0"),
    ("m = Model()\nd = {'a': [m]}", "e = dict(d)\nreturn x*[y for y in e['a']][0].w", "m.w = 3.0"),
    ("d = {'a1': 2.0}\nn = 1", "return x*d[f'a{n}']", "d['a1'] = 3.0"),
    ("d = {'a1': 2.0, 'a2': 5.0}\nn = 1", "return x*d[f'a{n}']", "n = 2"),
    ("d = {'a01': 2.0, 'a02': 5.0}\nn = 1", "return x*d[f'a{n:02d}']", "n = 2"),
]


@pytest.mark.parametrize(("outside", "body", "change"), READS, ids=range(len(READS)))
def test_a_change_of_what_a_function_reads_is_seen(outside, body, change):
    if "m.first" in body:  # the second call says something else than the first
        outside += "\nm.first = False"
    check_text(outside, body, change)


# what costs no trace: it is not read, or only to be written, or is the same again
UNREAD = [
    ("m = Model(); m.use = False; m.n = 0", "if m.use: return x * m.n\nreturn x", "m.n = 1"),
    ("d = {'a': 1.0, 'step': 0}", "return x * d['a']", "d['step'] = 1"),
    ("m = Model(); m.calls = 0", "m.calls += 1\nreturn x", "m.calls = 9"),
    ("log = []", "log.append(len(log))\nreturn x", "pass"),
    ("s = float('nan')", "return x if s != s else -x", "s = float('nan')"),
    ("s = 1234.5", "return x * s", "s = float('1234.5')"),
    (
        "m = Model(); s = [m, 1234.5]",
        "a, b = [y for y in s]\nreturn x * a.w * b",
        "s[1] = float('1234.5')",
    ),
    ("K = np.array([np.nan, 1.0])", "return x * K[1]", "K[0] = np.nan"),
]


@pytest.mark.parametrize(("outside", "body", "change"), UNREAD, ids=range(len(UNREAD)))
def test_what_a_call_does_not_read_costs_no_trace(outside, body, change):
    check_text(outside, body, change, again=False)


CALLABLES = {
    "a bound method": lambda m: m.call,
    "an object": lambda m: m,
    "a partial": lambda m: functools.partial(lambda o, x: o.call(x) * o.p.w, m),
    "a gradient of a method": lambda m: ftrace.grad(m.call),
    "a function that calls a method": lambda m: lambda x: m.call(x) * m.p.w,
}


@pytest.mark.parametrize("name", CALLABLES)
@pytest.mark.parametrize("path", ["w", "p"])
def test_the_state_of_objects_is_seen(name, path):
    m = Model()
    f = CALLABLES[name](m)
    if path == "w":
        check(ftrace.jit(f), f, lambda: setattr(m, "w", m.w - 0.5))
    else:
        check(ftrace.jit(f), f, lambda: setattr(m.p, "w", 7.0))


def custom(kind, f):
    if kind == "custom_jvp":
        g = ftrace.custom_jvp(f)
        g.defjvp(lambda p, t: (f(*p), t[0]))
        return g
    if kind == "custom_vjp":
        g = ftrace.custom_vjp(f)
        g.defvjp(lambda x: (f(x), None), lambda r, ct: (ct,))
        return g
    if kind == "custom_rule":
        return ftrace.custom_rule(f, jvp=lambda p, t: (f(*p), t[0]))
    if kind == "custom_vmap":
        g = ftrace.custom_vmap(f)
        g.def_vmap(lambda n, b, x: (f(x), True))
        return g
    return getattr(ftrace, kind)(f)


@pytest.mark.parametrize(
    "kind",
    [
        *("custom_jvp", "custom_vjp", "custom_rule", "custom_vmap", "checkpoint", "vectorize"),
        *("vmap", "lift", "jit", "elementwise_partials"),
    ],
)
@pytest.mark.parametrize("outer", [ftrace.jit, ftrace.vectorize])
def test_wrappers_see_what_the_function_inside_reads(kind, outer):
    s = 2.0

    def f(x):
        return x * s

    def change():
        nonlocal s
        s = 7.0

    if outer is ftrace.vectorize:
        if kind in ("checkpoint", "vmap", "custom_vmap"):
            pytest.skip("of arrays")
        if kind not in ("vectorize", "elementwise_partials"):
            return check(ftrace.vectorize(f), f, change, V)
    g = custom(kind, f)
    if kind == "elementwise_partials":
        return check(lambda x: g(x)[0], f, change, V)
    return check(ftrace.jit(lambda x: g(x) + 1), lambda x: f(x) + 1, change, V)


def test_a_property_that_raises_on_a_path_not_taken_is_no_matter():
    class Config:
        use = False

        @property
        def model(self):
            raise RuntimeError("no model")

    cfg = Config()
    f = ftrace.jit(lambda x: x * cfg.model.w if cfg.use else x)
    assert f(2.0) == f(2.0) == 2.0
    cfg.use = True
    with pytest.raises(RuntimeError, match="no model"):
        f(2.0)


def test_a_cached_call_runs_no_property():
    class Config:
        runs = 0
        _w = 2.0

        @property
        def w(self):
            Config.runs += 1
            return self._w

    c = Config()
    f = ftrace.jit(lambda x: x * c.w)
    f(X)
    f(X)
    runs = Config.runs
    assert f(X) == 3.0
    assert Config.runs == runs
    c._w = 4.0
    assert f(X) == 6.0


def test_two_closures_of_one_factory_are_told_apart():
    def make(k):
        def read(x):
            return x * k

        def write(v):
            nonlocal k
            k = v

        return read, write

    (f, write_f), (g, write_g) = make(2.0), make(3.0)
    both = ftrace.jit(lambda x: f(x) + 10 * g(x))
    assert both(1.0) == 32.0
    write_g(5.0)
    assert both(1.0) == 52.0
    write_f(1.0)
    assert both(1.0) == 51.0


@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")
def test_a_shape_or_a_dtype_set_in_place_is_seen():
    K = np.arange(4.0)
    f = ftrace.jit(lambda x: (x * K).sum(0))
    assert f(1.0) == 6.0
    K.shape = (2, 2)
    np.testing.assert_array_equal(f(1.0), [2.0, 4.0])


def test_a_write_that_is_undone_while_tracing_raises():
    t = np.zeros(3)

    def f(x):
        nonlocal t
        y = x * t
        t += 1
        z = x * t
        t -= 1
        return y + z

    with pytest.raises(MutationError, match="changed while"):
        ftrace.jit(f)(np.ones(3))


@pytest.mark.parametrize("order", ["C", "F", "strided", "0-d", "read-only"])
def test_contents_are_compared_in_every_layout(order):
    K = np.arange(1.0, 7.0).reshape(2, 3)
    base = K
    if order == "F":
        K = np.asfortranarray(K)
    elif order == "strided":
        K = np.arange(1.0, 13.0).reshape(2, 6)[:, ::2]
    elif order == "0-d":
        K = np.array(2.0)
    elif order == "read-only":
        K = base.view()
        K.flags.writeable = False

    def change():
        target = base if order == "read-only" else K
        target[...] = 7.0

    check(ftrace.jit(lambda x: x * np.sqrt(K).max()), lambda x: x * np.sqrt(K).max(), change)


def closures(depth, x):
    """A function that makes functions that make functions, with containers at each step."""
    if depth == 0:
        return x * SCALE[0]
    steps = [lambda y: closures(depth - 1, [y, *STEPS][0]), lambda y: (y, depth)[0]]
    return sum(step(x) for step in steps) / 2


SCALE = [2.0]
STEPS = (np.sin, np.cos)


def test_functions_that_make_functions_and_containers_are_walked_to_an_end():
    jitted = ftrace.jit(lambda x: closures(4, x))
    found = Watch(closures)._reader.visits
    assert found < 400
    check(jitted, lambda x: closures(4, x), lambda: SCALE.__setitem__(0, 3.0))
    SCALE[0] = 2.0


def noted(x):
    a = 1.0
    SCALE[0] = -a
    return x


def test_a_walk_is_not_repeated_for_a_number_that_it_computes_itself(monkeypatch):
    started, start = [], guards.Reader.start
    monkeypatch.setattr(guards.Reader, "start", lambda *a: started.append(start(*a)))
    Watch(noted)
    assert len(started) == 2  # what is written is known in the second


class Cell:
    def __init__(self, w, s):
        self.w, self.s = w, s

    def step(self, q):
        self.s = sum(e * SCALE[0] for e in np.ones(2)) + self.s * q
        return self.s

    def __mul__(self, q):
        self.w = self.w * q
        return self.s + (self.w if q > 0 else q)


def stepped(x, y):
    first = Cell(np.ones(4) * y, y)
    a = first.step(first.s) + first * first.s
    second = Cell(np.array(first.w), a)
    KEPT["cell"], KEPT["step"] = second, second.step
    return second.step(second.s) + second * second.s + first * x


KEPT = {"cell": None, "step": len}


def compiled(x):
    return ftrace.jit(stepped)(np.ones(2), SCALE[0])


def test_what_a_compiled_function_returns_is_not_taken_for_a_function():
    result = Watch(compiled)._reader._assumed[id(compiled)].result
    assert not any(isinstance(x, Held) for x in result.refs)


def test_a_walk_is_not_repeated_for_methods_of_instances_that_it_makes(monkeypatch):
    started, start = [], guards.Reader.start
    monkeypatch.setattr(guards.Reader, "start", lambda *a: started.append(start(*a)))
    Watch(stepped)
    assert len(started) == 2


def scaled_sine(k, x):
    return np.sin(x) * k


def of_table(table, x):
    for i in range(3):
        x = table[(7 * i) % len(table)](x)
    return x


def test_what_the_last_of_many_functions_of_a_table_reads_is_watched():
    scale = {"last": 1.0}
    table = [functools.partial(np.multiply, float(k)) for k in range(5)]
    table += [functools.partial(scaled_sine, float(k)) for k in range(8)]
    table.append(lambda x: x * scale["last"])
    check(
        ftrace.jit(lambda x: of_table(table[-1:], x)),
        lambda x: of_table(table[-1:], x),
        lambda: scale.update(last=2.0),
    )
    check(
        ftrace.jit(lambda x: of_table(table, x) + of_table([*table[:2], table[-1]], x)),
        lambda x: of_table(table, x) + of_table([*table[:2], table[-1]], x),
        lambda: scale.update(last=3.0),
    )


def test_a_function_with_more_callees_than_can_be_watched_says_so(monkeypatch):
    monkeypatch.setattr(calling, "_MAX_VISITS", 40)
    scope = {}
    exec("".join(f"def f{i}(x): return x + {i}\n" for i in range(50)), scope)
    table = [scope[f"f{i}"] for i in range(50)]
    with pytest.warns(ftrace.errors.FreshnessWarning, match="clear_cache"):
        assert ftrace.jit(lambda x: sum(f(x) for f in table[1:3]))(1.0) == 5.0


def first_of(k):
    for v in k:
        return v
    return None


def test_elements_of_arrays_that_are_returned_as_they_are_do_not_go_stale():
    k = np.array([2.0, 3.0])

    class Holder:
        def element(self, x):
            return k[0]

    programs = (
        lambda x: k[0],
        lambda x: first_of(k),
        lambda x: [x, {"k": k[0]}],
        lambda x: (k.min(), x),
        lambda x: k,
        Holder().element,
        functools.partial(lambda x, y: k[0], y=1),
    )
    for f in programs:
        k[0] = 2.0
        compiled = ftrace.jit(f)
        compiled(1.0)
        k[0] = 1.5
        found, expected = (ftrace.tree.leaves(g(1.0)) for g in (compiled, f))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)
