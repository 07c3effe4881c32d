"""Opens tables on S3 through an Airflow connection, whose access key the endpoint accepts or denies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from urllib.request import Request, urlopen

import botocore.session
import pyarrow as pa
import pytest
from airflow.sdk import ObjectStoragePath
from deltalake import write_deltalake

from airflow_provider_deltalite.hooks import _filesystem
from airflow_provider_deltalite.hooks.delta import DeltaHook
from airflow_provider_deltalite.triggers.delta import DeltaTableTrigger, DeltaVersionTrigger
from deltalite import watch
from deltalite.conditions import CommitCondition, LogPosition
from deltalite.errors import StorageError, StoragePermissionError
from tests.support.remote import BUCKET, s3_server

pytestmark = [pytest.mark.airflow, pytest.mark.interop]

TABLE = f"s3://{BUCKET}/t"
ALLOW_ALL = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}


class AccessKeys:
    """The access keys of an S3 endpoint that checks them. Each user has all permissions."""

    def __init__(self, s3) -> None:
        self.s3 = s3
        self._iam = self._iam_client("key", "secret")
        self.admin = self.create("admin")
        self._iam = self._iam_client(*self.admin)
        # From the next request on, moto checks access keys: the body is the number of requests that it does not check.
        request = Request(f"{s3.endpoint}/moto-api/reset-auth", b"0", {"Content-Type": "text/plain"}, method="POST")
        urlopen(request).close()

    @property
    def delta_rs_options(self) -> dict[str, str]:
        """The options of `deltalake`, with a valid key."""
        key, secret = self.admin
        return {**self.s3.delta_rs_options, "AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret}

    def _iam_client(self, key, secret):
        return botocore.session.get_session().create_client(
            "iam",
            region_name="us-east-1",
            endpoint_url=self.s3.endpoint,
            aws_access_key_id=key,
            aws_secret_access_key=secret,
        )

    def create(self, user: str) -> tuple[str, str]:
        """Create a user, and return its access key and secret."""
        self._iam.create_user(UserName=user)
        self._iam.put_user_policy(UserName=user, PolicyName="all", PolicyDocument=json.dumps(ALLOW_ALL))
        access_key = self._iam.create_access_key(UserName=user)["AccessKey"]
        return access_key["AccessKeyId"], access_key["SecretAccessKey"]

    def delete(self, user: str, key: str) -> None:
        self._iam.delete_access_key(UserName=user, AccessKeyId=key)


@pytest.fixture(scope="module")
def keys():
    """The access keys of an S3 endpoint with a table of one row."""
    with s3_server() as s3:
        write_deltalake(TABLE, pa.table({"id": [1]}), storage_options=s3.delta_rs_options)
        yield AccessKeys(s3)


@pytest.fixture
def connection(keys, monkeypatch):
    """An Airflow connection whose access key a test can replace or delete."""
    return Connection(keys, monkeypatch, f"lake_{uuid.uuid4().hex}")


class Connection:
    """An Airflow connection to the S3 endpoint. Its access key can be replaced or deleted."""

    def __init__(self, keys, monkeypatch, conn_id) -> None:
        self.conn_id, self._keys, self._monkeypatch, self._key_number = conn_id, keys, monkeypatch, 0
        self._create_key()

    def _create_key(self) -> None:
        self.user = f"{self.conn_id}-{self._key_number}"
        self.key, secret = self._keys.create(self.user)
        definition = self._keys.s3.airflow_connection(self.key, secret)
        self._monkeypatch.setenv(f"AIRFLOW_CONN_{self.conn_id.upper()}", json.dumps(definition))

    def delete_key(self) -> None:
        self._keys.delete(self.user, self.key)

    def replace_key(self, *, delete_old: bool = False) -> None:
        """Put a new key into the connection. With `delete_old`, also delete the previous key."""
        old_key = (self.user, self.key)
        self._key_number += 1
        self._create_key()
        if delete_old:
            self._keys.delete(*old_key)

    def hook(self) -> DeltaHook:
        return DeltaHook(TABLE, self.conn_id)


def test_a_denied_request_is_repeated_with_the_replaced_key(connection):
    hooks = [connection.hook(), connection.hook()]
    assert [hook.ask(watch.latest_version) for hook in hooks] == [0, 0]
    connection.replace_key(delete_old=True)
    assert [hook.ask(watch.latest_version) for hook in hooks] == [0, 0]
    assert len({id(hook.ask(lambda store: store._fs)) for hook in (*hooks, connection.hook())}) == 1
    assert connection.hook().get_table().to_arrow().to_pylist() == [{"id": 1}]


def test_access_is_denied_until_the_key_is_replaced(connection):
    hook = connection.hook()
    assert hook.ask(watch.latest_version) == 0
    filesystem = hook.ask(lambda store: store._fs)
    connection.delete_key()
    for _ in range(2):
        with pytest.raises(StoragePermissionError):
            hook.ask(watch.latest_version)
    assert hook.ask(lambda store: store._fs) is filesystem, "the connection is unchanged"
    connection.replace_key()
    assert hook.ask(watch.latest_version) == 0


def test_a_file_system_that_airflow_has_cached_is_not_reused(connection):
    assert ObjectStoragePath(TABLE, conn_id=connection.conn_id).exists()
    connection.replace_key(delete_old=True)
    assert connection.hook().ask(watch.latest_version) == 0


def test_a_connection_that_changes_at_each_lookup_does_not_create_a_file_system_each_time(connection, monkeypatch):
    filesystems = []
    for _ in range(3):
        filesystems.append(connection.hook().ask(lambda store: store._fs))
        connection.replace_key()
    assert filesystems[0] is filesystems[1] is filesystems[2]
    monkeypatch.setattr(_filesystem, "_MIN_AGE_SECONDS", 0.0)
    new_filesystem = connection.hook().ask(lambda store: store._fs)
    assert new_filesystem is not filesystems[0], "a new hook replaces an old file system of a changed connection"


def test_a_changed_connection_opens_a_new_file_system_after_a_storage_error(connection):
    def fail(store):
        used_stores.append(store)
        raise StorageError("no answer", remedy="Wait.")

    hook, used_stores = connection.hook(), []
    with pytest.raises(StorageError):
        hook.ask(fail)
    connection.replace_key()
    assert hook.ask(lambda store: store._fs) is not used_stores[0]._fs


@pytest.mark.parametrize("trigger", [DeltaVersionTrigger, DeltaTableTrigger])
async def test_a_trigger_requests_the_connection_once_for_all_its_polls(keys, connection, monkeypatch, trigger):
    rows, address = pa.table({"id": [2]}), f"s3://{BUCKET}/{trigger.__name__}"
    write_deltalake(address, rows, storage_options=keys.delta_rs_options)
    requested_ids, polls = [], []
    # The trigger gives Airflow ten seconds to store the deferral. No scheduler stores it here.
    monkeypatch.setattr("airflow_provider_deltalite.triggers._version._SETTLING_SECONDS", 0.0)
    get_connection, follow = DeltaHook.get_connection, watch.follow
    record_and_get_connection = staticmethod(lambda conn_id: requested_ids.append(conn_id) or get_connection(conn_id))
    monkeypatch.setattr(DeltaHook, "get_connection", record_and_get_connection)

    def follow_and_append_at_the_fifth_poll(*arguments):
        polls.append(arguments)
        if len(polls) == 5:
            write_deltalake(address, rows, mode="append", storage_options=keys.delta_rs_options)
        return follow(*arguments)

    monkeypatch.setattr(watch, "follow", follow_and_append_at_the_fifth_poll)
    arguments = {"table": address, "poke_interval": 0.05, "storage_conn_id": connection.conn_id}
    if trigger is DeltaVersionTrigger:
        arguments |= {
            "after_version": 0,
            "condition": CommitCondition().as_dict(),
            "place": LogPosition(version=0).as_dict(),
        }
    async with contextlib.aclosing(trigger(**arguments).run()) as events:
        event = await asyncio.wait_for(anext(events), 60)
    assert event.payload.get("result", event.payload)["version"] == 1
    assert len(polls) >= 5
    # A watcher has one hook for its shared stream and one for its filter.
    hook_count = 1 if trigger is DeltaVersionTrigger else 2
    assert requested_ids == [connection.conn_id] * hook_count
