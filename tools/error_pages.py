"""The catalogue of errors, `docs/errors.md`: for each class when it is raised, and by what.

`python -m tools.error_pages` writes it. Nothing in it is written by hand: a section is the class's
docstring, then the mistakes of `tests/golden/mistakes.py` that raise it, with what a user reads.
"""

import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ftrace import errors
from ftrace.errors import FtraceError
from tests.golden.mistakes import MISTAKES

ROOT: Final = Path(__file__).resolve().parent.parent
FILE: Final = ROOT / "docs" / "errors.md"
MESSAGES: Final = ROOT / "tests" / "golden" / "errors"
HEAD: Final = """# Errors

Every error that ftrace raises on purpose is one of these classes, all of them `FtraceError` and,
where Python or NumPy have a like one, that one too. The message says what happened, where in your
file, and what to do; a traceback adds the code, and `python -m ftrace explain CODE` prints the
words of this page. Made by `python -m tools.error_pages` from the classes and from the mistakes
that the tests make.
"""


def classes() -> list[type[FtraceError]]:
    """All classes in the order of their codes."""
    kinds = (kind for kind in vars(errors).values() if isinstance(kind, type))
    return sorted((k for k in kinds if issubclass(k, FtraceError)), key=lambda kind: kind.code)


def messages(kind: type[FtraceError]) -> dict[str, str]:
    """The words that users read, by mistake."""
    file = MESSAGES / f"{kind.__name__}.txt"
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    parts = (part.partition("\n") for part in text.split("=== ")[1:])
    return {name: message.strip() for name, _, message in parts}


def section(kind: type[FtraceError]) -> Iterator[str]:
    """A class: its code, what else it is, its docstring, its mistakes."""
    kin = [base for base in kind.__bases__ if base is not Exception]
    yield f"\n## {kind.code}: {kind.__name__}\n"
    if kin:
        yield f"Also: {', '.join(f'`{base.__name__}`' for base in kin)}.\n"
    yield _docstring(kind)
    for name, message in messages(kind).items():
        lines = inspect.getsource(MISTAKES[name].run).split("\n")[1:]  # without the decorator
        code = "\n".join(lines).strip().replace("def _", "def ", 1)
        yield f"\n### {name[0].upper()}{name[1:]}\n"
        yield f"```python\n{code}\n```\n\n```text\n{message}\n```"


def _docstring(kind: type[FtraceError]) -> str:
    text, example, code = (inspect.getdoc(kind) or "").partition("\nExample:\n")
    return f"{text}\n```python\n{textwrap.dedent(code).strip()}\n```" if example else text


def page() -> str:
    """The whole text."""
    return HEAD + "\n".join(line for kind in classes() for line in section(kind)) + "\n"


if __name__ == "__main__":
    FILE.write_text(page(), encoding="utf-8")
