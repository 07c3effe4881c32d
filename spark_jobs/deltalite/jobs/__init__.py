"""The scripts that `spark-submit` runs, one for each operation.

The provider ships and submits them; no other code imports them.
Begin with `runner.py`: it reads the request, runs the command and prints the result line.
"""
