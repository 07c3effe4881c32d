"""Follows the driver of a job on this worker, in YARN or in Kubernetes: reads its state and its output, and ends it.

The hook of `spark-submit` calls it on a worker. The trigger of a deferred operator calls `watching.py` in a triggerer,
also for the job of a `JobSubmitter`. The worker calls `watching.py` if such a deferral ends at its timeout.
Begin with `driver_pod.py` for Kubernetes, `yarn_log.py` for YARN, `processes.py` for a driver on this worker, and
`driver_state.py` for a deferred task.
"""
