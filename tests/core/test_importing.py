"""What `import ftrace` and the first use of its names load, and what they leave for later."""

import subprocess
import sys

import pytest

HEAVY = ("numpy", "scipy", "llvmlite", "jaxtyping", "cupy", "typing_extensions")
LATER = (  # what only a failing trace, a compiled call or an error needs
    *("ftrace.lifting.calls", "ftrace.lifting.python", "ftrace.cpu.backend", "difflib", "scipy"),
    "llvmlite",
)


def loaded(code: str) -> set[str]:
    """The modules that a fresh interpreter has after some code."""
    shown = f"import sys; {code}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", shown], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import ftrace", HEAVY),
        ("import ftrace; ftrace.numpy.sin, ftrace.grad, ftrace.vmap, ftrace.jit", LATER),
    ],
)
def test_an_import_loads_what_is_needed_at_once(code: str, absent: tuple[str, ...]) -> None:
    found = loaded(code)
    assert "ftrace" in found
    assert found.isdisjoint(absent)
