"""Programs that a process must survive, each with what it prints. test_survival.py runs them.

One short program per way in which threads, forks, signals or memory went wrong, or might; each
runs in a process of its own, since the first use of the compiler is what is attacked.
"""

START = """
import faulthandler, gc, os, signal, sys, threading, time, warnings
faulthandler.dump_traceback_later(50 * int(sys.argv[1]), exit=True)
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in the background
warnings.simplefilter("ignore", DeprecationWarning)  # forks of threaded processes, from 3.12 on
import numpy as np
import ftrace
from ftrace import lax

def function(k):
    return eval("lambda x: " + " + ".join(f"np.sin(x * {i}.5)" for i in range(k % 7 + 1)))

def right(k, x):
    return np.allclose(ftrace.jit(function(k))(x), function(k)(x))
"""

CHILD = """
def finish(child):
    end = time.time() + 20
    while time.time() < end:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return status
        time.sleep(0.005)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return "hangs"
"""

PROGRAMS: dict[str, tuple[str, str]] = {}


def survives(name: str, text: str, printed: str = "ok\n") -> None:
    """Enter a program into the table."""
    assert name not in PROGRAMS
    PROGRAMS[name] = (START + text, printed)


survives(
    "eight threads make the first calls of a process",
    """
gate, good = threading.Barrier(8), []
def work(k):
    gate.wait()
    good.append(right(k, np.ones(3 + k)))
    grad = ftrace.jit(ftrace.grad(lambda a: np.sum(np.tanh(a @ a.T))))
    good.append(np.isfinite(grad(np.ones((3, 3)))).all())
threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
print("ok" if len(good) == 16 and all(good) else good)
""",
)

survives(
    "forks while another thread compiles",
    CHILD
    + """
stop = False
def work():
    k = 0
    while not stop:
        k += 1
        right(k, np.ones(3 + k % 5))
thread = threading.Thread(target=work)
thread.start()
ends = []
for k in range(4):
    time.sleep(0.02 + 0.03 * k)
    child = os.fork()
    if not child:
        os._exit(0 if right(k, np.ones(4)) and right(k + 1, np.ones((2, 2))) else 1)
    ends.append(finish(child))
stop = True
thread.join()
print("ok" if ends == [0] * 4 else ends)
""",
)

survives(
    "a forked process uses what its parent compiled, and forks again",
    CHILD
    + """
f = ftrace.jit(ftrace.grad(lambda x: np.sum(x ** 3)))
f(np.ones(3))
child = os.fork()
if not child:
    good = (f(np.ones(3)) == 3).all() and right(3, np.ones(3))
    grandchild = os.fork()
    if not grandchild:
        os._exit(0 if right(5, np.ones(3)) else 1)
    os._exit(finish(grandchild) if good else 1)
print("ok" if finish(child) == 0 and right(2, np.ones(3)) else "no")
""",
)

survives(
    "a signal handler that compiles while its own thread compiles",
    """
from ftrace import ensure_compile_time_eval, jit  # all else may be interrupted
seen, k = [], 0
def handler(number, frame):
    global k
    k += 1
    with ensure_compile_time_eval():
        seen.append(right(k, np.ones(2 + k % 3)))
    if running:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
running = True
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.01)
good = [right(j, np.ones(3 + j % 2)) for j in range(20)]
running = False
signal.setitimer(signal.ITIMER_REAL, 0)
print("ok" if seen and all(seen) and all(good) else (seen, good))
""",
)

survives(
    "finalizers and weak references that compile while their own thread compiles",
    """
import weakref
from ftrace import ensure_compile_time_eval, jit
seen = []
class Late:
    def __init__(self, k):
        self.k, self.me = k, self  # the collector must find it
    def __del__(self):
        with ensure_compile_time_eval():
            seen.append(right(self.k, np.ones(2)))
def gone(_):
    with ensure_compile_time_eval():
        seen.append(right(4, np.ones(5)))
kept = []
gc.set_threshold(50)
for k in range(12):
    late = Late(k)
    kept.append(weakref.ref(late, gone))
    del late
    assert right(k, np.ones(3))
gc.collect()
print("ok" if len(seen) == 24 and all(seen) else seen)
""",
)

survives(
    "functions die in one thread while another compiles",
    """
stop = False
def work():
    while not stop:
        f = ftrace.jit(function(2))
        f.itself = f
        f(np.ones(3))
        del f
        gc.collect()
thread = threading.Thread(target=work)
thread.start()
good = [right(k, np.ones(2 + k % 4)) for k in range(20)]
stop = True
thread.join()
print("ok" if all(good) else good)
""",
)

