"""The files of a version that are inside of the table's folder, for a page that shows rows.

A log can name any file that the process can read: a shallow clone names the files of its source, and a hostile writer
names the files of another table. A user who may see the rows of this table need not have the right to see the rows of
other tables. So a page must not read files outside of the folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from deltalite.columnar.deletion_vectors.descriptors import file_name
from deltalite.errors import UnsupportedFeatureError
from deltalite.protocol.paths import encode_path, name_in_table


class _File(Protocol):
    """A file to read, with the descriptors of its deletion vectors."""

    @property
    def path(self) -> str: ...

    @property
    def deletion_vector(self) -> Mapping[str, Any] | None: ...

    @property
    def only_rows_vector(self) -> Mapping[str, Any] | None: ...


File = TypeVar("File", bound=_File)


def inner_files(files: Iterable[File], root: str) -> Iterator[File]:
    """Yield the files, each after a check that it is inside of the table's folder `root`.

    Raises:
        UnsupportedFeatureError: a file or its deletion vector is outside of the table's folder.
        CorruptDataFileError: the descriptor of a deletion vector is invalid.
    """
    for file in files:
        vectors = (vector for vector in (file.deletion_vector, file.only_rows_vector) if vector is not None)
        vector_names = (name for name in map(file_name, vectors) if name is not None)
        for path in (file.path, *map(encode_path, vector_names)):
            if name_in_table(path, root) is None:
                raise UnsupportedFeatureError(
                    f"The version has the file '{path}', which is outside of the folder of the table. A page shows no "
                    "rows of such files.",
                    remedy="Read the version with `deltalite head` or Spark.",
                )
        yield file
