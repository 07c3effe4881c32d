"""The partition columns of a write: those of a new table or a new schema, and the check against an existing table."""

from __future__ import annotations

from collections.abc import Sequence

from deltalite.errors import InvalidRequestError, SchemaMismatchError
from deltalite.protocol.schema import ArrayType, MapType, PrimitiveType, StructType
from deltalite.snapshot import Snapshot

# The log stores partition values as text. Binary values need not be text, and variants cannot be compared.
_TYPES_THAT_CANNOT_PARTITION = (PrimitiveType("binary"), PrimitiveType("variant"))


def partition_columns(schema: StructType, partitioned_by: Sequence[str]) -> tuple[str, ...]:
    """Return the partition columns in the schema's spelling.

    Raises:
        InvalidRequestError: a column does not exist, cannot partition a table, or no data column would be left.
    """
    names: list[str] = []
    for name in partitioned_by:
        field = schema.find(name)
        if field is None:
            raise InvalidRequestError(
                f"partition_by names '{name}', but the rows have only the columns {', '.join(schema.names)}.",
                remedy="Correct the name, or add the column in `query`.",
            )
        if isinstance(field.type, StructType | ArrayType | MapType) or field.type in _TYPES_THAT_CANNOT_PARTITION:
            raise InvalidRequestError(
                f"The column '{field.name}' is {field.type}, which cannot partition a table.",
                remedy="Partition by a column of a simple type.",
            )
        names.append(field.name)
    if names and len(names) == len(schema.names):
        raise InvalidRequestError(
            "partition_by names every column, so the data files would have no columns.",
            remedy="Leave one column out.",
        )
    return tuple(names)


def check_same_partitioning(partition_by: Sequence[str] | None, base: Snapshot) -> None:
    """Check that `partition_by` is None, or has the partition columns of the existing table in the same order.

    Raises:
        SchemaMismatchError: `partition_by` has other columns, or another order.
    """
    if partition_by is None:
        return
    if [name.lower() for name in partition_by] != [name.lower() for name in base.partition_columns]:
        raise SchemaMismatchError(
            f"The table is partitioned by ({', '.join(base.partition_columns)}), but partition_by is "
            f"({', '.join(partition_by)}).",
            remedy="Leave partition_by out, or replace the table with DeltaWriteOperator, mode='overwrite' and "
            "overwrite_schema=True.",
        )


def check_has_partition_columns(schema: StructType, base: Snapshot) -> None:
    """Check that a new schema has the partition columns of the table.

    Raises:
        SchemaMismatchError: the schema lacks a partition column.
    """
    missing_names = [name for name in base.partition_columns if schema.find(name) is None]
    if missing_names:
        raise SchemaMismatchError(
            f"The table is partitioned by ({', '.join(base.partition_columns)}), but the new schema has no column "
            f"'{missing_names[0]}'.",
            remedy="Set partition_by to the new partition columns, or to [] for none; or add the column in `query`.",
        )
