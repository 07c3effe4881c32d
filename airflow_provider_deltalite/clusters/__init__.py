"""Follows the driver of a job on this worker, in YARN or in Kubernetes: reads its output, and ends it.

The hook of `spark-submit` is the only caller.
Begin with `driver_pod.py` for Kubernetes, `yarn_log.py` for YARN, `processes.py` for a driver on this worker.
"""
