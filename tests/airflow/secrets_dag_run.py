"""A DAG with secrets in every kind of task, plain and mapped, and the program that runs it in another process.

The program writes a JSON file with the values that Airflow stored: the XComs, and the rendered fields that the REST
API and the UI show.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG

from airflow_provider_deltalite.operators import delta
from airflow_provider_deltalite.sensors.delta import DeltaVersionSensor
from airflow_provider_deltalite.task_groups.delta import delta_maintenance

lake = os.environ["TEST_LAKE"]
SECRET_SETTINGS = {
    "spark.hadoop.fs.s3a.access.key": "planted-{{ 'access' }}",
    "spark.hadoop.fs.s3a.secret.key": "planted-literal",
    "spark.driver.extraJavaOptions": "-Djavax.net.ssl.trustStorePassword=planted-java",
}
SOURCE = {"format": "jdbc", "options": {"url": "jdbc:x://h/db?password=planted-url", "password": "planted-option"}}
REQUIRED_PARAMETERS = {
    "DeltaCheckOperator": {"audits": [{"name": "rows", "rows": "id IS NULL"}]},
    "DeltaCopyOperator": {"source": {"format": "csv", "path": f"{lake}/landing"}},
    "DeltaDeleteOperator": {"condition": "id = 1"},
    "DeltaMergeOperator": {"source": SOURCE, "on": "target.id = source.id", "when_matched": [{"delete": True}]},
    "DeltaRestoreOperator": {"version": 0},
    "DeltaScdOperator": {"source": SOURCE, "keys": ["id"], "sequence_by": "at"},
    "DeltaTableOperator": {"schema": "id INT"},
    "DeltaUpdateOperator": {"set": {"id": "1"}},
    "DeltaWriteOperator": {"source": SOURCE},
}

with DAG("secrets", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
    for name in os.environ["TEST_OPERATORS"].split():
        table = {"tables": [f"{lake}/orders"]} if "Lake" in name else {"table": f"{lake}/orders"}
        parameters = {**table, **REQUIRED_PARAMETERS.get(name, {})}
        getattr(delta, name).partial(task_id=f"mapped_{name}", **parameters).expand(conf=[SECRET_SETTINGS])
    delta.DeltaWriteOperator(task_id="plain", table=f"{lake}/orders", source=SOURCE, conf=SECRET_SETTINGS)
    delta.DeltaWriteOperator(
        task_id="unrendered", table=f"{lake}/{{{{ nothing.here }}}}", source=SOURCE, conf=SECRET_SETTINGS
    )
    DeltaVersionSensor.partial(
        task_id="wait", table=f"{lake}/orders", after_version=-1, timeout=1, poke_interval=1
    ).expand(partition=[{"token": "planted-partition"}])
    delta_maintenance.partial(operator_args={"conf": SECRET_SETTINGS}).expand(table=[f"{lake}/orders"])

if __name__ == "__main__":
    import pytest
    from airflow.models.renderedtifields import RenderedTaskInstanceFields
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    from tests.support.airflow_versions import DagBag
    from tests.support.api_server import share_api_server

    share_api_server(pytest.MonkeyPatch())
    DagBag(Path(__file__)).dags["secrets"].test(logical_date=datetime(2026, 1, 1, tzinfo=UTC))
    with create_session() as session:
        stored_values = {
            f"{fields.task_id}[{fields.map_index}]": fields.rendered_fields
            for fields in session.query(RenderedTaskInstanceFields)
        }
        stored_values["XCom"] = [str(xcom.value) for xcom in session.query(XComModel)]
    Path(sys.argv[1]).write_text(json.dumps(stored_values))
