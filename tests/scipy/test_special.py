"""ftrace.scipy.special: SciPy's values over wide ranges and at edges, and derivatives."""

from decimal import Decimal, getcontext
from typing import Any

import numpy as np
import pytest
import scipy.special

import ftrace
import ftrace.scipy.special as fsp
from ftrace.core.errors import RuleError
from ftrace.numpy.scipy_special import ROWS
from ftrace.primitives.families import Reals
from ftrace.primitives.scipy_functions import FUNCTIONS

EDGES = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-310, 1e300, 0.5, 2, -37.5, 0.75])
# where the operands of functions lie that are not of the table
UNIT, POSITIVE, ANY = Reals(0.05, 0.95), Reals(0.2, 5), Reals(-4, 4)
DOMAINS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("logit", "ndtri"), (UNIT,)),
    **dict.fromkeys(("ndtr", "log_ndtr", "expit", "log_expit", "erf", "erfc", "cosm1"), (ANY,)),
    **dict.fromkeys(("cbrt", "exp2", "exp10", "expm1", "i0", "i1", "i0e", "i1e"), (ANY,)),
    **dict.fromkeys(
        ("sici", "shichi", "log1p", "psi", "digamma", "gamma", "gammaln", "entr"), (POSITIVE,)
    ),
    **dict.fromkeys(("fresnel", "airy"), (ANY,)),
    "erfinv": (Reals(-0.9, 0.9),),
    **dict.fromkeys(("rel_entr", "kl_div", "agm"), (POSITIVE, POSITIVE)),
    **dict.fromkeys(("xlogy", "xlog1py"), (ANY, POSITIVE)),
    **dict.fromkeys(("chdtr", "chdtrc", "pdtr", "pdtrc", "gammainc", "gammaincc"), (2, POSITIVE)),
    **dict.fromkeys(("iv", "ive", "jv"), (2, POSITIVE)),
    "chdtri": (3, UNIT),
    **dict.fromkeys(("fdtr", "fdtrc"), (3, 5, POSITIVE)),
    **dict.fromkeys(("gdtr", "gdtrc"), (POSITIVE, 2, POSITIVE)),
    **dict.fromkeys(("modfresnelp", "modfresnelm", "round"), (POSITIVE,)),
    "kelvin": (POSITIVE,),
    "radian": (POSITIVE, POSITIVE, POSITIVE),
}
# of these SciPy's values are no smooth functions, or their derivatives have no derivatives
VALUES: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("mathieu_a", "mathieu_b"), (2, POSITIVE)),
    **dict.fromkeys(("smirnov", "smirnovi"), (4, UNIT)),
    **dict.fromkeys(("pro_cv", "obl_cv"), (1, 2, POSITIVE)),
    "ncfdtrinc": (3, 5, Reals(0.2, 0.45), Reals(2, 4)),
    "ncfdtridfn": (Reals(0.3, 0.4), 5, 1, Reals(1, 2)),
    "ncfdtridfd": (3, Reals(0.3, 0.4), 1, Reals(1, 2)),
    "nctdtridf": (Reals(0.9, 0.95), 0, Reals(1.5, 1.6)),
    "chndtridf": (POSITIVE, UNIT, 1),
}
for KIND, AT in (("ang1", UNIT), ("rad1", Reals(4, 6)), ("rad2", Reals(4, 6))):
    for NAME in ("pro", "obl"):
        CV = float(getattr(scipy.special, f"{NAME}_cv")(1, 2, 1))
        VALUES[f"{NAME}_{KIND}_cv"] = (1, 2, 1, Reals(CV, CV), AT)


def domains(name: str) -> tuple[Any, ...]:
    """Where the operands of a function lie."""
    known = DOMAINS.get(name) or VALUES.get(name)
    return known or FUNCTIONS.get(name, FUNCTIONS.get(f"{name}_0")).samples  # type: ignore[union-attr]


NAMES = sorted(
    name
    for name in ROWS
    if name in vars(fsp) and isinstance(getattr(scipy.special, name), np.ufunc)
)


def operands(name: str, dtype: str) -> list[Any]:
    """Operands of a function: arrays where it varies, numbers where it has an order."""
    rng = np.random.default_rng(5)
    kind = "c8" if FUNCTIONS.get(name) is not None and FUNCTIONS[name].kinds == "c" else "f4"
    wide = {"f4": kind, "f8": {"f4": "f8", "c8": "c16"}[kind]}[dtype]
    return [d if isinstance(d, int) else d.draw(rng, (40,), wide) for d in domains(name)]


