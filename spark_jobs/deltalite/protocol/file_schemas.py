"""The common schema of files that were written over time.

Columns are matched by name. Columns that only later files have are appended. Byte, short and int may widen, because
Parquet stores all three in 32 bits and every engine reads the narrower files with the wider type. Every other
difference is a conflict, and the error names both files. A name that differs only in case is a conflict too, because
some readers find columns by their exact names. delta-spark: SchemaMergingUtils.mergeSchemas, as CONVERT calls it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from deltalite.errors import SchemaMismatchError
from deltalite.protocol.schema import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType

_IN_32_BITS = ("byte", "short", "integer")
Path = tuple[str, ...]


@dataclass(slots=True)
class FileSchemas:
    """The merged schema of the files so far, and the file that each column came from."""

    schema: StructType = field(default_factory=lambda: StructType(()))
    _origins: dict[Path, str] = field(default_factory=dict)

    def add(self, schema: StructType, file: str) -> None:
        """Merge the schema of a file.

        Raises:
            SchemaMismatchError: the schema conflicts with that of an earlier file.
        """
        self.schema = self._struct(self.schema, schema, (), file)

    def _struct(self, merged: StructType, new: StructType, path: Path, file: str) -> StructType:
        fields = []
        for merged_field in merged:
            new_field = new.find(merged_field.name)
            if new_field is None:
                fields.append(merged_field)
                continue
            column = (*path, merged_field.name)
            if new_field.name != merged_field.name:
                raise self._conflict_error(column, f"is called '{new_field.name}' in {file}", f"'{merged_field.name}'")
            fields.append(StructField(merged_field.name, self._type(merged_field.type, new_field.type, column, file)))
        for new_field in new:
            if merged.find(new_field.name) is None:
                self._record_origin(new_field, (*path, new_field.name), file)
                fields.append(new_field)
        return StructType(tuple(fields))

    def _type(self, merged: DataType, new: DataType, path: Path, file: str) -> DataType:
        match merged, new:
            case StructType(), StructType():
                return self._struct(merged, new, path, file)
            case ArrayType(element), ArrayType(new_element):
                return ArrayType(self._type(element, new_element, (*path, "element"), file))
            case MapType(key, value), MapType(new_key, new_value):
                return MapType(
                    self._type(key, new_key, (*path, "key"), file),
                    self._type(value, new_value, (*path, "value"), file),
                )
            case PrimitiveType(name), PrimitiveType(new_name) if {name, new_name} <= set(_IN_32_BITS):
                if _IN_32_BITS.index(name) >= _IN_32_BITS.index(new_name):
                    return merged
                self._origins[path] = file
                return new
            case _ if merged == new:
                return merged
            case _:
                raise self._conflict_error(path, f"is {new} in {file}", str(merged))

    def _record_origin(self, field: StructField, path: Path, file: str) -> None:
        """Record the file of a new column and of its members."""
        self._origins[path] = file
        if isinstance(field.type, StructType):
            for member in field.type:
                self._record_origin(member, (*path, member.name), file)

    def _conflict_error(self, path: Path, new: str, earlier: str) -> SchemaMismatchError:
        """Return the error for a column: `new` is a clause about the current file, `earlier` the earlier value."""
        recorded_path = next((path[:n] for n in range(len(path), 0, -1) if path[:n] in self._origins), path)
        earlier_file = self._origins.get(recorded_path, "an earlier file")
        return SchemaMismatchError(
            f"The column '{'.'.join(path)}' {new}, and {earlier} in {earlier_file}: no table can have both.",
            remedy="Rewrite the files so that they agree on the column, or write all rows to a new table with "
            "DeltaWriteOperator.",
        )


def with_partition_columns(data: StructType, partitions: StructType) -> StructType:
    """Return the columns of the data, then the columns of the folders.

    A column in both stays among the columns of the data, with the folder's name and type.
    """
    data_columns = tuple(partitions.find(f.name) or f for f in data)
    return StructType((*data_columns, *(f for f in partitions if data.find(f.name) is None)))


def names_that_need_mapping(schema: StructType) -> tuple[str, ...]:
    """Return the names at every depth with a character that requires column mapping."""
    return tuple(name for name in _names(schema) if set(name) & set(" ,;{}()\n\t="))


def _names(data_type: DataType) -> tuple[str, ...]:
    match data_type:
        case StructType(fields):
            return tuple(name for f in fields for name in (f.name, *_names(f.type)))
        case ArrayType(element):
            return _names(element)
        case MapType(key, value):
            return (*_names(key), *_names(value))
        case _:
            return ()
