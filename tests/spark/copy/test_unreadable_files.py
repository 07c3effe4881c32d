"""A file that cannot be read at all goes to the quarantine as one row, and does not block the other files."""

from __future__ import annotations

import gzip
import hashlib
import re
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltalite.spark.reader.unreadable_files as unreadable_files_module
from deltalite import DeltaTable
from deltalite.commands.table import define_table
from deltalite.errors import SchemaMismatchError, SourceChangedError, SourceError, SourceNotFoundError, StorageError
from deltalite.loaded_files import bad_file_search
from deltalite.requests import TableRequest
from tests.support.copying import copy_files, loaded_names, write_bytes, write_file
from tests.support.quarantine import fail_at_target_commit
from tests.support.tables import folder_content, rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

SCHEMA = "id BIGINT, name STRING"


def quarantined_rows(quarantine):
    """Return the base name of the file, the line and the record of each quarantined row."""
    table_rows = DeltaTable(str(quarantine)).to_arrow().to_pylist()
    return sorted((row["file"].rpartition("/")[2], row["line"], row["record"]) for row in table_rows)


ROWS = 1000


def file_bytes(spark, tmp_path, file_format):
    """Return the content of a file with some rows of long texts. Text formats are compressed."""
    folder = tmp_path / f"tmp-{file_format}"
    text = "concat(" + ", ".join(f"md5(CAST({number} + 7 * id AS STRING))" for number in range(6)) + ")"
    columns = [f"{text} AS value"] if file_format == "text" else ["id", f"{text} AS name"]
    frame = spark.range(0, ROWS, 1, 1).selectExpr(*columns)
    options = {"header": "true"} if file_format == "csv" else {}
    if file_format in ("csv", "json", "text"):
        options["compression"] = "gzip"
    frame.write.format(file_format).options(**options).save(str(folder))
    (file,) = folder.glob("part-*")
    data = file.read_bytes()
    shutil.rmtree(folder)
    return data