def parts(y: Any) -> list[Any]:
    return list(y) if isinstance(y, tuple) else [y]


SPHEROIDAL = [n for n in NAMES if n.startswith(("pro_", "obl_"))]
REFUSED = {
    *((n, "f4") for n in ("bdtr", "bdtrc", "bdtri")),  # SciPy fails where warnings are errors
    *((n, "f4") for n in SPHEROIDAL),  # SciPy's own do not end
}
WIDTHS = [(name, dtype) for name in NAMES for dtype in ("f8", "f4")]


@pytest.mark.sampled(2, each="name")
@pytest.mark.parametrize(("name", "dtype"), [w for w in WIDTHS if w not in REFUSED])
def test_a_compiled_ufunc_has_scipys_value_and_dtype(name: str, dtype: str) -> None:
    ufunc, args = getattr(scipy.special, name), operands(name, dtype)
    moving = [i for i, a in enumerate(args) if not isinstance(a, int)]

    def compiled(f: Any) -> list[Any]:
        def program(*xs: Any) -> Any:
            given = iter(xs)
            return f(*[next(given) if i in moving else a for i, a in enumerate(args)])

        return parts(ftrace.jit(program)(*[args[i] for i in moving]))

    ours, theirs = compiled(getattr(fsp, name)), compiled(ufunc)
    for a, b, c in zip(ours, theirs, parts(ufunc(*args)), strict=True):
        assert a.dtype == c.dtype
        np.testing.assert_array_equal(a, b, strict=True)
        np.testing.assert_allclose(a, c, rtol=3e-13 if dtype == "f8" else 2e-6, atol=1e-14)


COMPLEX = ("kelvin", "modfresnelp", "modfresnelm")  # tests/scipy/test_special_slopes.py
MADE = [name for name in NAMES if DOMAINS.get(name) and name not in COMPLEX]


@pytest.mark.parametrize("name", MADE)
def test_derivatives_agree_with_differences_to_order_two(name: str) -> None:
    args = [a if isinstance(a, int) else np.float64(a[3]) for a in operands(name, "f8")]
    for i, x in enumerate(args):
        if isinstance(x, int):
            continue

        def f(t: Any, i: int = i) -> Any:
            y = getattr(fsp, name)(*args[:i], t, *args[i + 1 :])
            return sum(parts(y))

        h = 1e-5
        slope = ftrace.grad(f)
        np.testing.assert_allclose(slope(x), (f(x + h) - f(x - h)) / (2 * h), rtol=2e-8, atol=1e-9)
        second = (slope(x + h) - slope(x - h)) / (2 * h)
        np.testing.assert_allclose(ftrace.grad(slope)(x), second, rtol=2e-8, atol=1e-8)


KERNELS = ("ndtr", "logit", "log_expit", "entr", "xlog1py", "rel_entr", "kl_div")


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2"])
@pytest.mark.parametrize("name", KERNELS)
def test_compiled_kernels_have_scipys_values_at_edges(name: str, dtype: str) -> None:
    f, ufunc = getattr(fsp, name), getattr(scipy.special, name)
    with np.errstate(all="ignore"):
        x = EDGES.astype(dtype)
        args = [x] if ufunc.nin == 1 else [a.ravel() for a in np.meshgrid(x, x)]
        expected = ufunc(*args)
    found = ftrace.jit(f)(*args)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-12 if dtype == "f8" else 1e-6, atol=1e-307)


def ndtr_of(x: float) -> Decimal:
    """The normal distribution function far below 0, by a continued fraction."""
    z, f = -Decimal(x) / Decimal(2).sqrt(), Decimal(0)
    for k in range(400, 0, -1):
        f = Decimal(k) / 2 / (z + f)
    pi = Decimal("3.14159265358979323846264338327950288419716939937510582097494")
    return (-z * z).exp() / (pi.sqrt() * (z + f)) / 2


def test_the_compiled_normal_distribution_function_is_precise_in_its_tail() -> None:
    getcontext().prec = 50
    x = -np.linspace(4, 37, 60)
    for value, at in zip(ftrace.jit(fsp.ndtr)(x), x, strict=True):
        truth = ndtr_of(float(at))
        assert abs(Decimal(float(value)) - truth) <= 2 * Decimal(float(np.spacing(float(truth))))


