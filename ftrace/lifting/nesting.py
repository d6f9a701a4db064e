"""How deep decisions of traced values are nested: recursion is refused before it runs away."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

LIMIT = 12


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
        raise template.error(
            node,
            f"{template.qualname} calls itself under a condition that a traced value decides: "
            f"tracing it never ends ({LIMIT} calls deep).",
            "Write the recursion as a loop (while), which may depend on traced values.",
        )
    sites.append(node)
    try:
        yield
    finally:
        sites.pop()
