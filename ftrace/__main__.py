"""`python -m ftrace cache`: the compiled code that is kept on disk; `--clear` deletes it."""

import argparse
from collections.abc import Sequence

from ftrace.core import disk_cache
from ftrace.core.config import config


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line.

    Args:
        arguments: the words behind `python -m ftrace`; the process's own if not given.

    Returns:
        0, or 1 where a folder is there that cannot be used.
    """
    parser = argparse.ArgumentParser(prog="python -m ftrace")
    commands = parser.add_subparsers(required=True)
    cache = commands.add_parser("cache", help="show the compiled code that is kept on disk")
    cache.add_argument("--clear", action="store_true", help="delete it")
    return _cache(parser.parse_args(arguments).clear)


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
