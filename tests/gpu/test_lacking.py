"""Laws of rows on a device whose library lacks what CuPy lacks: exactly that is refused."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from ftrace.core.avals import typeof
from ftrace.core.errors import RuleError
from ftrace.core.primitive import Primitive
from tests.gpu import test_laws
from tests.gpu.emulation.device import HostDevice, selected
from tests.gpu.lacking import ROWS, lacks
from tests.gpu.test_laws import LAWS, Law, of_row
from tests.laws.cases import Case

CONCERNED = {*ROWS, "special", "erf", "erfc", "ndtr", "polygamma"}
IN_TURN = [
    pytest.param(law, cases, id=f"{name}-{row.name}")
    for name, (law, every) in LAWS.items()
    for row, cases in of_row(every).items()
    if row.name in CONCERNED
]


class Lacking(HostDevice):
    """A device whose library refuses what `refused` says, by a row, its types and parameters."""

    refused: Callable[..., Any] = staticmethod(lacks)

    def _evaluate(
        self, row: Primitive, args: Sequence[Any], params: Mapping[str, Any]
    ) -> list[Any]:
        if self.refused(row.name, params, [typeof(a).dtype for a in args]):
            raise RuleError(f"CuPy has no function for {row.name}.")
        return super()._evaluate(row, args, params)


@pytest.fixture
def device(emulation: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lacking]:
    """A device that the laws take for a GPU."""
    monkeypatch.setattr(test_laws, "without_gpu", lambda: "")
    with selected(Lacking()) as found:
        assert isinstance(found, Lacking)
        yield found


@pytest.mark.sampled(2)
@pytest.mark.by_name  # the table of CuPy's functions
@pytest.mark.parametrize(("law", "cases"), IN_TURN)
def test_what_cupy_lacks_is_refused_and_nothing_else(
    law: Law, cases: list[Case], device: Lacking
) -> None:
    test_laws.test_rows_on_a_device(law, cases, device)
    test_laws.test_compiled_rows_on_a_device(law, cases, device)


@pytest.mark.parametrize("row", ["logm", "special"])
def test_the_laws_tell_what_works_though_it_is_lacking_and_what_is_refused_though_it_is_not(
    row: str, device: Lacking
) -> None:
    law, every = LAWS["values"]
    cases = [case for case in every if case.row.name == row]
    device.refused = lambda *about: ""
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        test_laws.test_rows_on_a_device(law, cases, device)
    device.refused = lambda *about: "everything"
    others = [case for case in every if case.row.name == "lgamma"]
    with pytest.raises(RuleError, match="lgamma"):
        test_laws.test_rows_on_a_device(law, others, device)
