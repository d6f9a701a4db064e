"""Planted bugs: made mechanically from ftrace's sources, each run against the tests.

`operators.py` says what a bug can be, `sources.py` finds the places and picks a fixed sample,
`targets.py` says which tests can notice a change, `running.py` runs them in forked processes,
`covering.py` records which tests run which statement, `serving.py` runs these in a second, and
`equivalent.toml` lists the changes that no test can notice, with the reason. `tools/mutate.py` is
the command.
"""
