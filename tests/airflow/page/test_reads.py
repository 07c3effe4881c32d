"""Reads in the background: shared, bounded, and independent of each other; and the cache with a limit on its size."""

from __future__ import annotations

import asyncio
import sys
import threading
import time

import pytest

from airflow_provider_deltalite.page.cache import BoundedCache
from airflow_provider_deltalite.page.lake_view import Health, health_of
from airflow_provider_deltalite.page.read_pool import Read, ReadPool, wait_for_reads
from airflow_provider_deltalite.page.reading import Lookup


def wait(*reads, seconds=20.0):
    asyncio.run(wait_for_reads(reads, seconds))


def test_requests_for_one_result_share_a_read():
    released, calls = threading.Event(), []

    def run():
        calls.append(1)
        released.wait(20)
        return "value"

    pool = ReadPool()
    first, second = (pool.read("s3://b", "key", run) for _ in range(2))
    assert first is second
    released.set()
    wait(first)
    assert (first.value, len(calls)) == ("value", 1)
    third = pool.read("s3://b", "key", run)
    wait(third)
    assert third is not first and len(calls) == 2


def test_an_error_of_a_read_is_a_value_without_secrets():
    def fail():
        raise OSError("password='planted-secret'")

    read = ReadPool().read("s3://b", "key", fail)
    wait(read)
    assert read.error is not None and read.error.kind == "OSError" and "planted" not in read.error.message


def test_a_wait_ends_while_the_read_goes_on():
    released = threading.Event()
    read = ReadPool().read("s3://b", "key", lambda: released.wait(20))
    wait(read, seconds=0.01)
    assert not read.is_done
    released.set()
    wait(read)
    assert read.is_done


@pytest.mark.parametrize(("seconds", "span"), [(0.2, "yet"), (300, "after 5 minutes")])
def test_a_slow_read_is_shown_with_the_time_since_its_start_not_with_the_wait_of_this_page(seconds, span):
    read = Read(run=None, started_at=time.monotonic() - seconds)
    result = Lookup(cache=BoundedCache(1), cached=None, read=read).result()
    assert health_of(result) == (Health.SLOW, f"The read of the table has not ended {span}.")


def test_a_storage_has_few_threads_and_a_bounded_queue():
    released = threading.Event()
    pool = ReadPool(threads_per_storage=2, max_waiting=3)
    started = threading.Barrier(3)

    def hang():
        started.wait(20)
        return released.wait(20)

    running = [pool.read("s3://hangs", number, hang) for number in range(2)]
    started.wait(20)
    waiting = [pool.read("s3://hangs", f"w{number}", lambda: 1) for number in range(3)]
    refused = pool.read("s3://hangs", "one more", lambda: 1)
    other = pool.read("s3://other", "key", lambda: 1)
    wait(other)
    assert other.value == 1
    assert refused.error is not None and refused.error.kind == "Overloaded"
    assert all(read.started_at is None for read in waiting)
    released.set()
    wait(*running, *waiting)
    assert [read.value for read in waiting] == [1, 1, 1]


def test_urgent_reads_come_before_those_of_a_list():
    released, order = threading.Event(), []
    pool = ReadPool(threads_per_storage=1)
    running = pool.read("s3://b", "first", lambda: released.wait(20))
    list_reads = [pool.read("s3://b", name, lambda name=name: order.append(name)) for name in ("a", "b", "c")]
    urgent = pool.read("s3://b", "d", lambda: order.append("d"), is_urgent=True)
    promoted = pool.read("s3://b", "c", lambda: order.append("again"), is_urgent=True)
    assert promoted is list_reads[2]
    released.set()
    wait(running, *list_reads, urgent)
    assert order == ["d", "c", "a", "b"]


def test_all_storages_together_have_a_limit_of_threads():
    released = threading.Event()
    pool = ReadPool(threads_per_storage=2, max_threads=3)
    hanging = [pool.read(f"s3://{number // 2}", number, lambda: released.wait(20)) for number in range(4)]
    refused = pool.read("s3://other", "key", lambda: 1)
    assert refused.error is not None and "Too many storages" in refused.error.message
    assert pool._thread_count() == 3
    released.set()
    wait(*hanging)
    assert all(read.value for read in hanging)


def test_a_thread_that_does_not_start_leaves_the_storage_usable(monkeypatch):
    pool = ReadPool(threads_per_storage=1)

    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        first = pool.read("s3://b", "first", lambda: 1)
    second = pool.read("s3://b", "second", lambda: 2)
    wait(first, second)
    assert (first.value, second.value) == (1, 2)


def test_an_exit_in_a_read_ends_no_thread_of_the_pool():
    pool = ReadPool(threads_per_storage=1)
    first = pool.read("s3://b", "first", lambda: sys.exit(1))
    second = pool.read("s3://b", "second", lambda: 2)
    wait(first, second)
    assert first.error is not None and "SystemExit" in first.error.message
    assert second.value == 2


def test_a_wait_leaves_no_callback_at_a_read_that_hangs():
    released = threading.Event()
    read = ReadPool().read("s3://b", "key", lambda: released.wait(20))
    callbacks = len(read._callbacks)
    for _ in range(3):
        wait(read, seconds=0.001)
    assert len(read._callbacks) == callbacks
    released.set()
    wait(read)


def test_the_cache_drops_the_values_that_were_not_used_for_the_longest_time():
    cache = BoundedCache(1_000)
    for name in "abc":
        cache.put(name, name * 300)
    cache.get("a")
    cache.put("d", "d" * 300)
    assert [name for name in "abcd" if cache.get(name)] == ["a", "c", "d"]
    assert cache.size_bytes <= 1_000
    cache.put("huge", "x" * 2_000)
    assert cache.get("huge") is None
    cache.put("a", "short")
    assert cache.get("a").value == "short"
    assert cache.size_bytes == sum(cache.get(name).size_bytes for name in "acd")
