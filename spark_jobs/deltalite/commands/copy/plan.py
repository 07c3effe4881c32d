"""The plan of one attempt: the files to load, their rows, and their record.

All attempts of a command share one listing of the files. If a file changes while an attempt reads it, the next attempt
lists the files again, so that the record holds the size and the time of the loaded file. Each attempt looks the files
up in the record of the snapshot on which its commit is based. The commit conflicts with every other commit that changes
the record, so no file is loaded twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from deltalite.commands.common.committing import now_ms
from deltalite.commands.common.replanning import NewPlanNeeded
from deltalite.commands.copy.quarantine import CopyQuarantine
from deltalite.commands.copy.unreadable_files import readable_files
from deltalite.commands.quarantine import check_separate
from deltalite.errors import InvalidRequestError, SourceChangedError, SourceError, SourceNotFoundError
from deltalite.loaded_files.choice import FileChoice, choose_files, sizes_by_address
from deltalite.loaded_files.listing import SourceFolder, changed_files, find_files, list_files
from deltalite.loaded_files.manifest import Manifest, current_manifest_number, read_manifest
from deltalite.loaded_files.record import add_loaded_files, find_loaded
from deltalite.protocol.actions import LOADED_FILES_APP_ID, SetTransaction
from deltalite.protocol.schema import StructType
from deltalite.requests import CopyRequest, Source, WriteRequest
from deltalite.requests.source_paths import is_hidden, split_address
from deltalite.results import OperationResult
from deltalite.sizes import counted
from deltalite.snapshot import Snapshot
from deltalite.spark.hadoop.folders import folder_of
from deltalite.spark.hadoop.opening import check_address_is_unambiguous
from deltalite.spark.hadoop.tree import source_tree
from deltalite.spark.reader.file_loading import SourceFiles
from deltalite.spark.reader.source_files import no_source_rows, read_source_files
from deltalite.spark.reader.sources import QueryRows, query_frames
from deltalite.spark.reader.unreadable_file_error import UnfitFileError
from deltalite.spark.reader.unreadable_files import FileChecker, may_be_unreadable
from deltalite.spark.runtime.errors import SPARK_ERRORS
from deltalite.storage.locations import canonical_address, contain_one_another, parse_location
from deltalite.txn.loaded_files import check_keeps_loaded_files, loaded_files_transaction, result_without_load
from deltalite.upkeep.loaded_files import check_record_not_lost

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from deltalite.storage.log_store import LogStore
    from deltalite.txn.proposal import ReadSet


UNREADABLE_FILES = "numUnreadableFiles"
"""The metric for the number of files that cannot be read. Only a run with a quarantine has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSource:
    """The folder of a source, and its files that match the request (`FILES`), the oldest first."""

    folder: str
    files: pa.Table


def list_source(spark: SparkSession, request: CopyRequest) -> ListedSource:
    """List the files of the request's source.

    Raises:
        SourceNotFoundError: the folder, or one of `file_names`, does not exist.
        InvalidRequestError: a pattern is malformed, the source is a hidden file, or two of the folder, the table and
            the quarantine overlap.
        StorageError, StoragePermissionError: a folder cannot be listed.
    """
    path = request.source.path or ""
    base, path_pattern = split_address(path)
    check_address_is_unambiguous(spark, base)
    folder = _source_folder(spark, base)
    table = canonical_address(parse_location(request.table))
    _refuse_overlap(folder.address, table)
    check_separate(request.quarantine, {"table": table, "source": folder.address.rstrip("/")})
    if request.file_names is not None:
        return ListedSource(folder=folder.address, files=find_files(folder, request.file_names))
    files = list_files(folder, path_pattern, request.pattern)
    if not files.num_rows and not path_pattern and folder_of(spark, folder.tree.root).missing_folders():
        raise SourceNotFoundError(
            f"The folder of the source, {path}, does not exist.",
            remedy="Correct the path, or wait for the folder. Set `retries` so that Airflow runs the task again.",
        )
    if not files.num_rows and not path_pattern:  # the path may be that of a file
        parent, _, base_name = folder.address.rpartition("/")
        parent_folder = _source_folder(spark, parent or "/")
        if base_name in parent_folder.tree.list("").bases:
            if is_hidden(base_name):
                raise InvalidRequestError(
                    f"The source {path} is a hidden file, which Spark ignores.",
                    remedy="Rename the file, so that its name begins with neither '_' nor '.'.",
                )
            return ListedSource(folder=parent_folder.address, files=find_files(parent_folder, [base_name]))
    return ListedSource(folder=folder.address, files=files)


