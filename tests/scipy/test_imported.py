"""Functions of other people, imported and never copied, under jvp, vjp, vmap and jit."""

from typing import Any

import numpy as np
import pytest

from ftrace.core.config import update
from tests.scipy.agreeing import CHECKS
from tests.scipy.imported import (
    Case,
    moving,
    polynomials,
    resolve,
    samples,
    scipys,
    scores,
    special,
)

CASES = [*polynomials(), *special(), *scipys(), *samples()]


def check(case: Case, names: tuple[str, ...] = tuple(CHECKS)) -> None:
    path, args, options = case
    f, places = resolve(path), moving(args)

    def program(*xs: Any) -> Any:
        given = dict(zip(places, xs, strict=True))
        return f(*(given.get(i, a) for i, a in enumerate(args)), **options)

    with update(compile=False), np.errstate(all="ignore"):
        for name in names:
            CHECKS[name](program, [args[i] for i in places])


@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)])
def test_imported_functions_are_transformed_as_they_stand(case: Case) -> None:
    check(case)


def test_there_are_many_of_scipys() -> None:
    assert len({path for path, _, _ in CASES if path.startswith("scipy.")}) >= 150
    assert len({path for path, _, _ in CASES if path.startswith("numpy.")}) >= 90


@pytest.mark.parametrize("case", list(scores()), ids=lambda c: c[0])
def test_scores_of_scikit_learn(case: Case) -> None:
    """Its question whether all values are finite has an answer in text: staged, it is left out."""
    sklearn = pytest.importorskip("sklearn")
    check(case, ("jvp", "vjp"))
    with sklearn.config_context(assume_finite=True):
        check(case, ("vmap", "jit"))
