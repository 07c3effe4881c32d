"""A snapshot of a log with a million files, from opening the table to the list of its files, compared with delta-rs.

The log is synthetic: a checkpoint and ten commits after it. Each commit adds and removes files. The log stays in
`.benchmarks/`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import deltalake
import pyarrow.parquet as pq
from measuring import TimedPair, print_table
from synthetic_log import COMMITS, checkpoint_of, write_commits

from deltalite import DeltaTable

FILES = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
ROUNDS = 3
TABLE = Path(".benchmarks") / f"snapshot-{FILES}"


def make_table() -> None:
    """Write the log: the checkpoint of version 0, and then the ten commits."""
    log = TABLE / "_delta_log"
    log.mkdir(parents=True)
    checkpoint = checkpoint_of(range(FILES))
    pq.write_table(checkpoint, log / f"{0:020d}.checkpoint.parquet", compression="snappy")
    (log / "_last_checkpoint").write_text(json.dumps({"version": 0, "size": checkpoint.num_rows}))
    write_commits(log, FILES)


def main() -> None:
    """Make the table unless it exists, time both sides, and print a table.

    Exit if the sides list different numbers of files.
    """
    if not (TABLE / "_delta_log" / f"{COMMITS:020d}.json").exists():
        make_table()
    path = str(TABLE.resolve())

    def count_with_deltalite() -> int:
        return DeltaTable(path).files().num_rows

    def count_with_delta_rs() -> int:
        return deltalake.DeltaTable(path).get_add_actions().num_rows

    if count_with_deltalite() != count_with_delta_rs():
        raise SystemExit(
            f"{path}: deltalite lists {count_with_deltalite()} files, and delta-rs {count_with_delta_rs()}."
        )
    pair = TimedPair(name=f"snapshot and list of {FILES:,} files", peer="delta-rs", target=0.5)
    pair.run(count_with_deltalite, count_with_delta_rs, rounds=ROUNDS)
    print_table([pair])


if __name__ == "__main__":
    main()
