"""Derivatives of scipy.special's functions, and which of its names have one.

Each is compared with central differences of SciPy's own values; what SciPy computes less precisely
has a tolerance of its own.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import ftrace
import ftrace.scipy.special as fsp
from ftrace.core.errors import FtraceError, RuleError
from ftrace.primitives.scipy_functions import FUNCTIONS
from tests.scipy.special_names import MISSING, NONE, PLAIN
from tests.scipy.test_special import NAMES, domains, parts

# SciPy's values themselves are of this precision
ROUGH = {
    "itairy": 1e-6,
    "nctdtrinc": 1e-5,
    "ncfdtrinc": 1e-3,
    "bdtrin": 1e-6,
    "stdtridf": 1e-5,
    "pro_rad2": 1e-4,
    "obl_rad2": 1e-4,
    "pro_rad2_cv": 1e-4,
    "obl_rad2_cv": 1e-4,
}
ONCE = ("mathieu_a", "mathieu_b", "smirnov", "smirnovi", "pro_cv", "obl_cv")


def slope(f: Callable[[Any], Any], x: Any, h: float = 4e-4) -> Any:
    """A derivative by differences, to fourth order."""
    near, far = f(x + h) - f(x - h), f(x + 2 * h) - f(x - 2 * h)
    return (8 * near - far) / (12 * h)


def along(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The derivative of a function along 1."""
    return lambda x: ftrace.jvp(f, (x,), (np.ones_like(x),))[1]


def partial_functions(name: str) -> Any:
    """Of each operand that has a derivative the function of that one, and a value of it."""
    rng = np.random.default_rng(3)
    kind = "c16" if getattr(FUNCTIONS.get(name), "kinds", "f") == "c" else "f8"
    args = [d if isinstance(d, int) else d.draw(rng, (), kind)[()] for d in domains(name)]
    f = getattr(fsp, name)
    for i, x in enumerate(args):
        if not isinstance(x, int):
            yield lambda t, i=i: np.stack(parts(f(*args[:i], t, *args[i + 1 :]))), x


@pytest.mark.parametrize("name", NAMES)
def test_a_derivative_agrees_with_differences_of_scipys_values(name: str) -> None:
    rough = ROUGH.get(name, 1e-8)
    for f, x in partial_functions(name):
        try:
            found = along(f)(x)
        except RuleError:
            assert name in NONE or name.endswith("_cv")
            continue
        np.testing.assert_allclose(found, slope(f, x), rtol=rough, atol=rough)
        if name in ONCE:
            with pytest.raises(RuleError, match="has no derivative by its"):
                along(along(f))(x)
        else:
            np.testing.assert_allclose(
                along(along(f))(x), slope(along(f), x), rtol=10 * rough, atol=10 * rough
            )


# ---------------------------------------------------------------------------------- no ufuncs

Z, DEGREES = np.array([0.3, 0.7]), np.array([[0], [1], [4]])
COMPOSED: list[tuple[Callable[[Any, Any], Any], Any]] = [
    *((lambda sc, x, d=d: sc.legendre_p(DEGREES, x, diff_n=d), Z) for d in range(3)),
    (lambda sc, x: sc.legendre_p_all(3, x, diff_n=2), Z),
    (lambda sc, x: sc.assoc_legendre_p(3, 2, x, diff_n=2), Z),
    (lambda sc, x: sc.assoc_legendre_p(3, 1, x + 1.5, branch_cut=3, norm=True), Z),
    (lambda sc, x: sc.assoc_legendre_p_all(2, 1, x, diff_n=1), Z),
    (lambda sc, x: sc.sph_legendre_p(3, -2, x, diff_n=2), Z),
    (lambda sc, x: sc.sph_legendre_p_all(2, 2, x), Z),
    (lambda sc, x: sc.sph_harm_y(3, -2, x, x * 2), Z),
    *((lambda sc, x, i=i: sc.sph_harm_y(3, 1, x, x * 2, diff_n=2)[i], Z) for i in range(3)),
    (lambda sc, x: sc.sph_harm_y_all(2, 1, x, x * 2, diff_n=1)[1], Z),
    *((lambda sc, x, n=n: getattr(sc, n)(1.5, x), Z) for n in ("jvp", "yvp", "ivp", "kvp")),
    *((lambda sc, x, n=n: getattr(sc, n)(2, x, 3), Z) for n in ("jvp", "kvp", "h1vp", "h2vp")),
    *(
        (lambda sc, x, n=n: np.stack(getattr(sc, n)(3, x)), 0.7)
        for n in ("riccati_jn", "riccati_yn")
    ),
    *((lambda sc, x, n=n: np.stack(getattr(sc, n)(2.5, x)), 0.7) for n in ("lmbda", "pbdv_seq")),
    (lambda sc, x: np.stack(sc.pbdv_seq(0.5, x)), 0.7),
    (lambda sc, x: np.stack(sc.pbvv_seq(2.5, x)), 0.7),
    (lambda sc, x: sc.assoc_laguerre(x, 3, 0.5), Z),
    (lambda sc, x: sc.diric(x * 4, 5), Z),
    (lambda sc, x: sc.diric(x, 4), np.array([0.0, 2.0, -1.5])),
]


