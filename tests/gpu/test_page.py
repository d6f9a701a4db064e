"""docs/gpu.md: what it shows without a GPU is true; what needs one runs where there is one."""

import doctest
import re
from pathlib import Path

import pytest

from tests.gpu.devices import without_gpu

PAGE = Path(__file__).resolve().parents[2] / "docs" / "gpu.md"
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
SHOWN = [block for block in BLOCKS if ">>>" in block]
OTHERS = [block for block in BLOCKS if ">>>" not in block]


def test_what_the_page_shows_without_a_gpu_is_so(emulation: None) -> None:
    assert SHOWN
    for i, block in enumerate(SHOWN):
        example = doctest.DocTestParser().get_doctest(block, {}, f"block {i}", str(PAGE), 0)
        assert example.examples
        found = doctest.DocTestRunner(optionflags=FLAGS).run(example)
        assert found.failed == 0


@pytest.mark.parametrize("block", OTHERS)
def test_what_needs_a_gpu_runs_there(block: str) -> None:
    code = compile(block, str(PAGE), "exec")
    if reason := without_gpu():
        pytest.skip(reason)
    exec(code, {})
