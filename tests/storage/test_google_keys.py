"""Google does not accept the key of a service account, for example because somebody has deleted the key.

A client exchanges a key for a token, which is valid for an hour. A server on this machine answers as Google does.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from deltalite.errors import StoragePermissionError
from deltalite.storage.opening import open_store
from tests.storage.conftest import set_hadoop_options
from tests.support.tables import write_rows

pytestmark = [
    pytest.mark.spark,
    pytest.mark.campaign,
    pytest.mark.parametrize("bucket", ["google_server"], indirect=True),
]


@pytest.fixture
def deleted_key(tmp_path) -> Iterator[str]:
    """The path of a key file whose token server refuses the key."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.dumps({"error": "invalid_grant", "error_description": "Invalid JWT Signature."}).encode()
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(400)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        file = tmp_path / "key.json"
        account = {
            "type": "service_account",
            "project_id": "lake",
            "private_key_id": "1",
            "private_key": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
            "client_email": "job@lake.iam.gserviceaccount.com",
            "client_id": "1",
            "token_uri": f"http://127.0.0.1:{server.server_port}/token",
        }
        file.write_text(json.dumps(account))
        yield str(file)
        server.shutdown()


def test_a_job_with_a_deleted_key_fails_with_a_permanent_error(spark, bucket, deleted_key):
    key_options = {"fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE"}
    key_options["fs.gs.auth.service.account.json.keyfile"] = deleted_key
    set_hadoop_options(spark, bucket.bucket_options | bucket.impatient_bucket_options | key_options)
    with pytest.raises(StoragePermissionError, match="Error getting access token for service account") as caught:
        write_rows(spark, f"{bucket.spark_root}/t", "SELECT 1 AS id")
    assert not caught.value.retryable


def test_a_worker_with_a_deleted_key_gets_a_permanent_error(bucket, deleted_key):
    store = open_store(f"{bucket.worker_root}/t", storage_options=bucket.fsspec_options | {"token": deleted_key})
    with pytest.raises(StoragePermissionError, match="Invalid Credentials, 401") as caught:
        list(store.list_from("_delta_log/"))
    assert not caught.value.retryable
