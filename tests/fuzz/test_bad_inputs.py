"""Bad inputs over the whole public API: nothing nonsensical passes in silence."""

import numpy as np
import pytest

from ftrace import lax
from ftrace.errors import ShapeError
from tests.fuzz.bad_inputs import FAMILIES, Call, Given, calls, classified, public, table


def scaled(y, t):
    return t * y


M = np.arange(9.0).reshape(3, 3) + 4.0 * np.eye(3)
FEW = np.arange(6.0)
CSR = np.ones(3), np.array([0, 2, 1]), np.array([0, 2, 3, 3])


def call(family, name, *arguments, context="eager", **keywords):
    return Call(family, name, arguments, tuple(keywords.items()), context)


def test_calls_are_many_and_the_seed_decides_them():
    assert len(public()) > 900
    assert [*map(str, calls(50, 1))] == [*map(str, calls(50, 1))] != [*map(str, calls(50, 2))]
    assert {c.family for c in calls(6000, 0)} == {*FAMILIES}


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (call("numpy", "sum", "X"), "taken"),
        (call("numpy", "sum", "X", "10**40"), "numpy"),
        (call("numpy", "median", "X", "(2, -1)", context="jit"), "ours"),
        (call("numpy", "sum", "X", keepdims="1j", context="jit"), "numpy"),
        (call("numpy", "sin", "X", "()"), "numpy"),
        (call("lax", "pad", "X", "0", "None", context="jit"), "ours"),
        (call("lax", "add", "texts", "-1"), "ours"),
        (call("lax", "exp", "X", "X", context="jit"), "ours"),
        (call("lax", "fmax", "X", context="grad"), "ours"),
        (call("lax", "top_k", "X", "np.sin"), "ours"),
        (call("lax", "cummax", "X", "(2, -1)", context="grad"), "ours"),
        (call("lax", "index_in_dim", "X", "None", context="grad"), "ours"),
        (call("tree_util", "treedef_children", "10**40"), "ours"),
        (call("methods", "resize", "X", "()", context="jit"), "ours"),
        (call("methods", "shape=", "X", "0", context="vmap"), "ours"),
        (call("lax", "map", "np.sin", "X"), "taken"),
        (call("lax", "map", Given(lambda x: {}["a"]), "X"), "theirs"),
        (call("ftrace", "grad", "np.sin", axes_="-1"), "call"),
        (call("ftrace", "custom_vjp", "np.sin", nondiff_argnames="2.5"), "ours"),
        (call("ftrace", "custom_jvp", "np.sin", nondiff_argnames="(1, 'a')"), "ours"),
        (call("nn", "standardize", "-5", context="jit"), "call"),
        (call("ftrace", "named_scope", "objects", context="jit"), "ours"),
        (call("numpy", "sliding_window_view", "X", "True"), "numpy"),
        (call("ftrace", "elementwise_partials", "np.sin", argnums="()"), "taken"),
        (call("nn", "softmax", "X", "float"), "ours"),
        (call("numpy", "max", "X", "None", "None", "{'a': 1}", context="jit"), "numpy"),
        (call("numpy", "sum", "X", where="X", context="jit"), "numpy"),
        (call("numpy", "all", "X", where="-1", context="jit"), "taken"),
        (
            call("numpy", "take", Given(M), "empty", axis="0", mode=Given("wrap"), context="jit"),
            "numpy",
        ),
        (call("numpy", "ediff1d", "X", "10**40", context="jit"), "numpy"),
        (call("numpy", "gradient", "X", "1j", context="jit"), "ours"),
        (call("updates", "set", "10**40", "-1", "0"), "ours"),
        (call("updates", "add", "X", "2.5", "0", context="jit"), "numpy"),
        (call("ftrace", "clip_gradient", "X", "'abc'", "0"), "ours"),
        (call("ftrace", "scale_gradient", "X", "dates"), "ours"),
        (call("smaller", "scalar_type_of", "object()"), "ours"),
        (call("initializers", "he_uniform", "KEY", "2.5"), "ours"),
        (call("initializers", "ones", "KEY", "objects", context="jit"), "ours"),
        (call("special", "lambertw", "X", "10**40", context="jit"), "ours"),
        (call("scipy.fft", "ihfft", "X", workers="{'a': 1}", context="jit"), "ours"),
        (call("scipy.fft", "dct", "X", workers="0", context="jit"), "ours"),
        (call("scipy.linalg", "eigvals", Given(M), check_finite="X", context="jit"), "ours"),
        (call("scipy.linalg", "logm", Given(M), disp="KEY", context="jit"), "ours"),
        (call("scipy.linalg", "schur", Given(M), lwork="float", context="jit"), "ours"),
        (call("scipy.linalg", "solve", Given(M), "ones(2, 2)", context="grad"), "ours"),
        (call("scipy.signal", "periodogram", "X", window="ints", context="jit"), "taken"),
        (call("scipy.signal", "periodogram", "X", window="KEY", context="jit"), "ours"),
        (call("scipy.signal", "welch", Given(np.ones(8)), "float", context="jit"), "ours"),
        (call("stats", "norm.pdf", "10**40"), "ours"),
        (call("stats", "norm.pdf", "X", "1j", context="jit"), "ours"),
        (call("stats", "t.pdf", "X", "ones(2, 2)"), "numpy"),
        (call("stats", "vonmises.cdf", "X", "0"), "ours"),
        (call("stats", "multivariate_normal.pdf", "ones(2, 2)", context="jit"), "ours"),
        (call("stats", "multivariate_normal.pdf", "X", "2.5", Given(np.eye(3))), "ours"),
        (call("stats", "multivariate_normal.pdf", "X", "X", Given(np.eye(3))), "taken"),
        (call("stats", "multinomial.pmf", "X", "0", "0", context="jit"), "ours"),
        (call("stats", "density", "X", "1j"), "ours"),
        (call("interpolators", "cubic", "X", "X", "0", bc_type="(2, -1)"), "ours"),
        (call("interpolators", "slope", "X", "X", "0", nu="object()", context="jit"), "ours"),
        (call("interpolators", "linear", "X", "X", "0", axis="10**6", context="grad"), "ours"),
        (call("interpolators", "filled", "X", "X", "0", fill="1j", context="jit"), "ours"),
        (call("interpolators", "pieces", "ones(2, 2)", "()", "0", context="jit"), "ours"),
        (call("interpolators", "slope", "X", "X", "0", nu="-5", context="jit"), "ours"),
        (
            call("scipy.interpolate", "splrep", Given(FEW), Given(FEW), s="b''", context="jit"),
            "ours",
        ),
        (call("sparse", "csr_array", Given(CSR), "0", context="vmap"), "ours"),
        (call("sparse", "csr_array", Given(CSR), "np.sin"), "ours"),
        (call("sparse", "diags_array", Given([np.ones(3)])), "ours"),
        (call("matrices", "sum", "X", "(1, 'a')", context="grad"), "ours"),
        (call("matrices", "mean", "X", "nan", context="jit"), "ours"),
        (call("sparse", "csr_array", Given(CSR), dtype="[]", context="vmap"), "ours"),
        (call("numpy", "resize", "X", "True", context="grad"), "ours"),
        (call("numpy", "trim_zeros", "X", "'abc'", context="grad"), "numpy"),
        (call("numpy", "trim_zeros", "X", Given("B"), context="grad"), "taken"),
        (call("interpolators", "area", "X", "X", "0", "nan", context="jit"), "numpy"),
        (call("interpolators", "area", "X", "X", "KEY", "0", context="vmap"), "ours"),
        (call("matrices", "power", "X", "empty"), "ours"),
        (call("scipy.linalg", "qr", Given(M), lwork="True", context="jit"), "ours"),
        (call("scipy.signal", "csd", "X", "X", average="'abc'", context="jit"), "ours"),
        (call("stats", "multinomial.pmf", "X", "nan", "X"), "ours"),
        (call("updates", "divide", "10**6", "-5", "nan"), "numpy"),
        (call("numpy", "insert", "X", "-5", "ones(2, 2)", context="grad"), "numpy"),
        (call("numpy", "nanstd", "X", correction="10**40", context="vmap"), "ours"),
        (call("numpy", "cov", "X", fweights="10**40", context="jit"), "ours"),
        (call("fft", "irfft", "X", "True", context="jit"), "ours"),
        (call("ftrace", "jacfwd", "np.sin", chunk_size="True"), "ours"),
        (call("matrices", "power", "X", "0"), "ours"),
        (call("scipy.integrate", "quad_vec", "np.sin", "0", "X", context="jit"), "ours"),
        (call("scipy.linalg", "rsf2csf", Given(M), "empty", context="jit"), "ours"),
        (call("scipy.signal", "welch", "X", "-1", context="grad"), "ours"),
        (call("stats", "multinomial.pmf", "X", "10**40", "X", context="jit"), "ours"),
        (call("stats", "multivariate_normal.logpdf", "True", "1j", context="jit"), "ours"),
        (call("scipy.linalg", "eigh_tridiagonal", "X", "[]", context="jit"), "ours"),
        (call("matrices", "times", "X", "float"), "ours"),
        (call("numpy", "interp", "X", "X", "X", period="0", context="grad"), "numpy"),
        (call("numpy", "geomspace", "X", "0", context="jit"), "numpy"),
        (call("numpy", "take_along_axis", "X", "[]", context="jit"), "numpy"),
        (call("numpy", "polyder", "ones(2, 2)", context="jit"), "numpy"),
        (call("numpy", "nan_to_num", "X", "'i4'", context="jit"), "numpy"),
        (call("numpy", "zeros_like", "X", subok="10**40", context="jit"), "ours"),
        (call("numpy", "gradient", "X", axis="()", context="jit"), "taken"),
        (call("numpy", "logical_xor", "X", "10**40", context="vmap"), "numpy"),
        (call("numpy", "vecdot", "2.5", "0", "()"), "numpy"),
        (call("numpy", "matmul", "X", "X", "()", context="jit"), "numpy"),
        (call("numpy", "poly", "ones(2, 2)", context="vmap"), "ours"),
        (call("special", "assoc_legendre_p", "X", "True", "0", context="jit"), "ours"),
        (call("special", "legendre_p", "X", "empty", context="jit"), "ours"),
        (call("special", "lambertw", "X", "nan", context="jit"), "ours"),
        (call("scipy.integrate", "trapezoid", "X", dx="[]", context="jit"), "ours"),
        (call("scipy.integrate", "cumulative_simpson", "X", initial="1j", context="vmap"), "ours"),
        (call("scipy.integrate", "cumulative_trapezoid", "X", dx="()", context="vmap"), "ours"),
        (call("scipy.linalg", "cho_solve", Given((M, True)), "empty", context="jit"), "ours"),
        (call("scipy.linalg", "solveh_banded", "ones(2, 2)", "[]", context="vmap"), "numpy"),
        (call("scipy.optimize", "rosen_hess", "ones(2, 2)", context="vmap"), "ours"),
        (call("scipy.signal", "detrend", "X", bp="ones(2, 2)", context="grad"), "ours"),
        (call("scipy.signal", "welch", "X", "nan", context="vmap"), "ours"),
        (call("interpolators", "linear", "X", "X", "1j", context="jit"), "ours"),
        (call("stats", "poisson.logcdf", "True", "0", "True"), "ours"),
        (call("stats", "rankdata", "X", axis="True", context="grad"), "ours"),
        (call("stats", "rankdata", "X", axis="float", context="grad"), "ours"),
        (call("stats", "density", "nan", "0"), "ours"),
        (call("stats", "density", Given(np.array([1.0, np.nan, 2.0])), "0"), "ours"),
        (call("stats", "multivariate_normal.pdf", "X", "X", "nan"), "ours"),
        (call("implicit", "odeint", Given(scaled), "X", "X", Dfun="b''"), "ours"),
        (call("implicit", "odeint", Given(scaled), "X", "X", atol="1j"), "ours"),
        (call("smaller", "ravel_pytree", "10**40"), "ours"),
        (call("interpolators", "filled", "X", "X", "0", fill="ints"), "ours"),
        (call("random", "split", "KEY", "b''"), "ours"),
        (call("lax.linalg", "triangular_solve", "X", "10**6", context="vmap"), "ours"),
    ],
)
def test_what_comes_back_is_classified(bad, kind):
    found, words = classified(bad)
    assert found == kind, words


