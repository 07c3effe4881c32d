"""Faults of an object store in the middle of a write: lost answers, throttling, and credentials that expire.

A proxy between the clients and the server loses or replaces answers. The tests of writes read the table without it.

fake-gcs-server has two limits. It checks no credentials, so only the proxy denies requests. It cannot answer a request
for the status of an upload, so the proxy answers as Google documents it (`UploadSessions`).
"""

from __future__ import annotations

import pytest

from deltalite import DeltaTable, watch
from deltalite.conditions import CommitCondition
from deltalite.errors import CommitStateUnknownError, StorageError, StoragePermissionError
from deltalite.storage.opening import open_store
from tests.support.google_storage import GoogleStorage
from tests.support.http_proxy import Answer, Loss, first_times
from tests.support.object_stores import Azure
from tests.support.storage_answers import (
    answer_to_expired_credentials,
    answer_to_invalid_credentials,
    error_code,
    google_error,
    throttling_answer,
)
from tests.support.tables import write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

SECOND_COMMIT = "00000000000000000001.json"
RIVAL_COMMIT = b'{"commitInfo": {"operation": "WRITE", "timestamp": 1, "engineInfo": "rival"}}\n'
CONFLICT = b"<Error><Code>ConditionalRequestConflict</Code><Message>A conflicting request ran.</Message></Error>"


def is_second_commit(request):
    """Whether a request puts version 1 of a table."""
    return request.is_conditional_put and request.object_name.endswith(SECOND_COMMIT)


@pytest.fixture
def table(proxied, spark):
    """The address of a table with one row in one version, for Spark behind the proxy."""
    address = f"{proxied.bucket.spark_root}/t"
    write_rows(spark, address, "SELECT 1 AS id")
    return address


@pytest.fixture
def ids_and_version(proxied, table):
    """A function that returns the ids and the version of the table, read without the proxy."""

    def read():
        stored_table = DeltaTable(f"{proxied.direct.worker_root}/t", storage_options=proxied.direct.fsspec_options)
        return sorted(stored_table.to_arrow()["id"].to_pylist()), stored_table.version

    return read


def data_file_count(proxied):
    """The number of data files in the bucket, also of those that no version refers to."""
    return sum(key.endswith(".parquet") for key in proxied.direct.keys("t/"))


@pytest.mark.sample(Loss.ANSWER)
@pytest.mark.parametrize("loss", list(Loss))
@pytest.mark.parametrize("times", [1, pytest.param(3, marks=pytest.mark.campaign)])
def test_a_commit_without_an_answer_is_committed_once(spark, proxied, table, ids_and_version, loss, times):
    with proxied.proxy.faults(first_times(times, loss, is_second_commit)):
        result = write_rows(spark, table, "SELECT 2 AS id", run="r")
    assert (result.version, result.committed, result.skipped) == (1, True, False)
    assert ids_and_version() == ([1, 2], 1)
    # Google's connector sends two requests for a put. If both answers are lost, the writer reads its commit in the log.
    reads_commit_in_log = isinstance(proxied.bucket, GoogleStorage) and loss is Loss.ANSWER
    assert sum(map(is_second_commit, proxied.proxy.requests)) > (1 if reads_commit_in_log else times)


@pytest.mark.sample(Loss.ANSWER)
@pytest.mark.parametrize("loss", list(Loss))
def test_a_commit_without_an_answer_gets_the_next_version_if_another_writer_has_won(
    spark, proxied, table, ids_and_version, loss
):
    requests_of_commit = []

    def let_rival_win(request):
        if not is_second_commit(request):
            return None
        requests_of_commit.append(request)
        if len(requests_of_commit) > 1:
            return None
        proxied.direct.put_objects({f"t/_delta_log/{SECOND_COMMIT}": RIVAL_COMMIT})
        return loss

    with proxied.proxy.faults(let_rival_win):
        result = write_rows(spark, table, "SELECT 2 AS id", run="r")
    assert (result.version, result.committed, result.skipped) == (2, True, False)
    assert ids_and_version() == ([1, 2], 2)
    store = open_store(f"{proxied.direct.worker_root}/t", storage_options=proxied.direct.fsspec_options)
    assert store.read(f"_delta_log/{SECOND_COMMIT}") == RIVAL_COMMIT


