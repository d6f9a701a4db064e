"""What several processes of one test run need is made by one of them."""

import fcntl
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def once(folder: Path, name: str, make: Callable[[], Any]) -> Any:
    """The value of `make()`, as JSON has it, made by whoever comes first."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.json"
    with open(folder / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            file.write_text(json.dumps(make()), encoding="utf-8")
        return json.loads(file.read_text(encoding="utf-8"))
