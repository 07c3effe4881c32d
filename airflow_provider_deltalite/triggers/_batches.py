"""The batches of commits that the trigger of an `AssetWatcher` reads. DAG parsing does not import this module.

The functions with a `store` read storage and block, so the trigger calls them in a thread. They also load pyarrow in
this thread, because an import in the event loop would block all triggers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltalite.conditions import CommitCondition, LogPosition

if TYPE_CHECKING:
    from deltalite.storage.log_store import LogStore
    from deltalite.watch import Step

# A batch holds at most this many steps, so that a trigger far behind still stores its position regularly.
_MAX_STEPS = 1000
# A batch ends at about this much memory, because the summary of a commit may have many partitions.
_MAX_HELD_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The steps that one poll has read, from `base` to `position`.

    `has_more` is true if the batch is full, so that the log may have further commits.
    """

    base: LogPosition
    steps: tuple[Step, ...]
    position: LogPosition
    has_more: bool = False


def batch_begins_at(position: LogPosition, base: LogPosition) -> bool:
    """Whether a batch with this base begins at `position`. A missing commit digest matches every digest."""
    if not position.commit_digest or not base.commit_digest:
        return position.version == base.version
    return (position.version, position.commit_digest) == (base.version, base.commit_digest)


async def with_catch_up_batch(shared_stream: AsyncIterator[Batch]) -> AsyncIterator[Batch]:
    """Yield an empty batch with an impossible base, and then the shared batches.

    The first batch makes the trigger read the log from its own position. The shared stream may be ahead of this
    position, because the stream may have begun before this trigger joined.
    """
    impossible_position = LogPosition(version=-2)
    yield Batch(base=impossible_position, steps=(), position=impossible_position)
    async for batch in shared_stream:
        yield batch


def empty_batch_at(store: LogStore, version: int | None = None) -> Batch:
    """Return an empty batch at the position of a version; by default, of the newest version."""
    from deltalite import watch

    position = watch.position_at(store, watch.latest_version(store) if version is None else version)
    return Batch(base=position, steps=(), position=position)


def next_batch(store: LogStore, position: LogPosition) -> Batch:
    """Return the steps after a position, as many as one batch may hold."""
    from deltalite import watch

    steps: list[Step] = []
    held_bytes = 0
    for step in watch.follow(store, position):
        steps.append(step)
        held_bytes += _held_bytes(step)
        if len(steps) == _MAX_STEPS or held_bytes >= _MAX_HELD_BYTES:
            return Batch(base=position, steps=tuple(steps), position=step.position, has_more=True)
    return Batch(base=position, steps=tuple(steps), position=steps[-1].position if steps else position)


def _held_bytes(step: Step) -> int:
    """Estimate the memory of a step in bytes: 300 for each dictionary and text, plus the characters."""
    summary = getattr(step, "summary", None)
    if summary is None:
        return 300
    texts = [
        *summary.app_ids,
        *(
            text
            for values in summary.partitions
            for name_and_value in values.items()
            for text in name_and_value
            if text
        ),
    ]
    return 300 * (1 + len(summary.partitions) + len(texts)) + sum(map(len, texts))


def has_complete_summary(step: Step) -> bool:
    """Whether the summary of a step is complete; True for a step without a summary."""
    summary = getattr(step, "summary", None)
    return summary is None or bool(summary.is_complete)


def complete_steps(store: LogStore, steps: tuple[Step, ...], condition: CommitCondition) -> tuple[Step, ...]:
    """Return the steps, with complete summaries where the condition needs them."""
    from deltalite import watch

    return watch.with_complete_summaries(store, steps, condition)


def table_id(store: LogStore) -> str | None:
    """Return the id of the table; None if the table does not exist."""
    from deltalite import watch

    return watch.table_id(store)


def partition_names(store: LogStore, partitions: Sequence[Mapping[str, str | None]] | None) -> list[str] | None:
    """Return the names of an event's partitions.

    The result is empty if no rows changed, or if the table has no partitions (each mapping is empty). It is None if the
    partitions are unknown, if there are more than 100, or if a name is too long for Airflow.
    """
    if partitions is not None and not any(partitions):
        return []
    from deltalite import watch

    names = watch.touched_partitions(store, partitions)
    return None if names is None else list(names)
