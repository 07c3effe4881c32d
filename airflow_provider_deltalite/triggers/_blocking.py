"""How triggers call what blocks: in threads of their own, from where Airflow can be asked for a connection.

Not by `asyncio.to_thread`. In a thread that asgiref has not started, Airflow 3.1 asks its supervisor from a second
event loop: the answer is lost, and the next one ends the triggerer with all that runs in it. And the threads of that
function are few and everybody's, for DNS too: storage that hangs would hold up triggers that never asked it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_MOST_THREADS = 32


async def in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `call` returns, while the event loop goes on."""
    from asgiref.sync import sync_to_async  # a triggerer has it; parsing a DAG need not load it

    return await sync_to_async(call, thread_sensitive=False, executor=_threads())(*args, **kwargs)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="deltalite")