@pytest.mark.parametrize(
    ("name", "x", "expected"),
    [
        ("rgamma", -1.0, -1.0),
        ("rgamma", 0.0, 1.0),
        ("rgamma", 0.5, scipy.special.psi(0.5) / -np.sqrt(np.pi)),
        ("j1", 0.0, 0.5),
        ("exprel", 0.0, 0.5),
        ("spence", 1.0, -1.0),
        ("ellipk", 0.0, np.pi / 8),
        ("ellipe", 0.0, -np.pi / 8),
        ("ellipkm1", 1.0, -np.pi / 8),
        ("erfcx", 1e6, -1 / (np.sqrt(np.pi) * 1e12)),
        ("dawsn", -1e6, -0.5e-12),
        ("gammasgn", -1.5, 0.0),
    ],
)
def test_derivatives_at_removable_singularities_and_far_out(
    name: str, x: float, expected: float
) -> None:
    assert ftrace.grad(getattr(fsp, name))(x) == pytest.approx(expected, rel=1e-11)
    assert np.isfinite(ftrace.grad(ftrace.grad(getattr(fsp, name)))(x))


def test_box_cox_is_smooth_where_the_power_is_0() -> None:
    assert ftrace.grad(fsp.boxcox, 1)(3.0, 0.0) == pytest.approx(np.log(3) ** 2 / 2)
    assert ftrace.grad(fsp.inv_boxcox, 1)(1.5, 0.0) == pytest.approx(-np.exp(1.5) * 1.5**2 / 2)


def test_the_sine_integral_is_smooth_at_0() -> None:
    slope = ftrace.grad(lambda x: fsp.sici(x)[0])
    third = ftrace.grad(ftrace.grad(slope))
    assert slope(0.0) == 1.0
    assert third(0.0) == pytest.approx(-1 / 3)


def test_an_order_has_no_derivative_and_the_error_says_so() -> None:
    with pytest.raises(RuleError, match="yv has no derivative by its first operand"):
        ftrace.grad(lambda v: scipy.special.yv(v, 1.0))(0.5)


def test_black_scholes_is_one_kernel() -> None:
    def price(s: Any) -> Any:
        d = (np.log(s / 100) + 0.03) / 0.2
        return s * scipy.special.ndtr(d + 0.2) - 100 * np.exp(-0.01) * scipy.special.ndtr(d)

    s = np.linspace(50, 150, 1000)
    lowered = ftrace.jit(price).lower(s)
    assert len(lowered.launches) == 1
    np.testing.assert_allclose(ftrace.jit(price)(s), price(s), rtol=1e-12, atol=1e-14)


# ---------------------------------------------------------------------------------- no ufuncs

X = np.array([[0.3, -1.0, 2.0], [5.0, -np.inf, 0.0]])
COMPOSED = [
    ("logsumexp", (X,), {}),
    ("logsumexp", (X,), {"axis": 1}),
    ("logsumexp", (X,), {"axis": (0, 1), "keepdims": True}),
    ("logsumexp", (X,), {"axis": 0, "b": np.array([1.0, -0.5, 2.0]), "return_sign": True}),
    ("logsumexp", (np.array([0.0, -40.0, -50]),), {}),
    ("logsumexp", (np.array([-np.inf, -np.inf]),), {}),
    ("logsumexp", (np.array([np.inf, 1.0]),), {}),
    ("logsumexp", (np.array([np.nan, 1.0]),), {}),
    ("logsumexp", (np.array([1000.0, 1000.5]),), {}),
    ("logsumexp", (np.array([1.0 + 2j, 1.5 - 1j]),), {}),
    ("logsumexp", (np.float64(2),), {}),
    ("softmax", (X,), {}),
    ("softmax", (X,), {"axis": 1}),
    ("log_softmax", (X[:1],), {"axis": 1}),
    ("log_softmax", (X,), {}),
    ("comb", (np.array([5.0, 4, 2, -1]), np.array([2.0, 4, 3, 1])), {}),
    ("comb", (np.array([5, 4, 2, 0]), np.array([2, 4, 3, 0])), {"repetition": True}),
    ("perm", (np.array([5.0, 4, 2, -1]), np.array([2.0, 4, 3, 1])), {}),
    ("factorial", (np.array([0.0, 3, 5.5, -1, np.nan]),), {}),
    ("multigammaln", (np.array([3.0, 7.5]), 3), {}),
    ("polygamma", (np.array([0, 1, 2]), np.array([1.5, 2.5, 0.5])), {}),
    ("zeta", (np.array([2.5, 3.0]), np.array([1.5, 2.5])), {}),
    ("zeta", (np.array([2.5, 3.0]),), {}),
    *((f"spherical_{k}n", (2, np.array([0.5, 2.0])), {}) for k in "jyik"),
    ("spherical_jn", (np.array([0, 2]), np.array([0.5, 2.0]), True), {}),
    ("lambertw", (np.array([0.5, 2.0]),), {}),
    ("lambertw", (np.array([0.5, 2.0]), -1), {}),
    ("softplus", (X,), {}),
]


