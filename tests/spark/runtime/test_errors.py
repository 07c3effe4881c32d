"""The JVM sends the text of an error with its causes once."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError

from deltalite.spark.runtime.errors import damage_of_file, is_missing_path, path_of_unread_file

pytestmark = pytest.mark.spark


def test_the_jvm_sends_the_text_of_an_error_once(spark, tmp_path, monkeypatch):
    path = tmp_path / "damaged.parquet"
    path.write_bytes(b"PAR1 no footer PAR1")
    with pytest.raises(Py4JJavaError) as raised:
        spark.read.schema("id INT").parquet(str(path)).collect()
    assert path_of_unread_file(raised.value) == path.as_uri()
    monkeypatch.setattr(Py4JJavaError, "__str__", lambda _: pytest.fail("the library asks the JVM again"))
    assert damage_of_file(raised.value) is not None
    assert path_of_unread_file(raised.value) == path.as_uri()
    assert not is_missing_path(raised.value)
