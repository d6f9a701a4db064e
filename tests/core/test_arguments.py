"""Bare errors of public functions name the argument that does not fit, and only they."""

import pickle

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import ad_checkpoint, jit, lax, random, tree_util, vmap
from ftrace.errors import DomainError, DtypeError, FtraceError, HostMemoryError, RangeError

X = np.array([1.0, 2.0, 3.0])
KEY = random.PRNGKey(0)

NAMED = {
    "an argument": (lambda: lax.collapse(X, "abc"), "start_dimension.*an integer"),
    "a structure": (lambda: tree_util.treedef_children(3), "treedef.*PyTreeDef"),
    "no sequence": (lambda: tree_util.all_leaves(3), "iterable.*a sequence"),
    "no function": (lambda: tree_util.tree_map_with_path(3, X), "f.*a function"),
    "no class": (lambda: tree_util.is_tree_node(2j), "typ.*a class"),
    "no truth": (lambda: lax.cumsum(X, reverse="yes"), "reverse.*True or False"),
    "no truth by position": (lambda: lax.cumsum(X, 0, X), "reverse.*True or False"),
    "seven is no truth": (lambda: ftrace.jacrev(np.sin, has_aux=7), "has_aux.*True or False"),
    "an option of a union": (lambda: lax.map(np.sin, X, batch_size="a"), "integer or None"),
    "a size": (lambda: random.ball(KEY, 2.5), "d must be an integer"),
    "what fits by type": (lambda: lax.padtype_to_pads((5, 5), (2, 2), (), "SAME"), "does not take"),
    "operands": (lambda: jit(lambda x: lax.exp(x, x))(X), "given 2 operands"),
    "no operand": (lambda: jit(lambda x: lax.add(x))(X), "given 1 operands"),
    "a parameter of a row": (lambda: lax.sin(X, axis=1), "sin"),
}


@pytest.mark.parametrize("name", NAMED)
def test_an_argument_that_does_not_fit_is_named(name):
    call, words = NAMED[name]
    with pytest.raises(FtraceError, match=words) as caught:
        call()
    assert caught.value.fix
    assert "test_arguments.py" in caught.value.where
    assert isinstance(caught.value, TypeError | ValueError)


def test_classes_are_those_that_python_and_numpy_raise():
    with pytest.raises(RangeError):
        lax.integer_pow(10**400, 2)
    with pytest.raises(OverflowError):
        jit(lambda x: np.diagonal(x, 10**40))(np.ones((2, 2)))
    with pytest.raises(HostMemoryError, match=r"[TPE]iB"):
        random.orthogonal(KEY, 10**6, (10**6,))
    with pytest.raises(MemoryError):
        random.orthogonal(KEY, 10**6, (10**6,))


