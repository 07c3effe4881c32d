"""Put-if-absent on Hadoop's file systems: the method of each storage, and the outcome of a put without an answer."""

from __future__ import annotations

import logging
import re
import uuid
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from deltalite.errors import (
    CommitStateUnknownError,
    StorageError,
    StoragePermissionError,
    UnsupportedStorageError,
)
from deltalite.protocol.file_names import commit_name
from deltalite.spark.hadoop import put as hadoop_put
from deltalite.spark.hadoop.files import connector_hint
from deltalite.spark.hadoop.opening import writable_store
from deltalite.spark.hadoop.put import PutMethod, put_if_absent, put_method_of
from deltalite.spark.hadoop.store import HadoopLogStore
from deltalite.txn.commit import Committed, commit
from tests.support.remote import s3_server
from tests.support.tables import write_rows
from tests.unit.builders import add, create, load, proposal

CONDITIONAL = "fs.option.create.conditional.overwrite"
ATOMIC_RENAME = "fs.capability.etags.preserved.in.rename"
NAME = commit_name(0)


def stand_in_storage(scheme, *capabilities, hadoop_version="3.4.2"):
    """Return a stand-in for a storage with this scheme and these capabilities of its file system."""
    fs = SimpleNamespace(
        getClass=lambda: SimpleNamespace(getName=lambda: "org.example.FileSystem"),
        getConf=lambda: {"fs.s3a.endpoint": "s3.eu-west-1.amazonaws.com"},
    )
    return SimpleNamespace(
        scheme=scheme,
        root=f"{scheme}://lake/t",
        fs=fs,
        hadoop_version=hadoop_version,
        has_capability=lambda name: name in capabilities,
    )


@pytest.mark.parametrize(("version", "is_accepted"), [("3.4.3", False), ("3.5.0", True), ("4.0.0-beta", True)])
def test_azure_without_a_hierarchical_namespace_needs_a_hadoop_that_renames_by_conditional_copy(version, is_accepted):
    storage = stand_in_storage("abfss", hadoop_version=version)
    if is_accepted:
        assert put_method_of(storage, single_writer=False) is PutMethod.RENAME
    else:
        with pytest.raises(UnsupportedStorageError, match=r"hadoop-azure 3\.5 or later"):
            put_method_of(storage, single_writer=False)


@pytest.mark.parametrize(
    ("scheme", "capabilities", "method"),
    [
        ("s3a", [CONDITIONAL], PutMethod.CONDITIONAL_CREATE),
        ("hdfs", [], PutMethod.RENAME),
        ("webhdfs", [], PutMethod.RENAME),
        ("abfss", [ATOMIC_RENAME], PutMethod.RENAME),
        ("gs", [], PutMethod.NEW_GENERATION),
    ],
)
def test_each_storage_uses_the_put_method_that_it_supports(scheme, capabilities, method):
    assert put_method_of(stand_in_storage(scheme, *capabilities), single_writer=False) is method
    assert put_method_of(stand_in_storage(scheme, *capabilities), single_writer=True) is method


@pytest.mark.parametrize(
    ("scheme", "remedy"),
    [
        ("s3a", "3.4.2"),
        ("abfss", "hierarchical namespace"),
        ("wasb", "with this guarantee"),
        ("viewfs", "with this guarantee"),
    ],
)
def test_storage_without_put_if_absent_is_rejected_unless_single_writer_is_set(scheme, remedy, caplog):
    with pytest.raises(UnsupportedStorageError, match=f"org.example.FileSystem.*{remedy}.*single_writer=True"):
        put_method_of(stand_in_storage(scheme), single_writer=False)
    with caplog.at_level(logging.WARNING):
        assert put_method_of(stand_in_storage(scheme), single_writer=True) is PutMethod.CHECK_FIRST
    assert "can lose commits" in caplog.text


@pytest.fixture
def files(spark, tmp_path):
    """Hadoop's files of a table on the local disk."""
    return HadoopLogStore(spark, str(tmp_path / "t")).files


class UnansweredRenames:
    """A `FileContext` whose `rename` raises an error. With `takes_effect`, it first renames the file."""

    def __init__(self, files, *, takes_effect):
        self._file_context, self._takes_effect = files.file_context, takes_effect

    def rename(self, *arguments):
        if self._takes_effect:
            self._file_context.rename(*arguments)
        raise ConnectionResetError("The connection broke.")


def put_by_unanswered_rename(files, *, takes_effect):
    """Put `NAME` by a rename without an answer. Returns whether the put created the file."""
    files._file_context = UnansweredRenames(files, takes_effect=takes_effect)
    return put_if_absent(files, PutMethod.RENAME, NAME, b"ours")


def file_names(folder):
    """Return the names of all files below a folder, without Hadoop's checksum files."""
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and path.suffix != ".crc")


