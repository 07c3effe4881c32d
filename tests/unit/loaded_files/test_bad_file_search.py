"""The search finds exactly the bad files with few reads, and stops early if too many files are bad."""

from __future__ import annotations

from random import Random

import pytest

from deltalite.loaded_files.bad_file_search import (
    FILES_PER_GROUP,
    GroupFailure,
    find_bad_files,
    find_one_bad_file,
)


class Files:
    """Files of which some fail alone, and a pair of files that fails together."""

    def __init__(self, count, bad, *, names_file=True, pair=()):
        self.addresses = [str(number) for number in range(count)]
        self.bad = {str(number) for number in bad}
        self.pair = {str(number) for number in pair}
        self.names_file = names_file
        self.group_reads, self.single_reads = [], []

    def read_group(self, addresses):
        self.group_reads.append(len(addresses))
        bad = [address for address in addresses if address in self.bad]
        if bad or (self.pair and self.pair <= set(addresses)):
            return GroupFailure(address=bad[0] if bad and self.names_file else None)
        return None

    def reason_of(self, address):
        self.single_reads.append(address)
        return f"bad {address}" if address in self.bad else None

    def find(self, max_share=0.5):
        result = find_bad_files(
            self.addresses,
            read_group=self.read_group,
            reason_of=self.reason_of,
            max_count=int(max_share * len(self.addresses)),
        )
        assert len(set(self.single_reads)) == len(self.single_reads), "no file is read alone twice"
        return result


@pytest.mark.parametrize("names_file", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_the_search_finds_exactly_the_bad_files(seed, names_file):
    random = Random(seed)
    count = random.choice([1, 2, 3, 10, 255, 256, 257, 600])
    bad = random.sample(range(count), random.randint(0, min(count, 12)))
    files = Files(count, bad, names_file=names_file, pair=random.sample(range(count), min(count, 2)))
    result = files.find(max_share=1)
    assert result.reasons == {address: f"bad {address}" for address in files.bad}
    assert result.checked_count is None


def test_one_bad_file_of_many_costs_few_reads():
    files = Files(100_000, [77_777])
    assert files.find().reasons == {"77777": "bad 77777"}
    assert len(files.single_reads) <= 2
    assert sum(files.group_reads) <= 100_000 + FILES_PER_GROUP


def test_the_search_stops_early_if_all_files_are_bad():
    files = Files(100_000, range(100_000))
    result = files.find()
    assert result.checked_count == len(result.reasons) == len(files.single_reads) == 20
    assert not files.group_reads
    assert Files(1, [0]).find().checked_count == 1
    assert Files(1, [0]).find(max_share=0).checked_count == 1


@pytest.mark.parametrize(("bad_count", "stops"), [(5, False), (6, True)])
def test_the_search_stops_if_more_files_are_bad_than_the_limit(bad_count, stops):
    result = Files(10, range(bad_count)).find()
    assert (result.checked_count is not None) is stops
    assert stops or len(result.reasons) == bad_count


def test_files_that_fail_only_together_are_not_bad():
    assert Files(10, [], pair=[3, 7], names_file=False).find().reasons == {}


@pytest.mark.parametrize("count", [1, 2, 3, 100])
def test_one_file_that_makes_a_group_bad_is_found_by_halves(count):
    addresses = [str(number) for number in range(count)]
    checked = []

    def contains(bad):
        return lambda group: bool(checked.append(len(group)) or bad & set(group))

    for bad in addresses:
        assert find_one_bad_file(addresses, contains({bad})) == bad
    assert sum(checked) <= 2 * count * count
    pair = {addresses[0], addresses[-1]}
    expected = addresses[0] if count == 1 else None
    assert find_one_bad_file(addresses, lambda group: pair <= set(group)) == expected, "only the files together are bad"
