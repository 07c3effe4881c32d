"""Standard benchmarks of Delta tables: Delta's merge suite, and the four parts of LHBench.

`python -m benchmarks.suites` runs them with this library, delta-spark and delta-rs, and writes a JSON file for each
suite into the folder `results`. `python -m benchmarks.suites.page` makes `docs/benchmarks.md` from these files. Begin
with `suite.py`, then `engines.py` (what each side does), then a suite such as `merge.py`.
"""
