"""A cache with a limit on its size, for values that a process keeps between requests."""

from __future__ import annotations

import pickle
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedValue:
    """A value, and the time of `time.monotonic` at which it was read."""

    value: Any
    read_at: float
    size_bytes: int


class BoundedCache:
    """Values by key. If the values exceed `max_bytes`, the cache drops those that were not used for the longest time.

    The size of a value is the length of its pickle, which is about the memory that its texts take.
    """

    def __init__(self, max_bytes: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_bytes = max_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, CachedValue] = OrderedDict()
        self.size_bytes = 0

    def get(self, key: Hashable) -> CachedValue | None:
        """Return the value of a key, or None."""
        with self._lock:
            cached = self._values.get(key)
            if cached is not None:
                self._values.move_to_end(key)
            return cached

    def put(self, key: Hashable, value: Any) -> None:
        """Store a value. A value that alone exceeds the limit is not stored."""
        size_bytes = len(pickle.dumps(value))
        with self._lock:
            replaced = self._values.pop(key, None)
            self.size_bytes -= replaced.size_bytes if replaced else 0
            if size_bytes > self._max_bytes:
                return
            self._values[key] = CachedValue(value=value, read_at=self._clock(), size_bytes=size_bytes)
            self.size_bytes += size_bytes
            while self.size_bytes > self._max_bytes:
                _, dropped = self._values.popitem(last=False)
                self.size_bytes -= dropped.size_bytes

    def age_of(self, cached: CachedValue) -> float:
        """Return the seconds since the value was read."""
        return self._clock() - cached.read_at
