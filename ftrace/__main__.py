"""The command line of ftrace.

`python -m ftrace cache` shows the compiled code that is kept on disk; `--clear` deletes it.
`python -m ftrace explain FT1106` prints what an error's class says: the code that a traceback
shows, or the name of the class; every class in one line if none is given.
"""

import argparse
import inspect
from collections.abc import Sequence

from ftrace import errors
from ftrace.core import disk_cache
from ftrace.core.config import config


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line.

    Args:
        arguments: the words behind `python -m ftrace`; the process's own if not given.

    Returns:
        0, or 1 where a folder is there that cannot be used, or no error is called so.
    """
    parser = argparse.ArgumentParser(prog="python -m ftrace")
    commands = parser.add_subparsers(required=True)
    cache = commands.add_parser("cache", help="show the compiled code that is kept on disk")
    cache.add_argument("--clear", action="store_true", help="delete it")
    explain = commands.add_parser("explain", help="say when an error is raised and what to do")
    explain.add_argument("error", nargs="?", help="its code, or the name of its class")
    asked = parser.parse_args(arguments)
    return _cache(asked.clear) if "clear" in asked else _explain(asked.error)


def _code(kind: type[errors.FtraceError]) -> str:
    return kind.code


def _explain(error: str | None) -> int:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    classes = sorted((kind for kind in kinds if issubclass(kind, errors.FtraceError)), key=_code)
    found = [kind for kind in classes if error in {None, kind.code, kind.__name__}]
    for kind in found:
        text = inspect.getdoc(kind) or ""
        print(kind.code, kind.__name__, text if error else text.partition("\n")[0], sep="  ")
    if not found:
        print(f"No error is called {error}; `python -m ftrace explain` names all of them.")
    return 0 if found else 1


def _cache(clear: bool) -> int:
    home = disk_cache.folder()
    print(f"folder  {home}")
    print(f"limit   {config.kernel_cache:,} bytes (FTRACE_KERNEL_CACHE; 0 keeps none)")
    try:
        why = disk_cache.obstacle(home)
        files = disk_cache.contents(home) if why is None else []
        if clear and files:
            disk_cache.shrink(home, 0)
    except FileNotFoundError:
        why, files = None, []
    except OSError as error:
        why, files = str(error), []
    if why is not None:
        print(f"unused  {why}")
        return 1
    verb = "deleted" if clear else "kept   "
    print(f"{verb} {len(files):,} files of {sum(size for _, size, _ in files):,} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
