"""Speed measurements of ftrace beside its peers; everything timed in this repository lives here.

`python -m benchmarks.run` measures the cases of `benchmarks/cases/`; `benchmarks.paper` those of
the paper on broadcast kernels, and says what they show; `benchmarks.gpu` what a GPU gives;
`benchmarks.overhead` what ftrace promises per operation. The idea: a figure is a ratio of times
taken in one run, one process per system, and nothing is timed before its output was checked. Read
next: `benchmarks/case.py`, then `benchmarks/run.py`.
"""