@pytest.mark.parametrize(
    ("broken", "kind"),
    [
        (lambda x, axis: axis + 1, "INSIDE"),  # the class that NumPy raises, by accident
        (lambda x, axis: x, "SILENT"),
    ],
)
def test_accidents_and_silence_are_seen(monkeypatch, broken, kind):
    code = broken.__code__.replace(co_filename=lax.__file__)  # as if it were a function of ftrace
    monkeypatch.setattr(FAMILIES["numpy"], "flip", type(broken)(code, {}))
    assert classified(call("numpy", "flip", "X", "'abc'"))[0] == kind


def test_what_is_no_number_is_seen(monkeypatch):
    monkeypatch.setattr(FAMILIES["nn"], "softmax", lambda x, axis=-1: x)
    assert classified(call("nn", "softmax", "X"))[0] == "taken"
    monkeypatch.setattr(FAMILIES["random"], "split", lambda key, num=2: key)
    assert classified(call("random", "split", "KEY", "'abc'"))[0] == "SILENT"


def test_words_that_are_too_long_are_seen(monkeypatch):
    def flip(x):
        raise ShapeError("shapes", "y" * 5000)

    monkeypatch.setattr("ftrace.core.errors.brief", lambda text, most=0: text)
    monkeypatch.setattr(FAMILIES["numpy"], "flip", flip)
    assert classified(call("numpy", "flip", "X"))[0] == "INSIDE"


def test_bad_inputs_are_refused_and_none_from_inside():
    found, wrong = table(3000, 0)
    assert not wrong, "\n".join(wrong)
    assert found["ours"] > 300
    assert found["numpy"] > 300