@pytest.mark.parametrize(("name", "args", "options"), COMPOSED)
def test_functions_that_are_no_ufuncs_have_scipys_values(
    name: str, args: Any, options: Any
) -> None:
    ours, theirs = getattr(fsp, name), getattr(scipy.special, name)
    statics = tuple(i for i, a in enumerate(args) if not isinstance(a, np.ndarray))
    found = ftrace.jit(lambda *xs: ours(*xs, **options), static_argnums=statics)(*args)
    for a, b in zip(parts(found), parts(theirs(*args, **options)), strict=True):
        assert np.shape(a) == np.shape(b)
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-300)
    for a, b in zip(parts(ours(*args, **options)), parts(theirs(*args, **options)), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["logsumexp", "softmax", "log_softmax"])
def test_sums_of_exponentials_stay_in_single_precision(name: str) -> None:
    x = np.array([1.0, 2.0], np.float32)
    assert ftrace.jit(getattr(fsp, name))(x).dtype == np.float32


def test_the_derivative_of_logsumexp_is_softmax() -> None:
    x = np.array([0.5, 2.0, 2.0, -800.0, -np.inf])
    np.testing.assert_allclose(ftrace.grad(fsp.logsumexp)(x), scipy.special.softmax(x), rtol=1e-14)
    weights = np.array([1.0, -0.5, 2.0, 1.0, 0.0])
    found = ftrace.grad(lambda b: fsp.logsumexp(x[:4], b=b))(weights[:4])
    total = np.sum(weights[:4] * np.exp(x[:4]))
    np.testing.assert_allclose(found, np.exp(x[:4]) / total, rtol=1e-14)
    hessian = ftrace.hessian(fsp.logsumexp)(x[:3])
    p = scipy.special.softmax(x[:3])
    np.testing.assert_allclose(hessian, np.diag(p) - np.outer(p, p), atol=1e-15)


def test_what_multigammaln_refuses_it_refuses_compiled() -> None:
    with pytest.raises(ValueError, match="condition a"):
        ftrace.jit(lambda a: fsp.multigammaln(a, 3))(np.array([0.5]))


def test_functions_are_mapped() -> None:
    x = np.random.default_rng(0).normal(size=(4, 3))
    np.testing.assert_allclose(
        ftrace.vmap(fsp.logsumexp)(x), scipy.special.logsumexp(x, axis=1), rtol=1e-15
    )
    np.testing.assert_array_equal(ftrace.vmap(fsp.ndtr)(x), scipy.special.ndtr(x))
    np.testing.assert_array_equal(
        ftrace.vmap(fsp.betainc, (None, None, 0))(2.0, 3.0, abs(x) / 9),
        scipy.special.betainc(2.0, 3.0, abs(x) / 9),
    )


# ---------------------------------------------------------------------------------- by SciPy's name


def entropy(x: Any) -> Any:
    return scipy.special.logsumexp(x) + np.sum(scipy.special.softmax(x) * x)


def test_scipys_functions_on_traced_arrays_become_ours() -> None:
    x = np.array([0.5, 1.0, -2.0])
    p = scipy.special.softmax(x)
    expected = p + p * (1 + x - np.sum(p * x))
    for f in (ftrace.grad(entropy), ftrace.jit(ftrace.grad(entropy))):
        np.testing.assert_allclose(f(x), expected, rtol=1e-14)
    np.testing.assert_allclose(ftrace.jit(entropy)(x), entropy(x), rtol=1e-15)
    np.testing.assert_allclose(ftrace.vmap(entropy)(np.stack([x, x])), [entropy(x)] * 2, rtol=1e-15)


def test_scipys_functions_of_plain_arrays_stay_scipys_in_lifted_code() -> None:
    seen = []

    def f(x: Any) -> Any:
        seen.append(scipy.special.comb(5, 2, exact=True))
        return scipy.special.factorial(x) * seen[-1]

    assert ftrace.jit(f)(3.0) == 60.0
    assert seen[-1] == 10
    assert type(seen[-1]) is int
