"""A driver on this worker gets an archive of classes and late compilations by C2, and the user's options win."""

from __future__ import annotations

import re
import subprocess

import pytest

from airflow_provider_deltalite.hooks._jvm_options import options_of_driver
from airflow_provider_deltalite.preflight import Launch
from deltalite.installation.class_archive import java_options
from deltalite.installation.class_archive_making import make_archive
from tests.support.class_archives import stand_in_for_spark

LATE_C2 = "-XX:Tier4InvocationThreshold="
VARIABLES = ("SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
SETTINGS = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")


def options(
    *, master: str = "local[2]", mode: str | None = None, conf: dict[str, object] | None = None, **environ: str
) -> str | None:
    launch = Launch(conn_id="c", master=master, deploy_mode=mode, binary="spark-submit", environ=environ)
    return options_of_driver(launch, conf or {})


@pytest.mark.parametrize("master", ["local", "yarn", "spark://h:7077", "k8s://https://h"])
def test_the_options_of_the_user_come_last(master):
    assert options(master=master, mode="client", SPARK_SUBMIT_OPTS="-Dx=1") == f"{options()} -Dx=1"
    assert options(SPARK_SUBMIT_OPTS="") == options()


def test_a_driver_in_a_cluster_gets_no_option():
    assert options(master="yarn", mode="cluster", SPARK_SUBMIT_OPTS="-Dx=1") is None


@pytest.mark.parametrize(
    "option",
    [
        "-Xint",
        "-XX:TieredStopAtLevel=1",
        "-XX:-TieredCompilation",
        "-XX:Tier4BackEdgeThreshold=1",
        "-XX:CompilationMode=x",
    ],
)
def test_an_option_of_the_user_for_the_compilers_replaces_the_options_for_c2(option):
    for variable in VARIABLES:
        assert LATE_C2 not in options(**{variable: f"-Xmx1g {option}"})
    for setting in SETTINGS:
        assert LATE_C2 not in options(conf={setting: option})
    assert LATE_C2 in options(conf={"spark.executor.extraJavaOptions": option})
    assert LATE_C2 in options(SPARK_SUBMIT_OPTS="-Xmx1g -XX:+UseZGC -XX:CompileCommand=quiet -Dpath=/a-Xint")


def test_an_archive_of_classes_is_used_unless_the_user_chooses_one(tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW__DELTALITE__CLASS_ARCHIVE", "use")
    worker = stand_in_for_spark(tmp_path, monkeypatch)
    archive = make_archive(worker.program, worker.environ).path

    def options_of_worker(**environ: str) -> str | None:
        launch = Launch(
            conn_id="c", master="local", deploy_mode=None, binary=worker.program, environ=worker.environ | environ
        )
        return options_of_driver(launch, {})

    assert options_of_worker(SPARK_SUBMIT_OPTS="-Dx=1") == f"{options()} {java_options(archive)} -Dx=1"
    for variable in VARIABLES:
        assert str(archive) not in options_of_worker(**{variable: "-Xshare:off"})


def flags_of_java(arguments: list[str]) -> dict[str, str]:
    """Return the values of a JVM's flags with these arguments, by name."""
    command = ["java", *arguments, "-XX:+PrintFlagsFinal", "-version"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return dict(re.findall(r"^ *\S+ (\S+) += (\S+)", output, flags=re.MULTILINE))


def test_java_knows_the_options_and_they_are_twenty_times_its_defaults():
    defaults, changed = flags_of_java([]), flags_of_java((options() or "").split())
    thresholds = [name for name in defaults if re.fullmatch(r"Tier4.*Threshold", name)]
    assert len(thresholds) == 4
    assert {name: int(changed[name]) for name in thresholds} == {name: 20 * int(defaults[name]) for name in thresholds}
    assert changed["Tier3DelayOn"] == "0" != defaults["Tier3DelayOn"]