def starts_upload_of_second_commit(request):
    """Whether a request to Google Cloud Storage starts the upload of version 1 of a table."""
    starts_upload = request.method == "POST" and "uploadType=resumable" in request.query
    return starts_upload and request.object_name.endswith(SECOND_COMMIT)


@pytest.mark.campaign
@pytest.mark.parametrize("bucket", ["google_server"], indirect=True)
@pytest.mark.parametrize("loss", list(Loss))
def test_an_upload_to_google_whose_start_gets_no_answer_is_committed_once(spark, proxied, table, ids_and_version, loss):
    with proxied.proxy.faults(first_times(1, loss, starts_upload_of_second_commit)):
        assert write_rows(spark, table, "SELECT 2 AS id", run="r").version == 1
    assert ids_and_version() == ([1, 2], 1)
    starts = [request for request in proxied.proxy.requests if starts_upload_of_second_commit(request)]
    assert len(starts) == 2 and all("ifGenerationMatch=0" in request.query for request in starts)


@pytest.mark.campaign
@pytest.mark.parametrize("bucket", ["google_server"], indirect=True)
@pytest.mark.parametrize("status", [404, 410])
def test_an_upload_to_google_whose_end_is_forgotten_is_committed_once(spark, proxied, table, ids_and_version, status):
    """The storage has created the object, the answer is lost, and the storage no longer knows the upload."""
    ended_uploads = []

    def forget_ended_upload(request):
        if not is_second_commit(request):
            return None
        if request.upload_id in ended_uploads:
            return google_error(status)
        ended_uploads.append(request.upload_id)
        return Loss.ANSWER

    with proxied.proxy.faults(forget_ended_upload):
        result = write_rows(spark, table, "SELECT 2 AS id", run="r")
    assert (result.version, result.committed, result.skipped) == (1, True, False)
    assert ids_and_version() == ([1, 2], 1)
    assert [request.upload_id for request in proxied.proxy.requests if is_second_commit(request)] == ended_uploads * 2


@pytest.mark.campaign
def test_a_put_that_conflicts_with_another_conditional_put_is_repeated(spark, proxied, table, ids_and_version):
    """S3 answers 409 if two conditional puts of a name overlap. The answer does not say whether one has succeeded."""
    with proxied.proxy.faults(first_times(1, Answer(status=409, body=CONFLICT), is_second_commit)):
        assert write_rows(spark, table, "SELECT 2 AS id").version == 1
    assert ids_and_version() == ([1, 2], 1)


@pytest.mark.campaign
@pytest.mark.parametrize("status", [429, 503])
def test_a_write_continues_after_throttled_requests(spark, proxied, table, ids_and_version, status):
    """The proxy throttles the first attempt of each request."""
    throttled_requests = set()

    def throttle_first_attempt(request):
        key = (request.method, request.path, request.query)
        if key in throttled_requests:
            return None
        throttled_requests.add(key)
        return throttling_answer(proxied.bucket, status)

    with proxied.proxy.faults(throttle_first_attempt):
        assert write_rows(spark, table, "SELECT 2 AS id", run="r").version == 1
    assert len(throttled_requests) > 20
    assert ids_and_version() == ([1, 2], 1)


@pytest.mark.campaign
def test_a_write_fails_if_the_storage_throttles_every_commit(spark, proxied, table, ids_and_version):
    throttle_commit = lambda request: throttling_answer(proxied.bucket, 503) if is_second_commit(request) else None
    with proxied.proxy.faults(throttle_commit), pytest.raises(StorageError, match="503") as caught:
        write_rows(spark, table, "SELECT 2 AS id", run="r")
    assert type(caught.value) is StorageError and caught.value.retryable
    assert ids_and_version() == ([1], 0)
    assert data_file_count(proxied) == 1
    assert write_rows(spark, table, "SELECT 2 AS id", run="r").version == 1
    assert ids_and_version() == ([1, 2], 1)


@pytest.fixture(params=["expired", "invalid"])
def denial(request, proxied):
    """The answer of a storage to requests with expired or invalid credentials. Azure answers both with 403."""
    if request.param == "invalid":
        return answer_to_invalid_credentials(proxied.bucket)
    answer = answer_to_expired_credentials(proxied.bucket)
    return answer or pytest.skip("This storage answers expired and invalid credentials alike.")


