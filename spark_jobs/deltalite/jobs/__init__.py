"""The scripts that `spark-submit` runs: one for each operation, and also `training.py` and `zipped_job.py`.

The provider ships and submits the scripts; no other code of the library imports them.
Begin with `starting.py`, which checks the Python of the driver. Then `runner.py` reads the request, runs the command
and prints the result line.
"""