INTERRUPTED = """
X = np.linspace(0.5, 1.0, 300)

def lifted(n, x):
    i = 0.0
    while i < n:
        i = i + 1.0
        x = x * 0.5 + 1.0
    return x

def counting(n, x):
    return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, np.sin(c[1])), (0.0, x))[1]

def each(n, x):  # members end at different times; three results are kept
    return lax.while_loop(
        lambda c: c[0] < n * x, lambda c: (c[0] + 1, c[1] * x, c[2] + c[1]), (0.0, x, x)
    )[2]

def nested(n, x):
    return lax.while_loop(
        lambda c: c[0] < n, lambda c: (c[0] + 1, lax.fori_loop(0, 9, lambda i, y: y * 0.5, c[1])),
        (0.0, x))[1]

def product(n, x):
    return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] @ c[1]), (0.0, x))[1]

def both(n, x):  # two loops in one kernel, and an arm
    y = lax.while_loop(lambda c: c < n, lambda c: c + x, x)
    return lax.cond(y > 3, lambda: lax.while_loop(lambda c: c < n, lambda c: c + y, y), lambda: y)

def derivative(n, x):
    return ftrace.grad(lambda y: np.sum(counting(n, y) ** 2))(x)

LOOPS = {
    "while": (counting, 1.0),
    "while of arrays": (counting, X),
    "while of products": (product, np.eye(40)),
    "fori": (lambda n, x: lax.fori_loop(0, n, lambda i, c: c * 0.5 + x, x), 1.0),
    "fori of a known length": (
        lambda n, x: lax.fori_loop(0, 10**13 if n is None else n, lambda i, c: c * 0.5 + x, x), 1.0
    ),
    "scan": (
        lambda n, x: lax.scan(lambda c, _: (np.sin(c), None), x, None,
                              10**12 if n is None else n)[0], X
    ),
    "lifted": (lifted, 1.0),
    "nested": (nested, 1.0),
    "vectorize": (lambda n, x: ftrace.vectorize(counting)(n, x), X),
    "vectorize, each": (lambda n, x: ftrace.vectorize(each)(n, x), X),
    "vmap": (lambda n, x: ftrace.vmap(lambda y: each(n, y))(x), X),
    "two in a kernel": (lambda n, x: ftrace.vectorize(both)(n, x), X),
    "derivative": (derivative, 0.5),
}

def interrupt(name):
    f, x = LOOPS[name]
    known = name in ("fori of a known length", "scan")
    j = ftrace.jit(f, static_argnums=0 if known else None)
    few, many = (3, None) if known else (3, 10**15) if name == "fori" else (3.0, 1e15)
    if name == "derivative":
        many = 3e7  # it records its turns
    before = j(few, x)
    sent = time.perf_counter() + 0.1
    timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
    late = None
    try:
        timer.start()
        j(many, x)
        time.sleep(1)
    except KeyboardInterrupt:
        late = time.perf_counter() - sent
    return late, np.array_equal(before, j(few, x))

found = {name: interrupt(name) for name in LOOPS}
wrong = {k: v for k, v in found.items() if v[0] is None or v[0] > LATEST or not v[1]}
print("ok" if not wrong else wrong)
"""

# a machine that is shared may let a process wait; Ctrl-C itself is looked for every 40 ms
survives("Ctrl-C inside every kind of compiled loop", "LATEST = 1.0\n" + INTERRUPTED)

survives(
    "a handler that raises ends a loop, one that returns does not",
    """
class Late(Exception):
    pass
def late(*_):
    raise Late
seen = []
spin = ftrace.jit(lambda n: lax.while_loop(lambda c: c < n, lambda c: c + 1.0, 0.0))
spin(3.0)
signal.signal(signal.SIGALRM, lambda *_: seen.append(spin(5.0)))
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
for _ in range(100):  # a processor may do one in less than the time of a signal
    spin(1e8)
    if seen:
        break
signal.signal(signal.SIGALRM, late)
try:
    spin(1e15)
except Late:
    seen.append("late")
signal.setitimer(signal.ITIMER_REAL, 0)
print("ok" if 5.0 in seen and seen[-1] == "late" and spin(4.0) == 4.0 else seen)
""",
)

survives(
    "loops in other threads leave the rest of the process alone",
    """
spin = ftrace.jit(lambda n: lax.while_loop(lambda c: c < n, lambda c: c + 1.0, 0.0))
count = ftrace.jit(lambda x: lax.fori_loop(0, 10**8, lambda i, c: c + x, x))
spin(3.0)
threads = [threading.Thread(target=f, args=(x,)) for f, x in ((spin, 1e8), (count, 1.0))]
[t.start() for t in threads]
ticks = 0
while any(t.is_alive() for t in threads):
    time.sleep(0.005)
    ticks += 1
print("ok" if ticks > 10 else ticks)
""",
)

SHARED = """
ftrace.config.set_default(threads=3)
x = np.linspace(0.0, 4.0, 400_000)
total = ftrace.jit(lambda x: (np.sin(x) * np.exp(-x)).sum())
turns = ftrace.jit(ftrace.vmap(lambda n: lax.while_loop(lambda c: c < n, lambda c: c + 1.0, 0.0)))
first = total(x)
"""

