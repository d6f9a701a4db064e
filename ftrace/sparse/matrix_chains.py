"""The cheapest order of a product of several matrices, by their shapes and structures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from ftrace.core.device import is_array

Order = Any  # a number of a factor, or a pair of orders


def best_order(factors: Sequence[Any]) -> Order:
    """How to put brackets: a nest of pairs of the numbers of factors.

    A product costs the multiplications of its left factor for each column of the right one, or the
    other way round, whichever is less where both are factors; what was multiplied is dense. Dynamic
    programming over all ways to put brackets (Godbole 1973).
    """
    shapes = [f.shape for f in factors]

    @cache
    def cheapest(i: int, j: int) -> tuple[int, Order]:
        if i == j:
            return 0, i
        ways = []
        for k in range(i, j):
            (a, left), (b, right) = cheapest(i, k), cheapest(k + 1, j)
            m, n, p = shapes[i][0], shapes[k][1], shapes[j][1]
            costs = [factors[i].work * p] if i == k else []
            costs += [m * factors[j].work] if j == k + 1 else []
            ways.append((a + b + min(costs, default=m * n * p), (left, right)))
        return min(ways, key=lambda way: way[0])

    return cheapest(0, len(factors) - 1)[1]


def order_text(factors: Sequence[Any]) -> str:
    """The order with brackets: `(A0 (A1 A2))`."""

    def text(order: Order) -> str:
        return f"A{order}" if type(order) is int else f"({' '.join(map(text, order))})"

    return text(best_order(factors))


def multiplied(factors: Sequence[Any]) -> Any:
    """The product as an array, in the best order."""

    def value(order: Order) -> Any:
        if type(order) is int:
            return factors[order]
        left, right = map(value, order)
        if is_array(left):
            return left @ right if is_array(right) else right.T.matmat(left.T).T
        return left.matmat(right if is_array(right) else right.toarray())

    found = value(best_order(factors))
    return found if is_array(found) else found.toarray()
