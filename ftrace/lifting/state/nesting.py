"""How deep decisions of traced values are nested: recursion is refused before it runs away."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from ftrace.core.errors import LiftError

LIMIT = 500


class _Active(threading.local):
    def __init__(self) -> None:
        self.sites: list[Any] = []


_active = _Active()


@contextmanager
def entered(template: Any, node: Any) -> Generator[None]:
    """While a site of a function is staged.

    Raises:
        LiftError: it is being staged many times over: a recursion that a traced value ends.
    """
    sites = _active.sites
    if sites.count(node) >= LIMIT:
        raise _endless(template, node, LIMIT)
    sites.append(node)
    try:
        yield
    except RecursionError:
        depth = sites.count(node)
        if depth == 1:
            raise
        raise _endless(template, node, depth) from None
    finally:
        sites.pop()


def _endless(template: Any, node: Any, depth: int) -> LiftError:
    return template.error(
        node,
        f"{template.name} calls itself under a condition that a traced value decides: tracing it "
        f"never ends, or goes deeper than Python's recursion limit allows ({depth} calls deep).",
        "Write the recursion as a loop (while), which may depend on traced values; if the number "
        "of calls is known, raise the limit (sys.setrecursionlimit).",
    )