@pytest.mark.spark
def test_an_unanswered_rename_that_happened_creates_the_file(files, tmp_path):
    assert put_by_unanswered_rename(files, takes_effect=True) is True
    assert files.read(NAME) == b"ours"
    assert file_names(tmp_path) == ["00000000000000000000.json"]


@pytest.mark.spark
def test_an_unanswered_rename_that_did_not_happen_fails_or_loses_to_another_writer(files, tmp_path):
    with pytest.raises(StorageError, match="The connection broke") as caught:
        put_by_unanswered_rename(files, takes_effect=False)
    assert type(caught.value) is StorageError
    assert file_names(tmp_path) == []
    put_if_absent(files, PutMethod.CHECK_FIRST, NAME, b"theirs")
    assert put_by_unanswered_rename(files, takes_effect=False) is False
    assert (files.read(NAME), file_names(tmp_path)) == (b"theirs", ["00000000000000000000.json"])


@pytest.mark.spark
def test_an_unanswered_rename_that_may_still_happen_has_an_unknown_outcome(files, monkeypatch):
    monkeypatch.setattr(hadoop_put, "_try_delete", lambda _files, _path: None)
    with pytest.raises(CommitStateUnknownError, match="may still happen"):
        put_by_unanswered_rename(files, takes_effect=False)


@pytest.mark.spark
def test_a_create_returns_false_if_its_precondition_fails_and_raises_any_other_error(files, monkeypatch):
    """The connectors for Google report a failed precondition as the cause of another error."""
    assert put_if_absent(files, PutMethod.NEW_GENERATION, NAME, b"ours") is True
    assert put_if_absent(files, PutMethod.NEW_GENERATION, NAME, b"theirs") is False
    assert files.read(NAME) == b"ours"

    def write_that_raises(cause):
        """Return a stand-in for `write_and_close` that raises the connector's error at the end of an upload."""
        java_cause = files.jvm.java.io.IOException(cause)
        error = files.jvm.java.io.IOException("Upload failed for 'gs://lake/t: 412/1.json'", java_cause)

        def write_and_close(_data, stream):
            stream.close()
            raise Py4JJavaError("close", error)

        return write_and_close

    for cause in ("412 Precondition Failed\nPUT https://host/412", "FAILED_PRECONDITION: the generation is 1"):
        monkeypatch.setattr(files, "write_and_close", write_that_raises(cause))
        assert put_if_absent(files, PutMethod.NEW_GENERATION, commit_name(1), b"ours") is False
    monkeypatch.setattr(files, "write_and_close", write_that_raises("503 Service Unavailable\nPUT https://host/: 412"))
    with pytest.raises(StorageError, match="Upload failed"):
        put_if_absent(files, PutMethod.NEW_GENERATION, commit_name(2), b"ours")


GOOGLE_ANSWER = "com.google.GoogleJsonResponseException: {}\nPUT https://host/403\n{{}}"


@pytest.mark.spark
@pytest.mark.parametrize(
    ("cause", "is_denied"),
    [
        (GOOGLE_ANSWER.format("401 Unauthorized"), True),
        (GOOGLE_ANSWER.format("403 Forbidden"), True),
        ("io.grpc.StatusRuntimeException: PERMISSION_DENIED: no access", True),
        ("io.grpc.StatusRuntimeException: UNAUTHENTICATED: the token has expired", True),
        ('com.google.GoogleAuthException: no token\nPOST https://host/token\n{"error": "invalid_grant"}', True),
        ("java.net.SocketTimeoutException: gs://lake/invalid_grant/1.json", False),
        (GOOGLE_ANSWER.format("403 Forbidden") + '"reason": "userRateLimitExceeded"', False),
        (GOOGLE_ANSWER.format("503 Service Unavailable"), False),
    ],
)
def test_an_error_of_a_google_connector_has_the_class_and_the_reason_of_its_cause(files, cause, is_denied):
    """The connectors report each answer of the storage as the cause of an `IOException`."""
    class_name, _, message = cause.partition(": ")
    java_cause = SimpleNamespace(toString=lambda: cause, getCause=lambda: None)
    java_error = SimpleNamespace(
        toString=lambda: "java.io.IOException: Upload failed for 'gs://lake/t/1.json'",
        getCause=lambda: java_cause,
        getClass=lambda: SimpleNamespace(getName=lambda: "java.io.IOException", getSuperclass=lambda: None),
    )
    error = PySparkException(message="Upload failed")
    error._origin = java_error
    with pytest.raises(StorageError, match=re.escape(f"({class_name}: {message.splitlines()[0]})")) as caught:
        files.raise_typed(error, "create", NAME)
    assert isinstance(caught.value, StoragePermissionError) is is_denied


@pytest.mark.parametrize(
    ("scheme", "hadoop_version", "hint"),
    [
        ("s3a", "3.4.2", ": org.apache.hadoop:hadoop-aws:3.4.2 in `packages`"),
        ("gs", "3.5.0", ": org.apache.hadoop:hadoop-gcp:3.5.0 in `packages`"),
        (
            "gs",
            "3.4.2",
            ": com.google.cloud.bigdataoss:gcs-connector, the jar with the classifier `shaded`, in `jars`",
        ),
        ("odd", "3.5.0", ""),
    ],
)
def test_the_remedy_for_a_missing_connector_names_the_package_for_the_version_of_hadoop(scheme, hadoop_version, hint):
    assert connector_hint(scheme, hadoop_version) == hint