def test_errors_of_users_functions_are_theirs():
    def fails(c, x):
        raise AttributeError("mine")

    with pytest.raises(AttributeError, match=r"^mine$"):
        lax.scan(fails, 0.0, X)
    with pytest.raises(KeyError, match="'a'"):
        tree_util.tree_map(lambda x: {}["a"], X)
    with pytest.raises(TypeError, match=r"takes 1 positional argument but 2"):
        tree_util.tree_reduce(lambda x: x, [1, 2])
    with pytest.raises(ZeroDivisionError):
        ftrace.jvp(lambda x: x * (1 // 0), (X,), (X,))


def test_one_function_stays_one_function_and_is_pickled_by_its_public_name():
    assert ftrace.checkpoint is ftrace.remat is ad_checkpoint.checkpoint
    for fn in (lax.collapse, random.normal, tree_util.tree_map, ftrace.grad):
        assert pickle.loads(pickle.dumps(fn)) is fn
    assert lax.collapse.__module__ == "ftrace.lax"


REFUSED = {
    "an order": lambda x: np.ravel(x, order="Q"),
    "an order that is no text": lambda x: np.copy(x, order=3),
    "an axis": lambda x: np.moveaxis(x, "a", 0),
    "a list of axes": lambda x: np.sum(x, axis=[0]),
    "a truth as an axis": lambda x: np.sum(x, axis=True),
    "keepdims": lambda x: x.sum(keepdims=1j),
    "an initial array": lambda x: np.sum(x, initial=np.ones(2)),
    "a permutation": lambda x: np.transpose(x, 2.5),
    "floats as counts": lambda x: np.bincount(x),
    "a mode": lambda x: np.pad(x, 1, mode="zz"),
    "an order of fields": lambda x: np.sort(x, order="a"),
    "a kind of sorting": lambda x: np.sort(x, kind="zz"),
    "weights": lambda x: np.average(x, weights=np.ones(7)),
    "a dtype": lambda x: fnp.astype(x, x),
    "out of the wrong count": lambda x: np.add(x, x, out=()),
    "out by position": lambda x: np.add(x, x, (2, -1)),
    "casting": lambda x: np.add(x, x, casting="abc"),
    "one bound": lambda x: np.clip(x, 1.0),
    "bounds by two names": lambda x: np.clip(x, 1.0, 2.0, min=0.0),
    "a negative order": lambda x: np.polyder(x, -1),
    "no vector": lambda x: np.correlate(x, 3.0),
    "two corrections": lambda x: np.std(x, ddof=1, correction=2),
    "one array": lambda x: np.linalg.multi_dot([x]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_traced_arrays_are_refused_what_numpy_refuses(name):
    call = REFUSED[name]
    with pytest.raises(Exception) as plain:  # noqa: PT011 - NumPy says which
        call(X)
    for transform in (jit, ftrace.jacfwd, lambda f: lambda x: vmap(f)(x[None])):
        with pytest.raises(Exception) as traced:  # noqa: PT011
            transform(call)(X)
        related = isinstance(traced.value, plain.type) or isinstance(plain.value, traced.type)
        assert related or isinstance(traced.value, ftrace.errors.RuleError), traced.value


def test_words_that_were_chosen_stay_where_the_class_is_numpys():
    with pytest.raises(IndexError, match="sum over 5 axes"):
        jit(lambda x: np.tensordot(x, x, 5))(X)


def test_what_numpy_takes_is_taken():
    assert jit(lambda x: x.sum(keepdims=1))(X).shape == (1,)
    assert jit(lambda x: np.mean(x, keepdims=np.True_))(X).shape == (1,)
    assert jit(lambda x: np.nanvar(x, keepdims=1))(X).shape == (1,)
    assert jit(lambda x: np.median(x, keepdims=1))(X).shape == (1,)
    assert jit(lambda x: np.argmax(x, keepdims=1))(X).shape == (1,)
    assert jit(lambda x: np.ravel(x, order=None))(X).shape == (3,)
    assert jit(lambda x: np.take(x, 1.5))(X) == 2.0
    assert jit(lambda x: np.take(x, True))(X) == 2.0
    np.testing.assert_array_equal(jit(lambda x: np.tensordot(x, x, -1))(X), np.outer(X, X))
    np.testing.assert_array_equal(jit(lambda x: np.convolve(x, x, 2))(X), np.convolve(X, X))


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: x.resize((3, 1)),
        lambda x: x.flags.writeable,
        lambda x: str(x.flags),
        lambda x: setattr(x.flags, "writeable", False),
        lambda x: np.outer(x, x).flags.contiguous,  # computed: it may lie in either order
        lambda x: x.tobytes(),
        lambda x: setattr(x, "shape", (3, 1)),
        lambda x: setattr(x, "dtype", np.float32),
        lambda x: x.setflags(write=True),
    ],
)
def test_what_only_memory_has_is_no_attribute_and_says_what_to_do(ask):
    with pytest.raises(AttributeError) as caught:
        jit(ask)(X)
    assert isinstance(caught.value, FtraceError)
    assert caught.value.fix


def test_numpy_is_not_asked_what_takes_it_long():
    with pytest.raises((DomainError, DtypeError, ValueError)):
        jit(lambda x: np.diff(x, n=10**40, prepend=object()))(X)
    assert fnp.diff(X, n=2) == 0
