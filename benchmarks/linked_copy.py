"""Copies of tables for rounds that change them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def copy_with_links(table: Path, copy: Path) -> Path:
    """Replace the folder `copy` by a folder with hard links to the files of a table. Return `copy`."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(table, copy, copy_function=os.link)
    return copy
