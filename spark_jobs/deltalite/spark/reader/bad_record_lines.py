"""The lines of files with their numbers, in the order of each file.

Spark reads a large file in blocks, and knows no line numbers. A first query counts the lines of each block, and a
second query adds the lines of the earlier blocks to the position in the block. Both queries read the same blocks,
because `TEXT_SETTINGS` makes the division of files into blocks depend on their sizes only.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.spark.hadoop.uris import load_paths
from deltalite.spark.runtime.session import STRICT_READ

TEXT_SETTINGS = {
    "spark.sql.files.maxPartitionBytes": "128MB",
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.files.openCostInBytes": "4MB",
    "spark.sql.legacy.codingErrorAction": "true",  # replaces invalid bytes, as Spark's readers do
}
FILE, LINE, TEXT = "file", "line", "_deltalite_text"
_PATH, _BLOCK, _ID, _FIRST_ID, _FIRST_LINE, _HEADER_ID = "path", "block", "id", "first_id", "first_line", "header_id"
CSV_BLANK, JSON_BLANK = r"\x00-\x20", r"\t\r\n\x20"
"""The characters that Spark's readers ignore in a line without a record, as ranges of a regular expression."""
_SPARK_CHARSETS = {
    "utf-8": "UTF-8",
    "ascii": "US-ASCII",
    "iso8859-1": "ISO-8859-1",
    "utf-16": "UTF-16",
    "utf-16-le": "UTF-16LE",
    "utf-16-be": "UTF-16BE",
    "utf-32": "UTF-32",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFormat:
    """How lines are read.

    - `separator`: the separator of lines; None for a line feed, a carriage return or both.
    - `charset`: the charset in Spark's spelling.
    - `has_header`: whether the first line with content is a header.
    - `comment`: the character with which a comment begins, if any.
    - `is_whole_text`: whether the whole file counts as one line, without a number.
    - `blank`: the characters of a line without content, as a range of a regular expression.
    """

    separator: str | None = None
    charset: str = "UTF-8"
    has_header: bool = False
    comment: str | None = None
    is_whole_text: bool = False
    blank: str = CSV_BLANK


def spark_charset(encoding: str) -> str | None:
    """Return Spark's name of a charset that Spark can decode, or None."""
    try:
        return _SPARK_CHARSETS.get(codecs.lookup(encoding).name)
    except LookupError:
        return None


def numbered_lines(spark: SparkSession, addresses: Sequence[str], line_format: LineFormat) -> DataFrame:
    """Return the columns `FILE`, `LINE` and `TEXT` of the lines with content, without headers and comments.

    If a whole file counts as one line, all files are returned, and `LINE` is null. Call the function and run the query
    with the settings `TEXT_SETTINGS`.
    """
    lines = _lines(spark, addresses, line_format)
    by_path = addresses_by_path(addresses)
    if line_format.is_whole_text:
        paths = [row[0] for row in lines.select(_PATH).collect()]
        files = pa.table({_PATH: paths, FILE: [address_of(path, by_path) for path in paths]})
        lines_of_files = lines.join(F.broadcast(spark.createDataFrame(files)), _PATH)
        return lines_of_files.select(FILE, F.lit(None).cast("bigint").alias(LINE), TEXT)
    blocks = spark.createDataFrame(_numbered_blocks(_count_blocks(lines, line_format), by_path))
    numbered = lines.join(F.broadcast(blocks), [_PATH, _BLOCK])
    is_header = F.col(_ID).eqNullSafe(F.col(_HEADER_ID)) if line_format.has_header else F.lit(False)
    number = F.col(_ID) - F.col(_FIRST_ID) + F.col(_FIRST_LINE)
    return numbered.where(has_content(line_format) & ~is_header).select(FILE, number.alias(LINE), TEXT)


def path_key(path: str) -> str:
    """Return the path in an address, without scheme and authority."""
    _, separator, rest = path.partition("://")
    if separator and not path.startswith("file:"):
        return f"/{rest.partition('/')[2]}"
    return f"/{path.removeprefix('file:').lstrip('/')}"


def addresses_by_path(addresses: Iterable[str]) -> dict[str, str]:
    """Return canonical addresses by their paths, for `address_of`."""
    return {path_key(address): address for address in addresses}


def address_of(spark_path: str, by_path: Mapping[str, str]) -> str:
    """Return the canonical address of a path in Spark's spelling; the path itself if it is unknown.

    `by_path` is the result of `addresses_by_path`.
    """
    return by_path.get(path_key(unquote(spark_path)), spark_path)


def line_reader(spark: SparkSession, line_format: LineFormat) -> DataFrameReader:
    """Return the reader of the lines. It returns them in the column `value`."""
    reader = spark.read.format("text").options(**STRICT_READ)
    if line_format.separator is not None:
        reader = reader.options(lineSep=line_format.separator, encoding=line_format.charset)
    return reader.option("wholetext", "true") if line_format.is_whole_text else reader


def line_text(line_format: LineFormat) -> Column:
    """Return the text of a line of `line_reader`. Analyze the query with the settings `TEXT_SETTINGS`."""
    text = F.col("value")
    return text if line_format.charset == "UTF-8" else F.decode(text.cast("binary"), line_format.charset)


def _lines(spark: SparkSession, addresses: Sequence[str], line_format: LineFormat) -> DataFrame:
    return (
        line_reader(spark, line_format)
        .load(load_paths(addresses))
        .select(
            F.col("_metadata.file_path").alias(_PATH),
            F.col("_metadata.file_block_start").alias(_BLOCK),
            F.monotonically_increasing_id().alias(_ID),
            line_text(line_format).alias(TEXT),
        )
    )


def has_content(line_format: LineFormat) -> Column:
    """Whether the line is neither blank nor a comment."""
    has_text = F.col(TEXT).rlike(f"[^{line_format.blank}]")
    return has_text if line_format.comment is None else has_text & ~F.col(TEXT).startswith(line_format.comment)


def _count_blocks(lines: DataFrame, line_format: LineFormat) -> list[tuple[str, int, int, int, int | None]]:
    """Return path, start, first id, line count and header id of each block.

    The header id is that of the first line with content, None if the block has no such line.
    """
    header_id = F.min(F.when(has_content(line_format), F.col(_ID)))
    counted = lines.groupBy(_PATH, _BLOCK).agg(F.min(_ID), F.count(F.lit(1)), header_id)
    return [tuple(row) for row in counted.collect()]


def _numbered_blocks(
    counted_blocks: Sequence[tuple[str, int, int, int, int | None]], by_path: Mapping[str, str]
) -> pa.Table:
    """Return the blocks with their file, the number and the id of their first line, and the id of the file's header."""
    rows = list(_with_first_lines(counted_blocks, by_path))
    names = (_PATH, _BLOCK, FILE, _FIRST_ID, _FIRST_LINE, _HEADER_ID)
    types = (pa.string(), pa.int64(), pa.string(), pa.int64(), pa.int64(), pa.int64())
    return pa.table(
        {
            name: pa.array([row[n] for row in rows], column_type)
            for n, (name, column_type) in enumerate(zip(names, types, strict=True))
        }
    )


def _with_first_lines(
    counted_blocks: Sequence[tuple[str, int, int, int, int | None]], by_path: Mapping[str, str]
) -> Iterator[tuple[object, ...]]:
    next_lines: dict[str, int] = {}
    for path, start, first_id, count, content_id in sorted(counted_blocks, key=lambda block: block[:2]):
        first_line = next_lines.get(path, 1)
        next_lines[path] = first_line + count
        header_id = content_id if start == 0 else None
        yield path, start, address_of(path, by_path), first_id, first_line, header_id
