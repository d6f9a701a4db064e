"""Measurements on a GPU: one command, under eight minutes, one process per framework.

    python -m benchmarks.gpu [--quick] [--only PATTERN] [--out FOLDER] [--platform cpu]

The parent (`parent.py`) starts one child per framework (`child.py`), ends what takes too long and
writes JSON lines as they come, then `results.md` and `shown.md`: targets met and missed. The idea:
every figure is a time over another that was measured in the same run, copies of memory included.
`--platform cpu` runs the same program on NumPy arrays at tiny sizes. Read next: `case.py`.
"""
