"""SIGTERM in a job ends the running call to the JVM and cancels Spark's jobs. Later code can still call the JVM."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager

import pytest
from pyspark.sql import DataFrame

from deltalite.spark.runtime.errors import SPARK_ERRORS
from deltalite.spark.runtime.termination import Termination, collect_to_arrow
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.generated_code]

SLOW_CONDITION = "java_method('java.lang.Thread', 'sleep', 100L) = 'a text'"


@contextmanager
def sigterm_during_a_job(spark, *, times=1):
    """Send SIGTERM to this process when a Spark job runs. The end of the block ends the wait for a job."""
    has_ended = threading.Event()

    def wait_and_send():
        while not spark.sparkContext.statusTracker().getActiveJobsIds():
            if has_ended.wait(0.05):
                return
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.05)

    sender = threading.Thread(target=wait_and_send)
    sender.start()
    try:
        yield
    finally:
        has_ended.set()
        sender.join()


def run_slow_query(spark, collect=DataFrame.collect):
    """Run a query that takes ten minutes with two cores. Each of its tasks takes a second."""
    collect(spark.range(0, 12000, 1, 1200).where(SLOW_CONDITION))


@pytest.mark.parametrize(("times", "collect"), [(1, DataFrame.collect), (3, DataFrame.collect), (3, collect_to_arrow)])
def test_sigterm_raises_system_exit_once_after_the_call_and_the_next_call_gets_its_answer(spark, times, collect):
    handler = signal.getsignal(signal.SIGTERM)
    with Termination() as termination, sigterm_during_a_job(spark, times=times):
        termination.watch(spark)
        with pytest.raises(SystemExit) as caught:
            run_slow_query(spark, collect)
        assert spark._jvm.java.lang.Math.abs(-3) == 3
        # Spark's list of active jobs follows the end of a job later.
        wait_until(lambda: not spark.sparkContext.statusTracker().getActiveJobsIds())
    assert caught.value.code == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == handler
    assert spark.range(3).count() == 3, "no later job is cancelled"


def test_a_wait_outside_of_the_jvm_is_interrupted_and_the_jobs_of_other_threads_are_cancelled(spark):
    errors = []
    has_ended = threading.Event()

    def run_and_keep_the_error():
        try:
            run_slow_query(spark)
        except SPARK_ERRORS as error:
            errors.append(error)
        has_ended.set()

    with Termination() as termination, sigterm_during_a_job(spark):
        termination.watch(spark)
        threading.Thread(target=run_and_keep_the_error).start()
        with pytest.raises(SystemExit):
            has_ended.wait(60)
        assert has_ended.wait(60)
    assert len(errors) == 1 and "cancelled" in str(errors[0])


def test_a_signal_before_spark_has_started_ends_the_process():
    with Termination(), pytest.raises(SystemExit):
        signal.raise_signal(signal.SIGTERM)
