"""Products that kernels do: `dot_general` as multiplications and a sum.

A large matrix product belongs to BLAS. Small ones, inner and outer products, and matrices times
vectors gain nothing there, across their rows if they fit a cache: as a broadcast multiplication and
a reduction they fuse with their neighbours, and a loop over them needs no Python. A sum of few
terms is written out.
"""

from math import prod
from typing import Any, Final

import numpy as np

from ftrace.core.avals import ShapedArray, aval
from ftrace.core.jaxpr import Eqn, Var
from ftrace.core.kinds import way
from ftrace.core.lower import Product
from ftrace.core.primitive import Primitive
from ftrace.primitives.arithmetic import mul
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.few_terms import sum_of_products
from ftrace.primitives.linear import broadcast_in_dim, reduce_sum, transpose
from ftrace.primitives.shape import reshape
from ftrace.primitives.slicing import slice as slice_row

SMALL: Final = 2048  # multiplications
CACHED: Final = 65536  # elements of a matrix that is multiplied across its rows
COLUMNS: Final = 8  # of such a matrix, at least
FEW: Final = 8  # terms of a sum that is written out


def expanded(eqn: Eqn) -> list[Eqn] | None:
    """The equations of a product that a kernel should do; None for all others."""
    product = way(eqn.primitive, Product)
    if product is None:
        return None
    lhs, rhs = (a.aval for a in eqn.invars)
    (lc, rc), (lb, rb) = product.dims(**eqn.params)
    out = eqn.outvars[0].aval
    if out.dtype.kind not in "iufc":
        return None
    lf, rf = _free(lhs, lc, lb), _free(rhs, rc, rb)
    inner = tuple(lhs.shape[a] for a in lc)
    along_rows = (not rf and lc == (lhs.ndim - 1,)) or (not lf and rc == (rhs.ndim - 1,))
    terms = prod(inner)
    across = not (lf and rf) and not lb and out.size >= COLUMNS and out.size * terms <= CACHED
    if not (along_rows or across or terms == 1 or out.size * terms <= SMALL):
        return None
    nb, nl, nr = len(lb), len(lf), len(rf)
    shape = (*out.shape, *inner)
    contracted = tuple(range(out.ndim, len(shape)))
    parts: list[Eqn] = []
    left = _spread(eqn, 0, (*lb, *lf, *lc), (*range(nb + nl), *contracted), shape, out.dtype, parts)
    places = (*range(nb), *range(nb + nl, nb + nl + nr), *contracted)
    right = _spread(eqn, 1, (*rb, *rf, *rc), places, shape, out.dtype, parts)
    if not lc:
        parts.append(Eqn(mul, [left, right], {}, eqn.outvars, eqn.source))
        return parts
    half = out.dtype.kind == "f" and out.dtype.itemsize == 2  # it is added in single precision
    if nl and nr and 0 < terms <= FEW and out.size * terms <= SMALL and not half:
        return [*parts, *_written_out(eqn, (left, right), inner)]
    whole = Var(aval(shape, out.dtype))
    parts.append(Eqn(mul, [left, right], {}, [whole], eqn.source))
    parts.append(Eqn(reduce_sum, [whole], {"axes": contracted}, eqn.outvars, eqn.source))
    return parts


def _free(a: ShapedArray, contract: tuple[int, ...], batch: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(i for i in range(a.ndim) if i not in contract and i not in batch)


def _spread(  # noqa: PLR0913 - one operand's way into the product
    eqn: Eqn,
    which: int,
    order: tuple[int, ...],
    places: tuple[int, ...],
    shape: tuple[int, ...],
    dtype: np.dtype[np.generic],
    parts: list[Eqn],
) -> Var:
    """An operand with its axes in an order, at places of a shape."""
    x = eqn.invars[which]
    steps: list[tuple[Primitive, dict[str, Any], tuple[int, ...]]] = [
        (transpose, {"permutation": order}, tuple(x.aval.shape[a] for a in order)),
        (broadcast_in_dim, {"shape": shape, "broadcast_dimensions": places}, shape),
    ]
    if x.aval.dtype != dtype:
        steps.insert(0, (convert_element_type, {"new_dtype": dtype}, x.aval.shape))
    for row, params, result in steps:
        out = Var(aval(result, dtype))
        parts.append(Eqn(row, [x], params, [out], eqn.source))
        x = out
    return x


def _written_out(eqn: Eqn, factors: tuple[Var, Var], inner: tuple[int, ...]) -> list[Eqn]:
    """The sum of products of two factors along their last axes, term by term."""
    out = eqn.outvars[0].aval
    parts: list[Eqn] = []
    terms: list[Var] = []
    for at in np.ndindex(*inner):
        for x in factors:
            starts = (*(0 for _ in out.shape), *at)
            limits = (*out.shape, *(i + 1 for i in at))
            where = {
                "start_indices": starts,
                "limit_indices": limits,
                "strides": (1,) * len(starts),
            }
            piece = Var(aval((*out.shape, *(1 for _ in at)), out.dtype))
            term = Var(out)
            parts.append(Eqn(slice_row, [x], where, [piece], eqn.source))
            parts.append(Eqn(reshape, [piece], {"new_sizes": out.shape}, [term], eqn.source))
            terms.append(term)
    return [*parts, Eqn(sum_of_products, terms, {}, eqn.outvars, eqn.source)]
