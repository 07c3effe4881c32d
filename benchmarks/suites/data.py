"""The data of TPC-DS as Parquet files, which `tpcgen-cli` from PyPI generates.

The files stay in the cache folder, so each scale is generated once. A scale of 1 is about 1 GB of text.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

TABLES = ("customer", "date_dim", "household_demographics", "item", "reason", "store", "store_sales", "web_returns")
"""The tables that the suites use."""


def tpcds(folder: Path, scale: float) -> dict[str, Path]:
    """Return the Parquet file of each table of `TABLES`, and generate the files if they do not exist."""
    files = folder / f"tpcds-{scale:g}"
    if not files.is_dir():
        unfinished = folder / f"tpcds-{scale:g}-unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        command = ["tpcgen-cli", "tpcds", "parquet", f"--scale-factor={scale:g}", f"--tables={','.join(TABLES)}"]
        subprocess.run([*command, "--field-ids=false", f"--output-dir={unfinished}"], check=True)
        unfinished.rename(files)
    return {table: files / f"{table}.parquet" for table in TABLES}
