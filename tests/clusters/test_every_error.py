"""Each error class of the library reaches the task from a driver of a real cluster, with its exit code.

Each class is raised on one of the clusters. The other tests of errors here let a job fail for real reasons.
"""

from __future__ import annotations

from itertools import cycle

import pytest

from airflow_provider_deltalite.failures import failure
from airflow_provider_deltalite.operators.delta import DeltaWriteOperator
from deltalite import errors
from tests.clusters.conftest import CHECKOUT, CLUSTER_MODES, slow_write
from tests.clusters.raising_job import PROBLEM, REMEDY

JOB = CHECKOUT / "tests" / "clusters" / "raising_job.py"
NAMES = sorted(
    name
    for name, member in vars(errors).items()
    if isinstance(member, type) and issubclass(member, errors.DeltaLiteError) and member is not errors.DeltaLiteError
)


def exit_code_of(operator: DeltaWriteOperator, error: BaseException) -> int:
    """The exit code of a driver. On YARN, only the error of Airflow's hook has it."""
    exit_codes = []
    chained_error: BaseException | None = error
    while chained_error is not None:
        exit_codes.append(operator.submission.submitted_job.exit_code_of_job(chained_error))
        chained_error = chained_error.__context__
    return next(exit_code for exit_code in exit_codes if exit_code is not None)


@pytest.mark.campaign
@pytest.mark.parametrize(("mode", "name"), list(zip(cycle(CLUSTER_MODES), NAMES, strict=False)), indirect=["mode"])
def test_an_error_of_the_driver_is_the_same_exception_as_an_error_of_the_worker(mode, name, capsys):
    error_class = getattr(errors, name)
    conf = {}
    if mode.kubernetes is not None:  # Spark uploads the script, and the pods mount this folder.
        uploads = mode.folder / "uploads"
        uploads.mkdir()
        uploads.chmod(0o777)
        conf["spark.kubernetes.file.upload.path"] = f"file://{uploads}"
    write = slow_write(mode, "orders", conf=conf) | {"query": name, "application": str(JOB)}
    load = DeltaWriteOperator(**write)
    expected = failure(error_class, PROBLEM, REMEDY)
    with pytest.raises(type(expected)) as caught:
        mode.run(load)
    assert type(caught.value) is type(expected)
    assert str(caught.value).splitlines()[0] == f"{name}: {PROBLEM}"
    assert f"What to do: {REMEDY}" in str(caught.value)
    assert exit_code_of(load, caught.value) == error_class.exit_code
    log = capsys.readouterr().out
    assert "Traceback of the job" in log and f"deltalite.errors.{name}: {PROBLEM}" in log
    assert mode.files("orders") == []
