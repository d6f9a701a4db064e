"""Which functions and methods do what to what they get: tables for `calling.py`, by name."""

from collections.abc import Iterable
from typing import Final

# names of functions that only pass on what they get, or views of it: no content is read
PASSING: Final = frozenset(
    """
    reshape ravel transpose view swapaxes squeeze expand_dims moveaxis rollaxis broadcast_to
    atleast_1d atleast_2d atleast_3d asarray ascontiguousarray asfortranarray real imag
    diagonal permute_dims matrix_transpose zip enumerate reversed list tuple dict set
    frozenset iter next map filter chain islice product copy items values keys get partial
    tree_map tree_leaves tree_flatten tree_unflatten tree_structure tree_reduce cycle repeat
    type id isinstance issubclass hasattr callable len shape ndim size zeros_like
    ones_like empty_like result_type
    """.split()  # noqa: SIM905 - a table
)
# of these, what pass on their first argument alone and read the others, shapes and counts
FIRST: Final = frozenset(
    """
    reshape ravel transpose view swapaxes squeeze expand_dims moveaxis rollaxis broadcast_to
    diagonal permute_dims enumerate islice product repeat zeros_like ones_like empty_like size
    """.split()  # noqa: SIM905 - a table
)
ITERATING: Final = ("iter", "next", "reversed", "len", "list", "tuple", "zip", "enumerate")
# of traced values they give something that is not traced
PLAIN: Final = frozenset(
    """
    shape ndim size result_type isscalar iterable len isinstance issubclass type id hasattr
    callable range zip enumerate list tuple dict set map filter getattr iter next sorted
    can_cast promote_types min_scalar_type iscomplexobj isrealobj partial dtype finfo
    """.split()  # noqa: SIM905 - a table
)
WRITING: Final = frozenset(
    """
    append extend insert remove clear update add discard setdefault sort reverse appendleft
    extendleft
    """.split()  # noqa: SIM905 - a table
)
LIFE: Final = frozenset(
    """
    __init__ __new__ __del__ __repr__ __str__ __getattr__ __getattribute__ __setattr__
    __delattr__ __init_subclass__ __class_getitem__ __subclasshook__ __reduce__ __reduce_ex__
    __getstate__ __setstate__ __post_init__ __set_name__ __format__ __dir__ __sizeof__
    __call__ __copy__ __deepcopy__ __setitem__ __delitem__
    """.split()  # noqa: SIM905 - a table
)

# special methods by what asks for them; arrays and numbers ask an operand what it is, besides
TRUTH: Final = ("__bool__", "__len__")
ITEMS: Final = ("__getitem__", "__missing__")
ITERATION: Final = ("__iter__", "__next__", "__getitem__", "__len__")
ENTERING: Final = ("__enter__", "__exit__", "__aenter__", "__aexit__")
_CONVERTING: Final = (
    *("__array_ufunc__", "__array_function__", "__array__", "__array_wrap__", "__array_finalize__"),
    *("__float__", "__int__", "__complex__", "__index__", "__len__", "__getitem__", "__iter__"),
)


def _of(names: Iterable[str]) -> tuple[str, ...]:
    return (*(f"__{name}__" for name in names), *_CONVERTING)


BINARY: Final = {
    sign: _of((name, f"r{name}", f"i{name}"))
    for sign, name in {
        "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod",
        "**": "pow", "@": "matmul", "&": "and", "|": "or", "^": "xor", "<<": "lshift",
        ">>": "rshift",
    }.items()
}  # fmt: skip
COMPARING: Final = _of(("lt", "le", "eq", "ne", "gt", "ge"))
UNARY: Final = {
    "UNARY_NEGATIVE": _of(("neg",)),
    "UNARY_POSITIVE": _of(("pos",)),
    "UNARY_INVERT": _of(("invert",)),
    "UNARY_NOT": TRUTH,
}