def _source_folder(spark: SparkSession, address: str) -> SourceFolder:
    location = parse_location(address)
    return SourceFolder(tree=source_tree(spark, location.path), address=canonical_address(location))


def _refuse_overlap(folder: str, table: str) -> None:
    """Refuse a source that contains the table or lies in it, because data files of the table would be loaded."""
    if contain_one_another(folder, table):
        raise InvalidRequestError(
            f"The source {folder} contains the table {table}, or lies in it, so files of the table could be loaded.",
            remedy="Move the files to a separate folder.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLoad:
    """The load of one attempt; a `LoadPlan`.

    - `store`: the store of the table.
    - `folder`: the folder of the source.
    - `base`: the snapshot on which the commit is based, None without a table.
    - `manifest`: the record of that snapshot.
    - `choice`: the files to load.
    - `quarantine`: the quarantine of the command, None without one.
    - `unreadable`: the files of the choice that cannot be read, with the reasons. Their rows are left out.
    - `list_again`: makes the next attempt list the files again. None if the attempt commits nothing.
    """

    request: CopyRequest
    store: LogStore
    folder: str
    base: Snapshot | None
    manifest: Manifest
    choice: FileChoice
    quarantine: CopyQuarantine | None
    unreadable: Mapping[str, str]
    list_again: Callable[[], None] | None

    @property
    def loaded(self) -> tuple[pa.Table, pa.Table, StructType | None]:
        """The files to load, those of them that are readable, and the columns to read."""
        return self.choice.files, self._readable_files, self._read_schema

    @property
    def parameters(self) -> Mapping[str, str]:
        """The source, as the history of the table shows it."""
        source = {"path": self.request.source.path or "", "format": self.request.source.format}
        return {**source, "force": str(self.request.force).lower()}

    @property
    def metrics(self) -> Mapping[str, int]:
        """The numbers of files, and the range of the modification times of the files."""
        metrics = self.choice.metrics
        if self.quarantine is None:
            return metrics
        return {
            **metrics,
            "numLoadedFiles": self._readable_files.num_rows,
            "numLoadedBytes": int(self._readable_files["size_bytes"].to_numpy().sum()),
            UNREADABLE_FILES: len(self.unreadable),
        }

    @property
    def metrics_without_load(self) -> Mapping[str, int]:
        """The metrics of a run that only checks the files."""
        metrics = self.choice.metrics_without_load
        return metrics if self.quarantine is None else {**metrics, UNREADABLE_FILES: len(self.unreadable)}

    def result_if_nothing_new(
        self,
        request: WriteRequest,  # noqa: ARG002  the protocol has it
        base: Snapshot | None,
    ) -> OperationResult | None:
        """Return the result of a run without a new file, else None."""
        version = None if base is None else base.version
        return result_without_load(self.request, self.store.root, version, self.choice)

    @contextmanager
    def rows(self, spark: SparkSession, sources: Mapping[str, Source], request: WriteRequest) -> Iterator[QueryRows]:
        """Yield the rows of the files, or of the query over them. At the end, check that no file changed meanwhile.

        Raises:
            SourceChangedError: a file changed. The rows may be those of the changed file, and not of the listed one.
            SourceError: as `read_source_files`.
            NewPlanNeeded: with a quarantine, some files are unreadable. The next plan leaves them out.
        """
        try:
            with self._unchecked_rows(spark, sources, request) as rows:
                yield rows
        except (SourceError, UnfitFileError, *SPARK_ERRORS) as error:
            if isinstance(error, SourceError) or may_be_unreadable(error):
                self._check_unchanged(spark, error)
            self.replan_without_unreadable(spark, error)
            raise
        self._check_unchanged(spark)

    def replan_without_unreadable(self, spark: SparkSession, error: Exception) -> None:
        """Make the command replan if there is a quarantine, and a read failed because of unreadable files.

        Raises:
            NewPlanNeeded: some files are unreadable.
            SourceChangedError: a file changed during the search.
            SourceError: more files are unreadable than `max_bad_share` allows.
            StorageError: the storage does not deliver a file.
        """
        if self.quarantine is None:
            return
        try:
            checker = self._checker(spark)
            self.quarantine.unreadable_files.replan_without_unreadable(error, self._readable_files, checker)
        except NewPlanNeeded:
            self._check_unchanged(spark, error)
            raise
        if may_be_unreadable(error):  # a file that changed during the search is not unreadable
            self._check_unchanged(spark, error)

    def check_readable(self, spark: SparkSession) -> None:
        """Read all rows of all files. Make the command replan if some files are unreadable.

        Raises:
            NewPlanNeeded, SourceChangedError, SourceError, StorageError: as `replan_without_unreadable`.
        """
        error = self._checker(spark).failure() if self._readable_files.num_rows else None
        if error is not None:
            self.replan_without_unreadable(spark, error)

    def _checker(self, spark: SparkSession) -> FileChecker:
        return FileChecker(
            spark=spark,
            files=self._readable_source_files,
            table=self._read_schema,
            merge_schema=self.request.merge_schema,
        )

    def _check_unchanged(self, spark: SparkSession, cause: Exception | None = None) -> None:
        if self.list_again is None:
            return
        changed = changed_files(_source_folder(spark, self.folder), self.choice.files)
        if changed:
            self.list_again()
            raise SourceChangedError(
                f"Nothing was loaded into {self.request.table}: {len(changed)} of "
                f"{counted(self.choice.files.num_rows, 'file')} changed during the read, such as {min(changed)}.",
                remedy="Run the task again. Let the producer write under a hidden name, and rename the complete file.",
            ) from cause

    @contextmanager
    def _unchecked_rows(
        self, spark: SparkSession, sources: Mapping[str, Source], request: WriteRequest
    ) -> Iterator[QueryRows]:
        (name,) = sources
        has_schema = self.request.source.schema is not None or self._read_schema is not None
        separation = None if self.quarantine is None else self.quarantine.start_separation(self, has_schema=has_schema)
        if self._readable_files.num_rows:
            frame = read_source_files(
                spark,
                self._readable_source_files,
                self._read_schema,
                merge_schema=request.merge_schema,
                separation=separation,
            )
        else:
            frame = no_source_rows(spark, self._all_source_files, self._read_schema)
        with query_frames(spark, {name: frame}, request.query, request.query_params) as rows:
            yield QueryRows(frame=rows, source_versions={})

    def record(self) -> tuple[SetTransaction, ...]:
        """Write the record with the new files, and return the transaction that names it.

        Nothing reads the record of the files before the commit.
        """
        new_files = self.choice.new_files
        if not new_files.num_rows:  # with `force`, all files may be loaded already
            return ()
        manifest = add_loaded_files(self.store, self.manifest, new_files, loaded_ms=now_ms())
        return (loaded_files_transaction(manifest.number, now_ms=now_ms()),)

    def extended_reads(self, reads: ReadSet) -> ReadSet:
        """Return the read set with the record of loaded files."""
        return replace(reads, app_id_prefixes=(*reads.app_id_prefixes, LOADED_FILES_APP_ID))

    @property
    def _readable_files(self) -> pa.Table:
        return readable_files(self.choice.files, self.unreadable)

    @property
    def _readable_source_files(self) -> SourceFiles:
        return self._as_source_files(self._readable_files)

    @property
    def _all_source_files(self) -> SourceFiles:
        return self._as_source_files(self.choice.files)

    def _as_source_files(self, files: pa.Table) -> SourceFiles:
        return SourceFiles(
            source=self.request.source,
            folder=self.folder,
            sizes=sizes_by_address(files),
            file_column=self.request.file_column,
        )

    @property
    def _read_schema(self) -> StructType | None:
        """The columns of the table. None if there is no table, or if a query computes them."""
        return None if self.base is None or self.request.query is not None else self.base.schema


def plan_load(
    request: CopyRequest,
    store: LogStore,
    source: ListedSource,
    base: Snapshot | None,
    quarantine: CopyQuarantine | None = None,
    list_again: Callable[[], None] | None = None,
) -> FileLoad:
    """Choose the files that the attempt on `base` loads. Read the record, but no source file.

    With `list_again`, the attempt checks that the files do not change while it reads them. It calls the function after
    a change.

    Raises:
        InvalidRequestError: the transactions of the table expire.
        CorruptLogError, UnsupportedFeatureError: the record cannot be read, or another engine has removed it.
        SourceError: more files are unreadable than `max_bad_share` allows.
        StorageError: the storage does not answer.
    """
    if base is not None:
        check_keeps_loaded_files(base.configuration, table=request.table)
        check_record_not_lost(base)
    manifest = Manifest() if base is None else read_manifest(store, current_manifest_number(base.transactions))
    choice = choose_files(
        source.files,
        find_loaded(store, manifest, source.files),
        force=request.force,
        max_files=request.max_files,
        max_bytes=request.max_bytes,
    )
    return FileLoad(
        request=request,
        store=store,
        folder=source.folder,
        base=base,
        manifest=manifest,
        choice=choice,
        quarantine=quarantine,
        unreadable={} if quarantine is None else quarantine.unreadable_files.among(choice.files),
        list_again=list_again,
    )
