"""The replay of a log without a checkpoint, from opening the table to the list of its files, compared with delta-rs.

A log of thousands of small commits shows the cost of a commit. A log of one large commit shows the cost of an action,
in time and memory. The logs are synthetic and stay in `.benchmarks/`. Memory is the peak of a new process, less the
memory that its imports take.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import deltalake
from measuring import TimedPair, print_table
from synthetic_log import fields_of_add, first_actions

from deltalite import DeltaTable

COMMITS = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
LARGE_BYTES = 200_000_000
FILES_PER_COMMIT = 4
ROUNDS = 3
FOLDER = Path(".benchmarks")
REPLAY_PROGRAM = """
import sys
from deltalite import DeltaTable
def peak_kib():  # ru_maxrss would also include the peak of the parent process
    status = open("/proc/self/status").read()
    return int(status.split("VmHWM:")[1].split()[0])
before_kib = peak_kib()
DeltaTable(sys.argv[1]).files()
print((peak_kib() - before_kib) // 1024)
"""


def small_commit_actions(version: int) -> Iterator[dict[str, object]]:
    """Yield the actions of a commit that adds a few files and removes a file of an earlier commit."""
    yield {"commitInfo": {"timestamp": 1_700_000_000_000 + version, "operation": "WRITE", "isBlindAppend": False}}
    yield from first_actions() if version == 0 else ()
    for number in range(FILES_PER_COMMIT):
        yield {"add": fields_of_add(version * FILES_PER_COMMIT + number)}
    if version >= FILES_PER_COMMIT:
        removed_path = fields_of_add((version - FILES_PER_COMMIT) * FILES_PER_COMMIT)["path"]
        yield {"remove": {"path": removed_path, "deletionTimestamp": 1_700_000_000_000, "dataChange": True}}


def make_table_of_small_commits() -> Path:
    """Make a table with `COMMITS` commits unless it exists, and return its folder."""
    table = FOLDER / f"log-{COMMITS}"
    log = table / "_delta_log"
    if not (log / f"{COMMITS - 1:020d}.json").exists():
        log.mkdir(parents=True, exist_ok=True)
        for version in range(COMMITS):
            (log / f"{version:020d}.json").write_text("\n".join(map(json.dumps, small_commit_actions(version))))
    return table


def make_table_of_large_commit() -> Path:
    """Make a table with one commit of `LARGE_BYTES` bytes unless it exists, and return its folder."""
    table = FOLDER / f"log-{LARGE_BYTES}-bytes"
    commit = table / "_delta_log" / f"{0:020d}.json"
    if not commit.exists():
        commit.parent.mkdir(parents=True)
        with commit.open("w") as file:
            file.writelines(json.dumps(action) + "\n" for action in first_actions())
            number = 0
            while file.tell() < LARGE_BYTES:
                file.write(json.dumps({"add": fields_of_add(number)}) + "\n")
                number += 1
    return table


def measure(name: str, table: Path, *, target: float) -> TimedPair:
    """Measure both sides on one table, and return the times. Exit if the sides see different numbers of files."""
    path = str(table.resolve())

    def count_with_deltalite() -> int:
        return DeltaTable(path).files().num_rows

    def count_with_delta_rs() -> int:
        return deltalake.DeltaTable(path).get_add_actions().num_rows

    if count_with_deltalite() != count_with_delta_rs():
        raise SystemExit(
            f"{path}: deltalite lists {count_with_deltalite()} files, and delta-rs {count_with_delta_rs()}."
        )
    pair = TimedPair(name=name, peer="delta-rs", target=target)
    pair.run(count_with_deltalite, count_with_delta_rs, rounds=ROUNDS)
    return pair


def main() -> None:
    """Make the tables unless they exist, measure both, and print times and memory."""
    large_table = make_table_of_large_commit()
    pairs = [
        measure(f"files of {COMMITS:,} commits", make_table_of_small_commits(), target=1.0),
        measure(f"files of a commit of {LARGE_BYTES:,} bytes", large_table, target=2.0),
    ]
    print_table(pairs)
    process = subprocess.run(
        [sys.executable, "-c", REPLAY_PROGRAM, str(large_table.resolve())], capture_output=True, text=True, check=True
    )
    print(f"peak memory of replaying {LARGE_BYTES:,} bytes: {process.stdout.strip()} MiB")


if __name__ == "__main__":
    main()