@pytest.mark.spark
@pytest.mark.sample("s3a")
@pytest.mark.parametrize("kind", ["s3a", "hdfs"])
def test_a_commit_without_an_answer_succeeds_if_the_log_contains_its_id(spark, request, kind, monkeypatch):
    table = f"{request.getfixturevalue(kind)}/{uuid.uuid4()}"
    store = create(writable_store(spark, table, single_writer=False))
    base = load(store)
    real_put = hadoop_put.put_if_absent

    def replace_put(error, *, takes_effect):
        """Let each put raise `error`. With `takes_effect`, the put first creates the file."""

        def put_without_answer(*arguments):
            if takes_effect:
                real_put(*arguments)
            raise error

        monkeypatch.setattr("deltalite.spark.hadoop.store.put_if_absent", put_without_answer)

    error = StorageError("The connection broke.", remedy="Wait.")
    replace_put(error, takes_effect=True)
    outcome = commit(store, proposal(0, add("f1"), base=(base.protocol, base.metadata)))
    assert isinstance(outcome, Committed) and outcome.version == 1
    replace_put(error, takes_effect=False)
    with pytest.raises(StorageError, match="The connection broke"):
        commit(store, proposal(1, add("f2"), base=(base.protocol, base.metadata)))
    assert load(store).version == 1


@pytest.fixture
def set_hadoop_setting(spark):
    """A function that changes a setting of Hadoop until the test ends, because all tests share the session."""
    configuration, old_values = spark._jsc.hadoopConfiguration(), {}

    def change(key, value):
        old_values.setdefault(key, configuration.get(key))
        configuration.set(key, value)

    yield change
    for key, value in old_values.items():
        configuration.unset(key) if value is None else configuration.set(key, value)


@pytest.mark.spark
def test_a_service_that_ignores_conditions_is_rejected_unless_single_writer_is_set(spark, s3a, set_hadoop_setting):
    root = f"s3a://forgetful/{uuid.uuid4()}"
    with s3_server("ignores-conditions") as server:
        server.client.create_bucket(Bucket="forgetful")
        set_hadoop_setting("fs.s3a.bucket.forgetful.endpoint", server.endpoint)
        with pytest.raises(UnsupportedStorageError, match="ignores the condition"):
            write_rows(spark, root, "SELECT 1 AS id")
        assert write_rows(spark, root, "SELECT 1 AS id", single_writer=True).version == 0
        assert write_rows(spark, root, "SELECT 2 AS id", single_writer=True).version == 1
        assert not [
            key for key in server.client.list_objects_v2(Bucket="forgetful")["Contents"] if "absent" in key["Key"]
        ]


@pytest.mark.spark
def test_denied_access_and_unreachable_storage_raise_different_errors(spark, hdfs, set_hadoop_setting):
    store = HadoopLogStore(spark, f"{hdfs}/{uuid.uuid4()}")
    store.write("_delta_log/secret", b"x")
    files = store.files
    files.fs.setPermission(
        files.path("_delta_log/secret"), spark._jvm.org.apache.hadoop.fs.permission.FsPermission("000")
    )
    files.fs = files.fs.get(files.fs.getUri(), files.conf, "somebody")
    for operation in (
        lambda: store.write_if_absent(NAME, b"x"),
        lambda: store.write("_delta_log/_last_checkpoint", b"x"),
        lambda: store.delete("_delta_log/secret"),
        lambda: store.read("_delta_log/secret"),
    ):
        with pytest.raises(StoragePermissionError):
            operation()
    assert [file.name for file in store.list_from("_delta_log/")] == ["_delta_log/secret"]
    set_hadoop_setting("ipc.client.connect.max.retries", "0")
    unreachable = HadoopLogStore(spark, "hdfs://127.0.0.1:1/t")
    for operation in (
        lambda: unreachable.write_if_absent(NAME, b"x"),
        lambda: unreachable.read(NAME),
        lambda: next(unreachable.list_from("/")),
    ):
        with pytest.raises(StorageError) as caught:
            operation()
        assert type(caught.value) is StorageError and caught.value.retryable


@pytest.mark.spark
def test_a_local_disk_needs_single_writer_and_an_unknown_scheme_is_rejected_even_with_it(spark, tmp_path):
    with pytest.raises(UnsupportedStorageError, match="single_writer=True"):
        HadoopLogStore(spark, str(tmp_path / "t")).check_writable()
    with pytest.raises(UnsupportedStorageError, match="no Hadoop file system for 'nowhere'"):
        write_rows(spark, "nowhere://lake/t", "SELECT 1 AS id", single_writer=True)
