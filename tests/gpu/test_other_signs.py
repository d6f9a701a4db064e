"""Laws of rows on a device whose library gives vectors other signs and phases than NumPy's.

cuSOLVER does so. What the laws compare must not depend on it, and still tell a wrong result.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from ftrace.core.primitive import Primitive
from tests.gpu import test_laws
from tests.gpu.emulation.device import HostDevice, selected
from tests.gpu.test_laws import LAWS, Law, of_row
from tests.laws.cases import Case

Turn = Callable[[list[Any]], list[Any]]
# Their results, or their derivatives, are made of vectors.
ROWS = ("eigh", "eigvalsh", "svd", "svdvals", "pinv", "least_squares", "cofactor")
IN_TURN = [
    pytest.param(law, cases, id=f"{name}-{row.name}")
    for name, (law, every) in LAWS.items()
    for row, cases in of_row(every).items()
    if row.name in ROWS
]


class Turning(HostDevice):
    """A device of a library whose vectors are turned: `turns` by the names of rows."""

    def __init__(self, turns: Mapping[str, Turn]) -> None:
        super().__init__()
        self.turns = turns

    def _evaluate(
        self, row: Primitive, args: Sequence[Any], params: Mapping[str, Any]
    ) -> list[Any]:
        found = super()._evaluate(row, args, params)
        turn = self.turns.get(row.name)
        return found if turn is None else turn(found)


def _phases(dtype: np.dtype[Any]) -> Any:
    """Numbers of size 1, for the vectors that a matrix may have."""
    number = np.arange(1, 9)
    return np.exp(2j * number).astype(dtype) if dtype.kind == "c" else (-1.0) ** number


def _columns(x: Any) -> Any:
    return (x * _phases(x.dtype)[: x.shape[-1]]).astype(x.dtype)


def _eigh(found: list[Any]) -> list[Any]:
    w, v = found
    return [w, _columns(v)]


def _svd(found: list[Any]) -> list[Any]:
    u, s, vh = found
    return [
        _columns(u),
        s,
        np.conj(np.swapaxes(_columns(np.conj(np.swapaxes(vh, -1, -2))), -1, -2)),
    ]


def _left_alone(found: list[Any]) -> list[Any]:
    """What is no decomposition: only U is turned."""
    return [_columns(found[0]), *found[1:]]


def _exchanged(found: list[Any]) -> list[Any]:
    """What is no decomposition: the vectors of other values."""
    return [found[0], found[1][..., ::-1].copy()]


def _device(turns: Mapping[str, Turn]) -> Iterator[Turning]:
    with selected(Turning(turns)) as device:
        assert isinstance(device, Turning)
        yield device


@pytest.fixture
def turning(emulation: None) -> Iterator[Turning]:
    yield from _device({"eigh": _eigh, "svd": _svd})


@pytest.fixture
def wrong(emulation: None) -> Iterator[Turning]:
    yield from _device({"eigh": _exchanged, "svd": _left_alone})


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("law", "cases"), IN_TURN)
def test_signs_and_phases_of_vectors_change_nothing(
    law: Law, cases: list[Case], turning: Turning
) -> None:
    test_laws.test_rows_on_a_device(law, cases, turning)
    test_laws.test_compiled_rows_on_a_device(law, cases, turning)


@pytest.mark.parametrize(
    ("law", "cases"), [p for p in IN_TURN if p.values[1][0].row.name in ("eigh", "svd")]
)
def test_vectors_that_are_none_are_told(law: Law, cases: list[Case], wrong: Turning) -> None:
    with pytest.raises(AssertionError):
        test_laws.test_rows_on_a_device(law, cases, wrong)
