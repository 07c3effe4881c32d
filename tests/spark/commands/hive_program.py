"""Maintains a schema of a Hive metastore on Derby in a separate process: `hive_program.py FOLDER`.

Spark fixes the implementation of its catalog when it starts, so the session of the tests cannot use Hive. The program
prints its result as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from deltalite.commands.maintain import maintain
from deltalite.requests import MaintainRequest
from deltalite.spark.runtime.session import open_session
from tests.support.catalogs import register_table

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    session = open_session("hive")
    session.sql("CREATE DATABASE sales")
    for name in ("orders", "missing"):
        register_table(session, "sales", name, folder / "lake" / name)
    session.sql("CREATE TABLE sales.files (id BIGINT) STORED AS ORC")
    session.sql("CREATE VIEW sales.few AS SELECT 1 AS id")
    session.sql("DROP TABLE IF EXISTS sales.none")
    result = maintain(session, MaintainRequest(catalog_schema="spark_catalog.sales", vacuum=False, dry_run=True))
    print(json.dumps(result.as_dict()))