survives(
    "Ctrl-C ends a loop that threads share, whoever runs what does not end",
    SHARED
    + """
seen = []
for at in (0, 17, 40_000, 79_999):
    n = np.full(80_000, 3.0)
    n[at] = 1e300
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        turns(n)
    except KeyboardInterrupt:
        seen.append(at)
    seen.append(total(x) == first)
    seen.append((turns(np.full(80_000, 3.0)) == 3.0).all())
right = [x for at in (0, 17, 40_000, 79_999) for x in (at, True, True)]
print("ok" if seen == right else seen)
""",
)

survives(
    "a forked process runs what threads shared, in one thread and then in several",
    CHILD
    + SHARED
    + """
def same():
    again = ftrace.jit(lambda x: (np.cos(x) * np.exp(-x)).sum())
    return total(x) == first and again(x) == again(x)
def loops(stop):
    while not stop:
        total(x)
stop = []
other = threading.Thread(target=loops, args=(stop,))
other.start()
found = []
for _ in range(5):
    child = os.fork()
    if child == 0:
        os._exit(0 if same() and same() else 1)
    found.append(finish(child))
stop.append(1)
other.join()
print("ok" if found == [0] * 5 and same() else found)
""",
)

survives(
    "a signal handler forks while threads share a loop",
    CHILD
    + SHARED
    + """
children = []
def fork(*_):
    child = os.fork()
    if child == 0:
        children.append(0)
        signal.setitimer(signal.ITIMER_REAL, 0)
    elif children[:1] != [0]:
        children.append(child)
n = np.full(80_000, 3e4)
signal.signal(signal.SIGALRM, fork)
signal.setitimer(signal.ITIMER_REAL, 0.1)
right = (turns(n) == 3e4).all() and total(x) == first
if children[-1:] == [0]:
    os._exit(0 if right else 1)
print("ok" if right and children and finish(children[0]) == 0 else children)
""",
)

survives(
    "eight threads share loops while a ninth compiles",
    SHARED
    + """
wrong = []
def work(k):
    for _ in range(30):
        if total(x) != first:
            wrong.append(k)
def compiles():
    for k in range(30):
        if not right(k, x):
            wrong.append("compiled")
threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
threads.append(threading.Thread(target=compiles))
[t.start() for t in threads]
[t.join() for t in threads]
print(wrong or "ok")
""",
)

survives(
    "a hundred million turns of a counted loop take no memory",
    """
import resource
count = ftrace.jit(lambda x: lax.fori_loop(0, 10**8, lambda i, c: c * 0.5 + x, x))
ftrace.jit(lambda x: lax.fori_loop(0, 10**5, lambda i, c: c * 0.5 + x, x))(1.0)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = count(1.0)
more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print("ok" if found == 2.0 and more < 20_000 else (found, more))
""",
)

PROGRAMS["a subinterpreter is told that it cannot compile"] = (
    """
import faulthandler, importlib, os, sys
faulthandler.dump_traceback_later(50, exit=True)
for name in ("_interpreters", "_xxsubinterpreters"):
    try:
        interpreters = importlib.import_module(name)
        break
    except ImportError:
        pass
text = """
    + "'''"
    + """
import sys, warnings
sys.path[:] = %r
warnings.simplefilter("ignore")
try:
    import numpy as np, ftrace
except ImportError as error:  # NumPy's own answer, where it has one
    print("ok" if "interpreter" in str(error) else error)
else:
    try:
        ftrace.jit(lambda x: x * 2)(np.ones(3))
        print("compiled")
    except ftrace.errors.BackendError as error:
        print("ok" if "subinterpreter" in str(error) else error)
sys.stdout.flush()
"""
    + "'''"
    + """
one = interpreters.create()
(getattr(interpreters, "exec", None) or interpreters.run_string)(one, text % sys.path)
os._exit(0)  # NumPy does not outlive a subinterpreter
""",
    "ok\n",
)

survives(
    MEMORY := "150 structures a run take little memory, dead or of one function",
    """
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

def structure(k):
    text = "x"
    for b in range(13):
        text = f"np.{'maximum' if k >> b & 1 else 'minimum'}({text} + 0.25, {b}.5)"
    return eval("lambda x: " + text)

x = np.ones(3)
ftrace.config.set_default(kept_traces=64)
one = ftrace.jit(lambda x, k: structure(k)(x), static_argnums=1)
for k in range(20):
    ftrace.jit(structure(k))(x)
    one(x, k)
gc.collect()
before = resident()
count = 75 * int(sys.argv[1])
for k in range(count):
    ftrace.jit(structure(k))(x)
    assert np.allclose(one(x, k + 4096), structure(k + 4096)(x))
more = resident() - before
print("ok" if more < 60 else f"{more:.0f} MB")
""",
)