def damaged_copies(data, file_format):
    """Return copies of `data`, the bytes of a file, with different kinds of damage, by the kind."""
    middle, tail = bytearray(data), bytearray(data)
    for position in range(len(data) // 3, len(data) // 3 + 300):
        middle[position] ^= 0x5A
    for position in range(len(data) - 60, len(data) - 9):
        tail[position] ^= 0x5A
    kinds = {"cut": data[: len(data) // 2], "middle": bytes(middle), "tail": bytes(tail), "other": b"<html>\n" * 99}
    if file_format == "orc":
        del kinds["middle"]  # texts in an ORC file have no checksum, so Spark reads changed texts without an error
    return kinds


ENDINGS = {"csv": ".csv.gz", "json": ".json.gz", "text": ".txt.gz"}


@pytest.mark.sample("parquet", "csv")
@pytest.mark.parametrize("file_format", ["parquet", "csv", "orc", "json", "text"])
def test_an_unreadable_file_of_each_format_does_not_block_the_other_files(
    spark, tmp_path, landing, table, quarantine, file_format
):
    ending = ENDINGS.get(file_format, f".{file_format}")
    data = file_bytes(spark, tmp_path, file_format)
    kinds = damaged_copies(data, file_format)
    for kind, content in kinds.items():
        write_bytes(landing, kind + ending, content)
    for number in range(len(kinds)):
        write_bytes(landing, f"good-{number}{ending}", data)
    if file_format in ("csv", "json"):
        define_table(spark, TableRequest(table=str(table), schema=SCHEMA))
    options = {"file_format": file_format, "quarantine": str(quarantine), "run": "r"}
    result = copy_files(spark, table, landing, **options)
    assert DeltaTable(str(table)).to_arrow().num_rows == ROWS * len(kinds)
    assert quarantined_rows(quarantine) == sorted((kind + ending, None, None) for kind in kinds)
    reasons = DeltaTable(str(quarantine)).to_arrow()["reason"].to_pylist()
    assert all(re.fullmatch(r"The (?:file .*cannot.*|end of .* is missing)\.", reason) for reason in reasons), reasons
    counts = {name: result.metrics[name] for name in ("numLoadedFiles", "numUnreadableFiles", "numQuarantinedRows")}
    assert counts == dict.fromkeys(counts, len(kinds))
    assert result.metrics["numLoadedBytes"] == len(kinds) * len(data)
    assert copy_files(spark, table, landing, **options).metrics == result.metrics
    assert copy_files(spark, table, landing, **options | {"run": "next"}).skip_reason, "no file is tried again"
    assert len(loaded_names(table)) == 2 * len(kinds)


def zipped(*ids, name=lambda number: "n"):
    """Return the content of a compressed CSV file with these ids. `name` returns the name for an id."""
    return gzip.compress("".join(["id,name\n", *(f"{number},{name(number)}\n" for number in ids)]).encode())


# A file without its end. Spark reads hundreds of rows before the missing part, and the reader of headers does not reach
# it. The long names keep the number of rows low, because Spark reads this file again and again.
CUT = zipped(*range(1_000), name=lambda number: hashlib.shake_128(str(number).encode()).hexdigest(150))[:100_000]


def test_a_run_with_too_many_unreadable_files_loads_and_quarantines_nothing(
    spark, tmp_path, landing, table, quarantine, monkeypatch
):
    define_table(spark, TableRequest(table=str(table), schema=SCHEMA))
    monkeypatch.setattr(bad_file_search, "_RISK", 0.1)  # four files are enough with the limit 0.5
    for number in range(6):
        write_file(landing, f"{number:02}.csv", "id,name\n1,n\n")
    content_before = folder_content(tmp_path)
    with pytest.raises(SourceError, match=r"4 of 4 checked files \(of 6 in the run\) .*format and the options"):
        copy_files(spark, table, landing, "parquet", run="wrong format", quarantine=str(quarantine), max_bad_share=0.5)
    options = {"run": "r", "quarantine": str(quarantine), "pattern": "*.gz", "max_bad_share": 0.5}
    write_bytes(landing, "bad.csv.gz", CUT)
    with pytest.raises(
        SourceError, match=r"1 of 1 checked file .*the limit is 0\..*bad\.csv\.gz: .*end of input stream"
    ):
        copy_files(spark, table, landing, **options)
    with pytest.raises(SourceError, match=r"/bad\.csv\.gz: Unexpected end of input stream"):
        copy_files(spark, table, landing, run="r", pattern="*.gz")
    validation = copy_files(spark, table, landing, **options | {"max_bad_share": 1, "validate_only": 9})
    assert (validation.metrics["numQuarantinedRows"], validation.metrics["numUnreadableFiles"]) == (1, 1)
    (landing / "bad.csv.gz").unlink()
    assert folder_content(tmp_path) == content_before


def test_an_unreadable_file_is_loaded_after_its_repair(spark, landing, table, quarantine):
    define_table(spark, TableRequest(table=str(table), schema=SCHEMA))
    options = {"quarantine": str(quarantine), "pattern": "*.gz"}
    write_bytes(landing, "a.csv.gz", CUT)
    result = copy_files(spark, table, landing, **options, run="r")
    assert (result.version, rows(table), quarantined_rows(quarantine)) == (1, [], [("a.csv.gz", None, None)])
    write_bytes(landing, "a.csv.gz", zipped(1, 2), second=2)
    copy_files(spark, table, landing, **options, run="repaired")
    assert rows(table) == [(1, "n"), (2, "n")]


def test_an_unreadable_file_in_a_partition_folder_is_quarantined_in_a_load_with_a_query(
    spark, landing, table, quarantine
):
    define_table(spark, TableRequest(table=str(table), schema=SCHEMA))
    write_bytes(landing, "day=1/c.csv.gz", CUT)
    result = copy_files(
        spark, table, landing, run="r", schema=SCHEMA, quarantine=str(quarantine), pattern="*.gz", max_bad_share=1,
        query="SELECT id + day AS id, name FROM source",
    )  # fmt: skip
    assert result.metrics["numOutputRows"] == 0
    assert quarantined_rows(quarantine) == [("c.csv.gz", None, None)]


def test_bad_records_and_unreadable_files_survive_a_failed_attempt(spark, landing, table, quarantine, monkeypatch):
    define_table(spark, TableRequest(table=str(table), schema=SCHEMA))
    write_bytes(landing, "a.csv.gz", zipped(1, 2, "x"))
    write_bytes(landing, "b.csv.gz", CUT)
    write_bytes(landing, "c.csv.GZ", zipped(3))
    write_file(landing, "latin.csv", "").write_bytes(b"id,n\xfcme\n1,x\n")
    write_file(landing, "d.csv", "id,name\n4,n\n", second=1)
    write_file(landing, "e.csv", "id,name\n5,n\n", second=1)
    write_bytes(landing, "f.csv.gz", gzip.compress(b"id,name\n6,n\n")[:-8])  # only the checksum is cut off
    options = {"quarantine": str(quarantine), "run": "r", "max_bad_share": 0.6}
    fail_at_target_commit(monkeypatch)
    with pytest.raises(SourceError, match="killed"):
        copy_files(spark, table, landing, **options)
    assert (loaded_names(table), rows(table), len(quarantined_rows(quarantine))) == ([], [], 5)
    write_bytes(landing, "b.csv.gz", zipped(7), second=5)
    result = copy_files(spark, table, landing, **options)
    assert [row[0] for row in rows(table)] == [1, 2, 4, 5, 7]
    bad = [("a.csv.gz", 4, "x,n"), *((name, None, None) for name in ("c.csv.GZ", "f.csv.gz", "latin.csv"))]
    assert quarantined_rows(quarantine) == bad
    assert (result.metrics["numUnreadableFiles"], result.metrics["numLoadedFiles"]) == (3, 4)
    copy_files(spark, table, landing, **options | {"run": "forced", "force": True})
    assert quarantined_rows(quarantine) == sorted(bad * 2, key=str)


def test_a_query_that_reads_a_part_of_a_file_loads_no_part_of_an_unreadable_file(spark, landing, table, quarantine):
    write_bytes(landing, "a.csv.gz", zipped(*range(10)))
    write_bytes(landing, "b.csv.gz", CUT)
    options = {"schema": SCHEMA, "quarantine": str(quarantine)}
    copy_files(
        spark, table, landing, run="r", **options,
        query="SELECT * FROM source WHERE EXISTS (SELECT 1 FROM source WHERE id >= 0 LIMIT 1) LIMIT 5",
    )  # fmt: skip
    assert all(row[0] < 10 for row in rows(table)) and len(rows(table)) == 5
    assert quarantined_rows(quarantine) == [("b.csv.gz", None, None)]


def test_a_file_that_changes_or_disappears_during_the_load_is_not_quarantined(
    spark, landing, table, quarantine, monkeypatch
):
    define_table(spark, TableRequest(table=str(table), schema=SCHEMA))
    options = {"quarantine": str(quarantine), "run": "r", "max_bad_share": 1}
    write_bytes(landing, "a.csv.gz", zipped(1))
    write_bytes(landing, "b.csv.gz", CUT)
    count_delivered_bytes = unreadable_files_module.FileChecker._count_delivered_bytes

    def copy_during(change):
        def change_and_count(checker, address):
            change(landing / "b.csv.gz")
            return count_delivered_bytes(checker, address)

        monkeypatch.setattr(unreadable_files_module.FileChecker, "_count_delivered_bytes", change_and_count)
        copy_files(spark, table, landing, conflict_retries=0, **options)

    with pytest.raises(SourceNotFoundError, match="no longer exists"):
        copy_during(lambda file: file.unlink())
    write_bytes(landing, "b.csv.gz", CUT)
    with pytest.raises(StorageError, match=r"b\.csv\.gz"):
        copy_during(lambda file: (file.unlink(), file.mkdir()))
    (landing / "b.csv.gz").rmdir()
    write_bytes(landing, "b.csv.gz", CUT)
    with pytest.raises(SourceChangedError, match=r"b\.csv\.gz.*changed|changed.*b\.csv\.gz"):
        copy_during(lambda file: write_bytes(landing, file.name, CUT + b"x"))
    assert not quarantine.exists() and loaded_names(table) == []
    monkeypatch.undo()
    write_bytes(landing, "b.csv.gz", CUT, second=3)
    find_unreadable = unreadable_files_module.FileChecker.find_unreadable

    searches = []

    def find_and_repair(checker, **arguments):
        bad_files = find_unreadable(checker, **arguments)
        searches.append(bad_files)
        write_bytes(landing, "b.csv.gz", zipped(2), second=4)
        return bad_files

    monkeypatch.setattr(unreadable_files_module.FileChecker, "find_unreadable", find_and_repair)
    assert copy_files(spark, table, landing, **options).quarantine.rows == 0
    assert rows(table) == [(1, "n"), (2, "n")], "a file that is repaired during the search is loaded"
    assert len(searches) == 1


def test_a_file_whose_columns_do_not_fit_or_that_has_wrong_checksums_is_left_out(spark, landing, table, quarantine):
    define_table(spark, TableRequest(table=str(table), schema=SCHEMA))
    columns = [{"id": [1]}, {"id": ["x"]}, {"id": [3], "new": [True]}, {"id": pa.array([5], pa.int32())}]
    for number, arrays in enumerate(columns):
        (landing / str(number)).mkdir(parents=True)
        pq.write_table(pa.table(arrays), landing / str(number) / "part-0.parquet")
    spark.sql("SELECT id, md5(string(id)) AS name FROM range(4)").coalesce(1).write.parquet(f"{landing}/4")
    (cut,) = (landing / "4").glob("part-*")
    cut.write_bytes(cut.read_bytes()[:-40])
    assert (cut.parent / f".{cut.name}.crc").exists()
    with pytest.raises(SchemaMismatchError, match=r"The columns of .*/2/part-.* new \(boolean\)"):
        copy_files(spark, table, landing, "parquet", pattern="[023]/*")
    with pytest.raises(SourceError, match=rf"{cut.name}: Checksum error"):
        copy_files(spark, table, landing, "parquet", pattern="4/*")
    assert loaded_names(table) == []
    result = copy_files(spark, table, landing, "parquet", quarantine=str(quarantine), max_bad_share=0.7)
    assert sorted(row[0] for row in rows(table)) == [1, 5]
    bad_files = DeltaTable(str(quarantine)).to_arrow().to_pylist()
    reasons = {row["file"].rpartition("/")[0].rpartition("/")[2]: row["reason"] for row in bad_files}
    assert "'id' is bigint in the table and string in the data" in reasons["1"]
    assert "does not have these columns of the file: new (boolean)" in reasons["2"]
    assert "does not match its checksums" in reasons["4"]
    assert result.metrics["numUnreadableFiles"] == len(reasons) == 3
