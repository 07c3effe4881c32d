"""Follows a job's driver, which runs on this worker, in YARN or in Kubernetes: reads its output and state, and ends it.

The hook of `spark-submit` calls this package on a worker. The trigger of a deferred operator calls `watching.py` in a
triggerer, for a job of `spark-submit` or of a `JobSubmitter`. If the deferral times out, a worker calls `watching.py`.
Begin with `driver_pod.py` for Kubernetes, `yarn_log.py` for YARN, `processes.py` for a driver on this worker, and
`driver_state.py` for a deferred task.
"""