@pytest.mark.parametrize("case", range(len(COMPOSED)))
def test_functions_that_are_no_ufuncs_have_scipys_values_and_their_slopes(case: int) -> None:
    f, x = COMPOSED[case]
    plain = f(scipy.special, x)
    for module in (fsp, scipy.special):  # by either name
        given = lambda t, m=module: f(m, t)  # noqa: E731
        found, moved = ftrace.jvp(given, (x,), (np.ones_like(x),))
        assert found.dtype == plain.dtype
        np.testing.assert_allclose(found, plain, rtol=1e-12, atol=1e-13)
        expected = slope(lambda t: f(scipy.special, t), x)
        np.testing.assert_allclose(moved, expected, rtol=1e-7, atol=1e-8)
    if not case % 4:
        np.testing.assert_allclose(
            ftrace.jit(lambda t: f(fsp, t))(x), plain, rtol=1e-12, atol=1e-13
        )


def test_bessel_functions_of_all_orders_are_stacked() -> None:
    expected = [scipy.special.jv(k, Z) for k in range(4)]
    np.testing.assert_allclose(ftrace.jit(lambda z: fsp.bessel_jn(z, v=3))(Z), expected, rtol=1e-14)


# ---------------------------------------------------------------------------------- which names


def public() -> set[str]:
    return {n for n, v in vars(scipy.special).items() if n[0] != "_" and callable(v)}


def has() -> set[str]:
    return {n for n in public() & set(vars(fsp)) if n not in NONE and n not in PLAIN}


def test_every_public_name_of_scipys_is_in_one_class() -> None:
    classes = [has(), set(NONE), set(MISSING), set(PLAIN)]
    assert set.union(*classes) == public()
    assert sum(map(len, classes)) == len(public())


def test_what_has_a_derivative_in_closed_form_has_it_here() -> None:
    assert len(has()) >= 0.95 * (len(has()) + len(MISSING))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: scipy.special.ellip_harm(5.0, 8.0, 1, 1, x),
        lambda x: scipy.special.lqn(2, x)[0],
        lambda x: scipy.special.mathieu_even_coef(2, x),
        lambda x: scipy.special.factorial2(x),
        lambda x: scipy.special.zetac(x),
        lambda x: scipy.special.kv(x, 1.0),
    ],
)
def test_what_has_none_is_refused_with_a_fix(call: Callable[[Any], Any]) -> None:
    with pytest.raises(FtraceError) as caught:
        ftrace.jvp(call, (0.5,), (1.0,))
    assert caught.value.fix


# ---------------------------------------------------------------------------------- edges


@pytest.mark.parametrize(
    ("name", "args", "by", "expected"),
    [
        ("gammainc", (2.0, 0.0), 0, 0.0),
        ("gammainc", (2.0, np.inf), 0, 0.0),
        ("betainc", (2.0, 3.0, 0.0), 0, 0.0),
        ("betainc", (2.0, 3.0, 1.0), 1, 0.0),
        ("stdtr", (3.0, 0.0), 0, 0.0),
        ("beip", (0.0,), 0, 0.5),
        ("berp", (0.0,), 0, 0.0),
        ("it2j0y0", (0.0,), 0, 0.0),
        ("it2struve0", (0.0,), 0, -2 / np.pi),
        ("ellipkinc", (np.pi / 2, 0.0), 1, np.pi / 8),
        ("ellipeinc", (np.pi / 2, 0.0), 1, -np.pi / 8),
        ("elliprg", (0.0, 1.0, 1.0), 0, 0.25 * np.pi / 2),
        ("elliprc", (1.0, 1.0), 1, -1 / 3),
        ("elliprc", (2.0, -1.0), 1, None),
        ("elliprc", (2.0, -1.0), 0, None),
        ("chndtr", (2.0, 4.0, 0.0), 0, np.exp(-1.0) / 2),
        ("lpmv", (0, 3, 1.0), 2, 6.0),
        ("lpmv", (2, 3, -1.0), 2, -30.0),
        ("eval_sh_legendre", (3, 1.0), 1, 12.0),
        ("wofz", (1e3j,), 0, None),
    ],
)
def test_derivatives_at_edges(name: str, args: Any, by: int, expected: Any) -> None:
    def f(t: Any) -> Any:
        y = getattr(fsp, name)(*args[:by], t, *args[by + 1 :])
        return y[0] if isinstance(y, tuple) else y

    found = along(f)(np.asarray(args[by])[()])
    if expected is None:
        expected = slope(f, args[by])
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def nth(f: Callable[[Any], Any], order: int) -> Callable[[Any], Any]:
    return f if order == 0 else along(nth(f, order - 1))


@pytest.mark.parametrize(
    ("f", "x", "truth"),
    [
        (
            lambda a: fsp.gammainc(a, 1.0),
            2.5,
            [-0.18009960695404151, 0.17286396981617788, -0.095673943908855515],
        ),
        (lambda a: fsp.betainc(a, 3.0, 0.3), 2.0, [-0.24609372774672351, 0.13180186717277769]),
        (lambda a: fsp.gammainc(a, 900.0), 950.0, [-0.0033998287489820161]),
        (lambda a: fsp.gammainc(a, 0.001), 0.001, [-6.2932038249004247]),
        (lambda a: fsp.betainc(a, 3.0, 1e-6), 0.01, [-10.898746909716914]),
        (lambda m: fsp.ellipkinc(5.0, m), 0.6, [3.7639792726537659]),
        (lambda m: fsp.ellipkinc(0.3, m), 1.0, [0.0047985600727385055]),
    ],
)
def test_derivatives_by_parameters_are_precise(f: Any, x: float, truth: list[float]) -> None:
    """The truth is mpmath's, of 40 digits."""
    for order, expected in enumerate(truth, 1):
        found = nth(f, order)(np.float64(x))
        np.testing.assert_allclose(found, expected, rtol=4e-12)
