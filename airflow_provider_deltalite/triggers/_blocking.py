"""Runs the blocking calls of triggers in a thread pool of this provider.

The triggers do not use `asyncio.to_thread`, for two reasons:

1. In a thread that asgiref did not start, Airflow 3.1 asks its supervisor for a connection from a second event loop.
   The answer is lost, and the next answer ends the triggerer with all its triggers.
2. asyncio's default pool is small and serves the whole process, also for DNS lookups. Storage that hangs would delay
   unrelated triggers.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_MAX_THREADS = 32


async def in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `call` in a thread without blocking the event loop, and return its result."""
    from asgiref.sync import sync_to_async  # not used when a DAG is parsed

    return await sync_to_async(call, thread_sensitive=False, executor=_threads())(*args, **kwargs)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="deltalite")
