"""The text of the device functions that spellings call: only those that a kernel uses.

A function is known by its name `ft_...`, and what it needs is what its text names, so that
nothing else says what depends on what. The texts are in the files beside this one; they are C++
that NVRTC and a host compiler take alike.
"""

import re
from typing import Final

from ftrace.gpu.prelude.prelude_exact import EXACT
from ftrace.gpu.prelude.prelude_special import SPECIAL

FUNCTIONS: Final[dict[str, str]] = {**EXACT, **SPECIAL}
_NAME: Final = re.compile(r"\bft_\w+")


def definitions(text: str) -> str:
    """The device functions that a piece of CUDA C calls, each after those that it calls itself."""
    seen: set[str] = set()
    ordered: list[str] = []

    def visit(caller: str) -> None:
        for name in _NAME.findall(caller):
            if name in FUNCTIONS and name not in seen:
                seen.add(name)
                visit(FUNCTIONS[name])
                ordered.append(FUNCTIONS[name])

    visit(text)
    return "".join(ordered)
