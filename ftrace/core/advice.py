"""What to do where Python asks for a plain value that a trace does not have."""

from typing import Final

INT_FIX: Final = (
    "Shapes and Python indices must be known: make the argument static (static_argnums), or index "
    "with numpy.take or x[i], which accept traced integers."
)
NUMBER_FIX: Final = (
    "Compute it outside of the traced function, or make the argument static (static_argnums)."
)
HASH_FIX: Final = (
    "It was to be a key of a dict, an item of a set, or an argument of a function that caches: "
    "decide with `if`, use a list, or call the function beneath (`f.__wrapped__`)."
)
PICKLE_FIX: Final = "Return it from the transformed function, and store the result."
LIST_FIX: Final = "A list that is to be multiplied must be an array: numpy.asarray(list) * x."
FLOAT_FIX: Final = (
    "Keep it an array: numpy.sin instead of math.sin, no float() on the way, and an array made by "
    "ftrace.numpy.zeros instead of a plain one that is filled (plain[i] = t)."
)
ARRAY_FIX: Final = (
    "np.array([t, 1.0]), np.full(3, t) and plain[i] = t convert: use ftrace.numpy.array or stack, "
    "ftrace.numpy.full, and ftrace.numpy.zeros for an array that is filled later."
)
NOT_REWRITTEN: Final = (
    " Functions of your own are rewritten to do this (ftrace.lift); this line belongs to a "
    "library, is called by one, or is none of those that can be rewritten."
)
COMPARED: Final = (
    " Tuples and lists are compared by Python itself, also by max, min and sorted of pairs, heapq "
    "and bisect: compare numbers (`x < y`), and find places by numpy.argmax, argmin, argsort and "
    "searchsorted."
)
