"""One schema for files that were written over time: what each of them has, under the types that hold all of them.

Columns are matched by name; those that only later files have come behind. A type may only grow where all engines read
the narrower files under the wider type: byte, short and int are all 32 bits in Parquet. Everything else is a conflict,
which names both files; so is a name that differs in its case, since some readers find columns by their exact names.
delta-spark: SchemaMergingUtils.mergeSchemas, as CONVERT calls it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from deltalite.errors import SchemaMismatchError
from deltalite.protocol.schema import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType

_IN_32_BITS = ("byte", "short", "integer")
Path = tuple[str, ...]


@dataclass(slots=True)
class FileSchemas:
    """Merges the schemas of files, one after the other."""

    schema: StructType = field(default_factory=lambda: StructType(()))
    _origins: dict[Path, str] = field(default_factory=dict)

    def add(self, schema: StructType, file: str) -> None:
        """Take the schema of a file.

        Raises:
            SchemaMismatchError: it contradicts that of an earlier one.
        """
        self.schema = self._struct(self.schema, schema, (), file)

    def _struct(self, own: StructType, theirs: StructType, path: Path, file: str) -> StructType:
        fields = []
        for known in own:
            new = theirs.find(known.name)
            if new is None:
                fields.append(known)
                continue
            where = (*path, known.name)
            if new.name != known.name:
                raise self._conflict(where, f"is called '{new.name}' in {file}", f"'{known.name}'")
            fields.append(StructField(known.name, self._merged(known.type, new.type, where, file)))
        for new in theirs:
            if own.find(new.name) is None:
                self._remember(new, (*path, new.name), file)
                fields.append(new)
        return StructType(tuple(fields))

    def _merged(self, own: DataType, theirs: DataType, path: Path, file: str) -> DataType:
        match own, theirs:
            case StructType(), StructType():
                return self._struct(own, theirs, path, file)
            case ArrayType(element), ArrayType(their_element):
                return ArrayType(self._merged(element, their_element, (*path, "element"), file))
            case MapType(key, value), MapType(their_key, their_value):
                return MapType(
                    self._merged(key, their_key, (*path, "key"), file),
                    self._merged(value, their_value, (*path, "value"), file),
                )
            case PrimitiveType(a), PrimitiveType(b) if a in _IN_32_BITS and b in _IN_32_BITS:
                if _IN_32_BITS.index(a) >= _IN_32_BITS.index(b):
                    return own
                self._origins[path] = file
                return theirs
            case _ if own == theirs:
                return own
            case _:
                raise self._conflict(path, f"is {theirs} in {file}", str(own))

    def _remember(self, new: StructField, path: Path, file: str) -> None:
        """Where a column, and the members inside of it, came from."""
        self._origins[path] = file
        if isinstance(new.type, StructType):
            for member in new.type:
                self._remember(member, (*path, member.name), file)

    def _conflict(self, path: Path, said: str, known: str) -> SchemaMismatchError:
        """That a column is something in one file and `known` in the file where it was found first."""
        longest = next((path[:n] for n in range(len(path), 0, -1) if path[:n] in self._origins), path)
        return SchemaMismatchError(
            f"The column '{'.'.join(path)}' {said}, and {known} in {self._origins.get(longest, 'an earlier file')}: no "
            "table can have both.",
            remedy="Rewrite the files of one kind, or write all rows to a new table with DeltaWriteOperator.",
        )


def with_partition_columns(data: StructType, partitions: StructType) -> StructType:
    """The data's columns and behind them those of folders; one that both have is of the folder's name and type."""
    kept = tuple(partitions.find(f.name) or f for f in data)
    return StructType((*kept, *(f for f in partitions if data.find(f.name) is None)))


def names_that_need_mapping(schema: StructType) -> tuple[str, ...]:
    """The names of columns, at every depth, with a character that a table needs column mapping for."""
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
