"""What becomes of each public name of scipy.special: which has a derivative here, and why not."""

_ORDER = "its operands are orders and parameters, by which it has no derivative in closed form"
_LAME = "SciPy gives Lamé functions without slopes, and their coefficients by an eigenproblem"
_LEGENDRE = "expressible, and not here: eval_legendre and lpmv are of the first kind"
NONE = {
    "zetac": _ORDER,
    "chndtridf": "the noncentral distributions have no derivative by their freedom in closed form",
    "nctdtridf": "the noncentral distributions have no derivative by their freedom in closed form",
    "ncfdtridfn": "the noncentral distributions have no derivative by their freedom in closed form",
    "ncfdtridfd": "the noncentral distributions have no derivative by their freedom in closed form",
    **dict.fromkeys(("ellip_harm", "ellip_harm_2", "ellip_normal"), _LAME),
    **dict.fromkeys(("mathieu_even_coef", "mathieu_odd_coef"), _ORDER),
    **dict.fromkeys(("pro_cv_seq", "obl_cv_seq"), _ORDER),
}
"""Without a derivative in closed form."""

MISSING = {
    **dict.fromkeys(("lqn", "lqmn"), _LEGENDRE),
    "pbdn_seq": "expressible, and not here: of complex arguments",
    "factorial2": "expressible by gamma; SciPy takes integers",
    "factorialk": "expressible by gamma; SciPy takes integers",
}
"""With a derivative, which is not here."""

_OLD = [
    "c",
    "cg",
    "h",
    "he",
    "j",
    "js",
    "l",
    "la",
    "p",
    "ps",
    "s",
    "t",
    "ts",
    "u",
    "us",
]  # old names of nodes of Gauss's rules
_BASES = [
    "chebyc",
    "chebys",
    "chebyt",
    "chebyu",
    "gegenbauer",
    "genlaguerre",
    "hermite",
    "hermitenorm",
    "jacobi",
    "laguerre",
    "legendre",
    "sh_chebyt",
    "sh_chebyu",
    "sh_jacobi",
    "sh_legendre",
]
_ZEROS = [
    "ai_zeros",
    "bi_zeros",
    "bei_zeros",
    "beip_zeros",
    "ber_zeros",
    "berp_zeros",
    "kei_zeros",
    "keip_zeros",
    "ker_zeros",
    "kerp_zeros",
    "kelvin_zeros",
    "erf_zeros",
    "fresnel_zeros",
    "fresnelc_zeros",
    "fresnels_zeros",
    "jn_zeros",
    "jnp_zeros",
    "jnjnp_zeros",
    "jnyn_zeros",
    "y0_zeros",
    "y1_zeros",
    "y1p_zeros",
    "yn_zeros",
    "ynp_zeros",
]
PLAIN = {
    *_ZEROS,
    *_BASES,
    *(f"roots_{basis}" for basis in _BASES),
    *(f"{basis}_roots" for basis in _OLD),
    *("bernoulli", "euler", "stirling2"),
    *("SpecialFunctionError", "SpecialFunctionWarning", "errstate", "geterr", "seterr", "test"),
}
"""Tables and polynomials of integers, and settings: called with plain values."""
