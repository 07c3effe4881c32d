"""The reader returns the rows of a simple model in Python, for random tables, file layouts and requests."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltalite.columnar.predicates.predicate import (
    And,
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Not,
    Operator,
    Or,
    StartsWith,
)
from deltalite.columnar.reader.data_file import split
from deltalite.columnar.reader.equality_deletes import EqualityDeletes
from deltalite.protocol.schema import ArrayType, MapType, PrimitiveType
from tests.support.fuzzing import examples
from tests.support.lake import Lake, struct_of
from tests.support.skipping import truth
from tests.support.vectors import inline_vector

LONG, DOUBLE, STRING = (PrimitiveType(name) for name in ("long", "double", "string"))
MEMBER = struct_of(x=LONG, y=STRING)
SCHEMA = struct_of(
    n=LONG, f=DOUBLE, s=STRING, st=MEMBER, l=ArrayType(MEMBER), m=MapType(STRING, LONG), p=LONG, new=STRING
)
FILE_SCHEMA = pa.schema(
    [
        ("n", pa.int32()),
        ("s", pa.string()),
        ("st", pa.struct([("y", pa.string()), ("x", pa.int32()), ("gone", pa.int64())])),
        ("f", pa.float64()),
        ("m", pa.map_(pa.string(), pa.int32())),
        ("l", pa.list_(pa.struct([("x", pa.int64()), ("y", pa.string())]))),
        ("p", pa.int64()),
    ]
)

small_numbers = st.none() | st.integers(-3, 3)
floats = st.none() | st.sampled_from([-0.0, 0.0, math.nan, -1.5, 1.5, math.inf])
texts = st.none() | st.sampled_from(["", "a", "ab", "b", "ü", "\U0001f600"])
members = st.none() | st.builds(lambda x, y: {"x": x, "y": y}, small_numbers, texts)
row_values = st.fixed_dictionaries(
    {
        "n": small_numbers,
        "f": floats,
        "s": texts,
        "st": members,
        "l": st.none() | st.lists(members, max_size=2),
        "m": st.none()
        | st.lists(st.tuples(st.sampled_from("ab"), small_numbers), max_size=2, unique_by=lambda pair: pair[0]),
    }
)


def comparisons(column, literals):
    return st.builds(Comparison, column=st.just(column), operator=st.sampled_from(Operator), literal=literals)


leaf_predicates = st.one_of(
    comparisons(("n",), small_numbers),
    comparisons(("f",), floats),
    comparisons(("s",), texts),
    comparisons(("st", "x"), small_numbers),
    comparisons(("p",), small_numbers),
    comparisons(("new",), texts),
    st.builds(In, st.just(("n",)), st.lists(small_numbers, max_size=3).map(tuple)),
    st.builds(In, st.just(("f",)), st.lists(floats, max_size=3).map(tuple)),
    st.builds(In, st.just(("s",)), st.lists(texts, max_size=3).map(tuple)),
    st.builds(StartsWith, st.just(("s",)), st.sampled_from(["", "a", "ab"])),
    st.sampled_from([("n",), ("f",), ("st",), ("st", "y"), ("l",), ("new",), ("p",)]).flatmap(
        lambda column: st.sampled_from([IsNull(column), IsNotNull(column)])
    ),
)
predicates = st.recursive(
    leaf_predicates,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda children: And(tuple(children))),
        st.lists(inner, max_size=3).map(lambda children: Or(tuple(children))),
        inner.map(Not),
    ),
    max_leaves=4,
)


def key_of(values):
    """A key that compares like the keys of equality deletes: nulls are equal, NaNs are equal, 0.0 differs from -0.0."""
    return tuple(repr(value) for value in values)


PREDICATE_PATHS = (*((name,) for name in SCHEMA.names), ("st", "x"), ("st", "y"))
PATHS = {"n": ("n",), "f": ("f",), "s": ("s",), "st.x": ("st", "x"), "p": ("p",), "new": ("new",)}
KEY_TYPES = {
    "n": pa.int64(),
    "f": pa.float64(),
    "s": pa.string(),
    "st.x": pa.int8(),
    "p": pa.int64(),
    "new": pa.string(),
}
KEY_VALUES = {"n": small_numbers, "f": floats, "s": texts, "st.x": small_numbers, "p": small_numbers, "new": texts}


@st.composite
def deletes(draw):
    """Equality deletes, the names of their columns, and the set of their keys."""
    names = draw(st.lists(st.sampled_from(list(PATHS)), min_size=1, max_size=3, unique=True))
    rows = draw(st.lists(st.tuples(*(KEY_VALUES[name] for name in names)), max_size=4))
    columns = {name: pa.array([row[i] for row in rows], KEY_TYPES[name]) for i, name in enumerate(names)}
    return EqualityDeletes(columns=tuple(names), keys=pa.table(columns)), names, {key_of(row) for row in rows}


def value_at(row, path):
    for name in path:
        row = None if row is None else row[name]
    return row


def is_selected(predicate, row):
    """Whether the predicate is true for a row."""
    return truth(predicate, {path: value_at(row, path) for path in PREDICATE_PATHS}, None) is True


COLUMN_CHOICES = ["n", "f", "s", "st", "st.x", "st.y", "l", "m", "p", "new", "_row_index", "_is_deleted"]


def projected_row(row, columns):
    """The row after the projection."""
    projected = {}
    for name in columns:
        top, _, member = name.partition(".")
        if member and row[top] is not None and projected.get(top) != row[top]:
            selected = {**(projected.get(top) or {}), member: row[top][member]}
            projected[top] = {key: selected[key] for key in ("x", "y") if key in selected}
        else:
            projected[top] = row[top]
    return projected


@st.composite
def file_descriptions(draw):
    rows = draw(st.lists(row_values, max_size=12))
    positions = st.sets(st.integers(0, max(len(rows) - 1, 0)), max_size=len(rows))
    return {
        "rows": rows,
        "p": draw(small_numbers),
        "row_group_size": draw(st.integers(1, 5)),
        "dictionary": draw(st.booleans()),
        "statistics": draw(st.booleans()),
        "deleted_rows": draw(st.none() | positions),
        "only_rows": draw(st.none() | st.none() | positions),
    }


@pytest.mark.slow
@examples(100)
@given(
    descriptions=st.lists(file_descriptions(), min_size=1, max_size=2),
    columns=st.none() | st.lists(st.sampled_from(COLUMN_CHOICES), max_size=4, unique=True),
    predicate=st.one_of(predicates, predicates, predicates, st.none()),
    drawn_deletes=st.lists(deletes(), max_size=2),
    batch_size=st.integers(1, 7),
    part_bytes=st.none() | st.integers(50, 3_000),
)
def test_the_reader_returns_the_rows_of_the_model(
    descriptions, columns, predicate, drawn_deletes, batch_size, part_bytes
):
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(Path(folder))
        parts, expected = [], []
        for number, description in enumerate(descriptions):
            file_rows = [{**row, "p": 99, "st": row["st"] and {**row["st"], "gone": 1}} for row in description["rows"]]
            name = f"{number}.parquet"
            lake.listed_files.clear()
            lake.add(
                pa.Table.from_pylist(file_rows, schema=FILE_SCHEMA),
                name,
                {"p": None if description["p"] is None else str(description["p"])},
                None if description["deleted_rows"] is None else inline_vector(description["deleted_rows"]),
                row_group_size=description["row_group_size"],
                use_dictionary=description["dictionary"],
                write_statistics=description["statistics"],
            )
            (whole_file,) = lake.data_files(
                only_rows_vector=None if description["only_rows"] is None else inline_vector(description["only_rows"])
            )
            size = (Path(folder) / name).stat().st_size
            parts += [whole_file] if part_bytes is None else list(split(whole_file, size, part_bytes))
            for position, row in enumerate(description["rows"]):
                full_row = {**row, "p": description["p"], "new": None}
                is_deleted = position in (description["deleted_rows"] or ()) or any(
                    key_of(value_at(full_row, PATHS[name]) for name in names) in deleted_keys
                    for _, names, deleted_keys in drawn_deletes
                )
                if description["only_rows"] is not None and position not in description["only_rows"]:
                    continue
                if is_deleted and "_is_deleted" not in (columns or ()):
                    continue
                if predicate is None or is_selected(predicate, full_row):
                    metadata_values = {"_row_index": position, "_is_deleted": is_deleted}
                    expected.append(
                        projected_row({**full_row, **metadata_values}, SCHEMA.names if columns is None else columns)
                    )
        batches = list(
            lake.batches(
                SCHEMA,
                ["p"],
                files=parts,
                columns=columns,
                predicate=predicate,
                equality_deletes=[delete for delete, _, _ in drawn_deletes],
                batch_size=batch_size,
            )
        )
        assert all(0 < batch.num_rows <= batch_size for batch in batches)
        rows_read = [row for batch in batches for row in batch.to_pylist()]
        assert Counter(map(repr, rows_read)) == Counter(map(repr, expected))
        for batch in batches:
            batch.validate(full=True)
