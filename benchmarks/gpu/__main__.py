"""`python -m benchmarks.gpu`: see `parent.py`."""

import sys

from benchmarks.gpu.parent import main

if __name__ == "__main__":
    sys.exit(main())
