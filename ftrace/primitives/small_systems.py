"""Small systems as kernels: elimination written out, for each member of a stack at a time.

A row of linear algebra whose matrices have at most `LARGEST` rows is expanded into the elements of
its operands, one `small_system` of them, and a matrix of the results. That is a scalar program
over elements, so that a kernel does many members in the lanes of a vector, and a loop's body calls
nothing. Rows are exchanged as LAPACK does it, for the largest pivot; results are rounded otherwise.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.dtypes import float64
from ftrace.core.jaxpr import Eqn, Jaxpr, Literal, Var, eval_jaxpr
from ftrace.core.lower import Elementwise, Expansion
from ftrace.core.primitive import Primitive, Unsupported
from ftrace.primitives.arithmetic import abs, div, mul, neg, sub
from ftrace.primitives.compare import bitwise_or, eq, gt, le, lt, select
from ftrace.primitives.linear import add
from ftrace.primitives.powers import log, sqrt
from ftrace.primitives.shape import concatenate, reshape
from ftrace.primitives.slicing import slice
from ftrace.primitives.stacks import swapped

LARGEST: Final = 4
NUMBER: Final = aval((), float64)
Rows = list[list[Any]]


class _Program:
    """Equations over numbers, as they are written down."""

    def __init__(self) -> None:
        self.eqns: list[Eqn] = []

    def __call__(self, row: Primitive, *operands: Any) -> Any:
        """The variable of one more equation."""
        atoms = [Literal(np.float64(x)) if type(x) is float else x for x in operands]
        out = Var(row.type(*(x.aval for x in atoms)))
        self.eqns.append(Eqn(row, atoms, {}, [out], None))
        return out


# ---------------------------------------------------------------------------------- elimination


def _eliminated(p: _Program, rows: Rows) -> tuple[Any, Any]:
    """Make a matrix, with columns beside it, upper triangular in place.

    Returns:
        The sign of the order of rows, and whether there was a zero in the place of a pivot.
    """
    n = len(rows)
    sign: Any = 1.0
    singular = None
    for c in range(n):
        for r in range(c + 1, n):
            larger = p(gt, p(abs, rows[r][c]), p(abs, rows[c][c]))
            for j in range(c, len(rows[c])):
                above, below = rows[c][j], rows[r][j]
                rows[c][j] = p(select, larger, below, above)
                rows[r][j] = p(select, larger, above, below)
            sign = p(select, larger, -1.0 if sign == 1.0 else p(neg, sign), sign)
        zero = p(eq, rows[c][c], 0.0)
        singular = zero if singular is None else p(bitwise_or, singular, zero)
        factor = p(div, 1.0, rows[c][c]) if c + 1 < n else None
        for r in range(c + 1, n):
            scale = p(mul, rows[r][c], factor)
            for j in range(c + 1, len(rows[r])):
                rows[r][j] = p(sub, rows[r][j], p(mul, scale, rows[c][j]))
    return sign, singular


def _substituted(p: _Program, rows: Rows, singular: Any) -> list[Any]:
    """The columns beside an upper triangular matrix become the solutions, row by row."""
    n = len(rows)
    for c in reversed(range(n)):
        factor = p(div, 1.0, rows[c][c])
        for j in range(n, len(rows[c])):
            left = rows[c][j]
            for i in range(c + 1, n):
                left = p(sub, left, p(mul, rows[c][i], rows[i][j]))
            rows[c][j] = p(mul, left, factor)
    return [p(select, singular, np.nan, x) for row in rows for x in row[n:]]


def _solve(p: _Program, a: Rows, *b: Rows) -> list[Any]:
    rows = [x + y for x, y in zip(a, *b, strict=True)]
    _, singular = _eliminated(p, rows)
    return _substituted(p, rows, singular)


def _inv(p: _Program, a: Rows) -> list[Any]:
    one = np.eye(len(a))
    rows = [row + [Literal(x) for x in unit] for row, unit in zip(a, one, strict=True)]
    _, singular = _eliminated(p, rows)
    return _substituted(p, rows, singular)


def _det(p: _Program, a: Rows) -> list[Any]:
    sign, singular = _eliminated(p, a)
    found = a[0][0]
    for k in range(1, len(a)):
        found = p(mul, found, a[k][k])
    return [p(select, singular, 0.0, p(mul, sign, found))]


def _slogdet(p: _Program, a: Rows) -> list[Any]:
    sign, singular = _eliminated(p, a)
    size = None
    for k in range(len(a)):
        pivot = a[k][k]
        sign = p(select, p(lt, pivot, 0.0), p(mul, sign, -1.0), sign)
        part = p(log, p(abs, pivot))
        size = part if size is None else p(add, size, part)
    return [p(select, singular, 0.0, sign), p(select, singular, -np.inf, size)]


def _cholesky(p: _Program, a: Rows) -> list[Any]:
    n = len(a)
    refused: Any = None
    for c in range(n):
        for k in range(c):
            a[c][c] = p(sub, a[c][c], p(mul, a[c][k], a[c][k]))
        bad = p(le, a[c][c], 0.0)
        refused = bad if refused is None else p(bitwise_or, refused, bad)
        a[c][c] = p(sqrt, a[c][c])
        for r in range(c + 1, n):
            for k in range(c):
                a[r][c] = p(sub, a[r][c], p(mul, a[r][k], a[c][k]))
            a[r][c] = p(div, a[r][c], a[c][c])
    lower = [a[r][c] if c <= r else 0.0 for r in range(n) for c in range(n)]
    return [p(select, refused, np.nan, x) for x in lower]


def _minor(p: _Program, a: Rows, left_out: int, column: int) -> Any:
    """The determinant without a row and a column, by its first row."""
    rest = [[x for j, x in enumerate(r) if j != column] for i, r in enumerate(a) if i != left_out]
    if not rest:
        return 1.0
    if len(rest) == 1:
        return rest[0][0]
    found = None
    for j, x in enumerate(rest[0]):
        term = p(mul, x, _minor(p, rest, 0, j))
        found = term if found is None else p(sub if j % 2 else add, found, term)
    return found


def _cofactor(p: _Program, a: Rows) -> list[Any]:
    n = len(a)
    minors = [(i + j, _minor(p, a, i, j)) for i in range(n) for j in range(n)]
    found = [p(neg, m) if k % 2 else m for k, m in minors]
    return [Literal(np.float64(x)) if type(x) is float else x for x in found]


PROGRAMS: Final[dict[str, Callable[..., list[Any]]]] = {
    "solve": _solve,
    "inv": _inv,
    "det": _det,
    "slogdet": _slogdet,
    "cholesky": _cholesky,
    "cofactor": _cofactor,
}

# ---------------------------------------------------------------------------------- the row


@lru_cache(256)
def program(kind: str, sizes: tuple[tuple[int, int], ...]) -> Jaxpr:
    """The program over the elements of matrices of some sizes."""
    p = _Program()
    given = [[[Var(NUMBER) for _ in range(n)] for _ in range(m)] for m, n in sizes]
    invars = [v for matrix in given for row in matrix for v in row]
    outs = PROGRAMS[kind](p, *([list(row) for row in matrix] for matrix in given))
    return Jaxpr(invars, p.eqns, outs)


def _type(*elements: ShapedArray, kind: str, sizes: Any) -> tuple[ShapedArray, ...]:
    return tuple(aval(elements[0].shape, float64) for _ in program(kind, sizes).outvars)


_LATE: Final = Unsupported("Lowering makes this row, when no derivative is asked for any more.")

small_system: Final = Primitive(
    name="small_system",
    impl=lambda *elements, kind, sizes: eval_jaxpr(program(kind, sizes), elements),
    type=_type,
    jvp=_LATE,
    transpose=_LATE,
    batch=_LATE,
    lower=Elementwise(lambda avals, kind, sizes: program(kind, sizes), stored=True),
    multiple=True,
    doc="A system of linear algebra, of the elements of its matrices.",
)

# ---------------------------------------------------------------------------------- expansion


def _elements(x: Any) -> list[Any]:
    """The elements of matrices, each for all of a stack."""
    *batch, m, n = typeof(x).shape
    return [_element(x, batch, (i, j)) for i in range(m) for j in range(n)]


def _element(x: Any, batch: Sequence[int], place: Sequence[int]) -> Any:
    starts = (*(0 for _ in batch), *place)
    limits = (*batch, *(i + 1 for i in place))
    found = slice(x, start_indices=starts, limit_indices=limits, strides=(1,) * len(starts))
    return reshape(found, new_sizes=tuple(batch))


def _matrix(elements: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """Matrices of their elements."""
    batch = shape[:-2]
    parts = [reshape(x, new_sizes=(*batch, 1)) for x in elements]
    return reshape(concatenate(*parts, dimension=len(batch)), new_sizes=shape)


def small(kind: str, matrices: int = 1) -> Expansion:
    """The expansion of a row of square matrices of double precision, and perhaps columns.

    Args:
        kind: a name in `PROGRAMS`.
        matrices: the number of operands that the results have the shape of: 1; or 0, and they are
            numbers.

    The rule's `lower`: whether the lower triangles of matrices are meant, as by programs; else
    matrices are turned before and after.
    """

    def rule(*operands: Any, lower: bool = True) -> Any:
        avals = [typeof(x) for x in operands]
        n, shape = avals[0].shape[-1], avals[-1].shape
        if not 0 < n <= LARGEST or avals[0].dtype != float64 or 0 in shape or shape[-1] > LARGEST:
            return None
        operands = operands if lower else tuple(map(swapped, operands))
        elements = [e for x in operands for e in _elements(x)]
        sizes = tuple(a.shape[-2:] for a in avals)
        found = small_system(*elements, kind=kind, sizes=sizes)
        if matrices:
            return _matrix(found, shape) if lower else swapped(_matrix(found, shape))
        return found if len(found) > 1 else found[0]

    return Expansion(rule)