@pytest.mark.sample("expired")
def test_a_write_with_expired_or_invalid_credentials_fails_with_a_typed_error(
    spark, proxied, table, ids_and_version, denial
):
    with proxied.proxy.faults(lambda _: denial), pytest.raises(StoragePermissionError, match="expired") as caught:
        write_rows(spark, table, "SELECT 2 AS id", run="r")
    assert not caught.value.retryable
    assert ids_and_version() == ([1], 0)


@pytest.mark.sample("invalid")
def test_a_commit_that_the_storage_denies_fails_and_leaves_no_file(spark, proxied, table, ids_and_version, denial):
    with (
        proxied.proxy.faults(lambda request: denial if is_second_commit(request) else None),
        pytest.raises(StoragePermissionError),
    ):
        write_rows(spark, table, "SELECT 2 AS id", run="r")
    assert (ids_and_version(), data_file_count(proxied)) == (([1], 0), 1)


@pytest.mark.sample("invalid")
def test_a_data_file_that_the_storage_denies_fails_the_write_with_a_typed_error(
    spark, proxied, table, ids_and_version, denial
):
    def deny_data_files(request):
        return denial if request.method in ("PUT", "POST") and ".parquet" in request.object_name else None

    with proxied.proxy.faults(deny_data_files), pytest.raises(StoragePermissionError) as caught:
        write_rows(spark, table, "SELECT 2 AS id", run="r")
    assert not caught.value.retryable
    assert (ids_and_version(), data_file_count(proxied)) == (([1], 0), 1)


@pytest.mark.sample("invalid")
def test_credentials_that_expire_at_the_commit_leave_its_state_unknown_and_a_retry_commits_once(
    spark, proxied, table, ids_and_version, denial
):
    """The storage client may have sent the put before, without an answer, and the job can no longer read the log."""
    has_expired = []

    def deny_from_the_commit_on(request):
        if has_expired or is_second_commit(request):
            has_expired.append(True)
            return denial
        return None

    code = error_code(proxied.bucket, denial)
    with proxied.proxy.faults(deny_from_the_commit_on), pytest.raises(CommitStateUnknownError, match=code):
        write_rows(spark, table, "SELECT 2 AS id", run="r")
    assert (ids_and_version(), data_file_count(proxied)) == (([1], 0), 2)
    assert write_rows(spark, table, "SELECT 2 AS id", run="r").version == 1
    assert ids_and_version() == ([1, 2], 1)


@pytest.mark.sample("expired")
def test_a_poll_with_expired_or_invalid_credentials_fails_with_a_typed_error(proxied, table, denial):
    store = open_store(f"{proxied.bucket.worker_root}/t", storage_options=proxied.bucket.fsspec_options)
    position = watch.position_at(store, 0)
    with proxied.proxy.faults(lambda _: denial), pytest.raises(StoragePermissionError):
        watch.poll(store, position, CommitCondition())
    assert watch.poll(store, position, CommitCondition()).position == position


@pytest.mark.sample(429)
@pytest.mark.parametrize("status", [429, 503])
def test_a_poll_continues_after_throttled_requests(proxied, table, status):
    if status == 429 and isinstance(proxied.bucket, Azure):
        pytest.skip("Azure's client repeats no request after 429: see the next test.")
    store = open_store(f"{proxied.bucket.worker_root}/t", storage_options=proxied.bucket.fsspec_options)
    position = watch.position_at(store, 0)
    throttled = first_times(2, throttling_answer(proxied.bucket, status), lambda _: True)
    with proxied.proxy.recording() as requests, proxied.proxy.faults(throttled):
        assert watch.poll(store, position, CommitCondition()).position == position
    assert len(requests) == 4


@pytest.mark.campaign
@pytest.mark.parametrize("bucket", ["azurite_server"], indirect=True)
def test_a_poll_of_azure_fails_after_429_and_the_next_poll_works(proxied, table):
    store = open_store(f"{proxied.bucket.worker_root}/t", storage_options=proxied.bucket.fsspec_options)
    position = watch.position_at(store, 0)
    throttled = first_times(1, throttling_answer(proxied.bucket, 429), lambda _: True)
    with (
        proxied.proxy.recording() as requests,
        proxied.proxy.faults(throttled),
        pytest.raises(StorageError) as caught,
    ):
        watch.poll(store, position, CommitCondition())
    assert (type(caught.value), len(requests)) == (StorageError, 1)
    assert watch.poll(store, position, CommitCondition()).position == position
