"""Tables on S3 that an Airflow connection opens: real requests, with keys that the endpoint accepts or denies."""

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
MAY_ALL = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}


class Keys:
    """An S3 endpoint that checks keys, and the keys of a user with all permissions."""

    def __init__(self, s3) -> None:
        self.s3 = s3
        self._iam = self._client("key", "secret")
        self.admin = self.of("admin")
        self._iam = self._client(*self.admin)
        # moto checks keys after this number of requests.
        request = Request(f"{s3.endpoint}/moto-api/reset-auth", b"0", {"Content-Type": "text/plain"}, method="POST")
        urlopen(request).close()

    @property
    def delta_rs_options(self) -> dict[str, str]:
        """For `deltalake`, with a key that is known."""
        key, secret = self.admin
        return {**self.s3.delta_rs_options, "AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret}

    def _client(self, key, secret):
        return botocore.session.get_session().create_client(
            "iam",
            region_name="us-east-1",
            endpoint_url=self.s3.endpoint,
            aws_access_key_id=key,
            aws_secret_access_key=secret,
        )

    def of(self, user: str) -> tuple[str, str]:
        """A key of a new user."""
        self._iam.create_user(UserName=user)
        self._iam.put_user_policy(UserName=user, PolicyName="all", PolicyDocument=json.dumps(MAY_ALL))
        access_key = self._iam.create_access_key(UserName=user)["AccessKey"]
        return access_key["AccessKeyId"], access_key["SecretAccessKey"]

    def end(self, user: str, key: str) -> None:
        self._iam.delete_access_key(UserName=user, AccessKeyId=key)


@pytest.fixture(scope="module")
def keys():
    with s3_server() as s3:
        write_deltalake(TABLE, pa.table({"id": [1]}), storage_options=s3.delta_rs_options)
        yield Keys(s3)


@pytest.fixture
def connection(keys, monkeypatch):
    """A connection, and how it gets another key while the one before ends."""
    return Connection(keys, monkeypatch, f"lake_{uuid.uuid4().hex}")


class Connection:
    def __init__(self, keys, monkeypatch, conn_id) -> None:
        self.conn_id, self._keys, self._monkeypatch, self._number = conn_id, keys, monkeypatch, 0
        self._use()

    def _use(self) -> None:
        self.user = f"{self.conn_id}-{self._number}"
        self.key, secret = self._keys.of(self.user)
        definition = self._keys.s3.airflow_connection(self.key, secret)
        self._monkeypatch.setenv(f"AIRFLOW_CONN_{self.conn_id.upper()}", json.dumps(definition))

    def end(self) -> None:
        self._keys.end(self.user, self.key)

    def replace(self, *, at_once: bool = False) -> None:
        """Put another key into the connection; with `at_once` the one before has ended then."""
        before = (self.user, self.key)
        self._number += 1
        self._use()
        if at_once:
            self._keys.end(*before)

    def hook(self) -> DeltaHook:
        return DeltaHook(TABLE, self.conn_id)


def test_a_replaced_key_is_used_within_the_poll_that_is_denied(connection):
    hooks = [connection.hook(), connection.hook()]
    assert [hook.ask(watch.latest_version) for hook in hooks] == [0, 0]
    connection.replace(at_once=True)
    assert [hook.ask(watch.latest_version) for hook in hooks] == [0, 0]
    assert len({id(hook.ask(lambda store: store._fs)) for hook in (*hooks, connection.hook())}) == 1
    assert connection.hook().get_table().to_arrow().to_pylist() == [{"id": 1}]


def test_access_is_denied_until_the_key_is_replaced(connection):
    hook = connection.hook()
    assert hook.ask(watch.latest_version) == 0
    used = hook.ask(lambda store: store._fs)
    connection.end()
    for _ in range(2):
        with pytest.raises(StoragePermissionError):
            hook.ask(watch.latest_version)
    assert hook.ask(lambda store: store._fs) is used, "nothing has changed, and so it is not made again"
    connection.replace()
    assert hook.ask(watch.latest_version) == 0


def test_a_file_system_that_airflow_has_cached_is_not_reused(connection):
    assert ObjectStoragePath(TABLE, conn_id=connection.conn_id).exists()
    connection.replace(at_once=True)
    assert connection.hook().ask(watch.latest_version) == 0


def test_a_connection_that_changes_at_each_lookup_does_not_create_a_file_system_each_time(connection, monkeypatch):
    used = []
    for _ in range(3):
        used.append(connection.hook().ask(lambda store: store._fs))
        connection.replace()
    assert used[0] is used[1] is used[2]
    monkeypatch.setattr(_filesystem, "_MIN_AGE_SECONDS", 0.0)
    assert connection.hook().ask(lambda store: store._fs) is not used[0], "what is old gives way where a wait begins"


def test_storage_that_did_not_answer_is_opened_again_at_the_next_request(connection):
    def silent(store):
        opened.append(store)
        raise StorageError("no answer", remedy="Wait.")

    hook, opened = connection.hook(), []
    with pytest.raises(StorageError):
        hook.ask(silent)
    connection.replace()
    assert hook.ask(lambda store: store._fs) is not opened[0]._fs


@pytest.mark.parametrize("trigger", [DeltaVersionTrigger, DeltaTableTrigger])
async def test_a_trigger_asks_airflow_for_the_connection_once_however_often_it_looks(
    keys, connection, monkeypatch, trigger
):
    table, address = pa.table({"id": [2]}), f"s3://{BUCKET}/{trigger.__name__}"
    write_deltalake(address, table, storage_options=keys.delta_rs_options)
    asked, looks = [], []
    get_connection, follow = DeltaHook.get_connection, watch.follow
    counting = staticmethod(lambda conn_id: asked.append(conn_id) or get_connection(conn_id))
    monkeypatch.setattr(DeltaHook, "get_connection", counting)

    def at_the_fifth_look(*arguments):
        looks.append(arguments)
        if len(looks) == 5:
            write_deltalake(address, table, mode="append", storage_options=keys.delta_rs_options)
        return follow(*arguments)

    monkeypatch.setattr(watch, "follow", at_the_fifth_look)
    common = {"table": address, "poke_interval": 0.05, "storage_conn_id": connection.conn_id}
    if trigger is DeltaVersionTrigger:
        common |= {
            "after_version": 0,
            "condition": CommitCondition().as_dict(),
            "place": LogPosition(version=0).as_dict(),
        }
    async with contextlib.aclosing(trigger(**common).run()) as events:
        fired = await asyncio.wait_for(anext(events), 60)
    assert fired.payload.get("result", fired.payload)["version"] == 1
    assert len(looks) >= 5
    once_each = 1 if trigger is DeltaVersionTrigger else 2  # the watcher's stream, and what it makes of it
    assert asked == [connection.conn_id] * once_each
