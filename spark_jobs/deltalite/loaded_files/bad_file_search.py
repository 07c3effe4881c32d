"""The search for the files that make a read fail, decided without I/O.

1. Check a few random files, each of them alone. If all of them are bad, very likely more files are bad than the caller
   accepts. The search then stops.
2. Read the other files in groups. If a group fails, first check the file that the error names. Then read the rest of
   the group in two halves. So a bad file costs few reads, and a good file is rarely read alone.

A file counts as bad if it fails alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

FILES_PER_GROUP = 256
# The probability with which the search stops too early, if the share of bad files is just below the limit.
_RISK = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFailure:
    """The failure of a read of several files. `address` is the file that the error names, None if it names none."""

    address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BadFiles:
    """The bad files, with the reason of each.

    `checked_count` is the number of files that were checked alone, if the search stopped because of `max_count`. It is
    None if the search is complete.
    """

    reasons: Mapping[str, str]
    checked_count: int | None = None


def find_bad_files(
    addresses: Sequence[str],
    *,
    read_group: Callable[[Sequence[str]], GroupFailure | None],
    reason_of: Callable[[str], str | None],
    max_count: int,
) -> BadFiles:
    """Return the bad files. Stop if more files are bad than the caller accepts.

    Args:
        addresses: all files of the load, without repetitions; at least one.
        read_group: reads files together, and returns None if it can read all of them.
        reason_of: reads a file alone, and returns the reason why it is bad, or None.
        max_count: the largest number of bad files with which the caller goes on.
    """
    search = _Search(reason_of=reason_of, max_count=max_count)
    max_share = max_count / len(addresses)
    sample_size = min(_sample_size(max_share), len(addresses))
    if search.all_are_bad(Random(0).sample(addresses, sample_size)) and max_share < 1:  # noqa: S311  no secret
        return search.stopped()
    groups = [addresses[n : n + FILES_PER_GROUP] for n in range(0, len(addresses), FILES_PER_GROUP)]
    while groups:
        if search.is_above_limit:
            return search.stopped()
        group = [address for address in groups.pop() if address not in search.checked]
        if len(group) == 1:
            search.check(group[0])
            continue
        failure = read_group(group) if group else None
        if failure is not None:
            if failure.address in group:
                search.check(failure.address)
                group.remove(failure.address)
            half = len(group) // 2
            groups += [group[half:], group[:half]]
    return search.stopped() if search.is_above_limit else BadFiles(reasons=search.reasons)


def find_one_bad_file(addresses: Sequence[str], is_bad: Callable[[Sequence[str]], bool]) -> str | None:
    """Search by halves for a file that makes a group of files bad. Return None if only several files together are bad.

    Args:
        addresses: a group that is bad.
        is_bad: whether a group of files is bad. It takes less time for a smaller group.
    """
    while len(addresses) > 1:
        half = len(addresses) // 2
        halves = (addresses[:half], addresses[half:])
        bad_half = next((group for group in halves if is_bad(group)), None)
        if bad_half is None:
            return None
        addresses = bad_half
    return addresses[0]


class _Search:
    """The files that are checked so far, and the reasons of the bad ones."""

    def __init__(self, *, reason_of: Callable[[str], str | None], max_count: int) -> None:
        self._reason_of = reason_of
        self._max_count = max_count
        self.checked: set[str] = set()
        self.reasons: dict[str, str] = {}

    @property
    def is_above_limit(self) -> bool:
        """Whether more files are bad than the caller accepts."""
        return len(self.reasons) > self._max_count

    def check(self, address: str) -> bool:
        """Check a file alone. Return whether it is bad."""
        self.checked.add(address)
        reason = self._reason_of(address)
        if reason is not None:
            self.reasons[address] = reason
        return reason is not None

    def all_are_bad(self, addresses: Sequence[str]) -> bool:
        """Check files until one is good. Return whether there are files, and all of them are bad."""
        return bool(addresses) and all(self.check(address) for address in addresses)

    def stopped(self) -> BadFiles:
        """Return the result of a search that stops because of too many bad files."""
        return BadFiles(reasons=self.reasons, checked_count=len(self.checked))


def _sample_size(max_share: float) -> int:
    """Return n: if n random files are all bad, the share of bad files is very likely above `max_share`."""
    if max_share >= 1:
        return 1
    return max(1, math.ceil(math.log(_RISK) / math.log(max_share))) if max_share > 0 else 1
