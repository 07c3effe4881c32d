"""The image of Spark has the versions of Spark, pyarrow and numpy that the tests run with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
DOCKERFILE = CHECKOUT / "deployments" / "kubernetes" / "Dockerfile"
CONSTRAINTS = CHECKOUT / "constraints.txt"


@pytest.mark.parametrize("package", ["pyspark", "pyarrow", "numpy"])
def test_the_dockerfile_installs_the_version_of_the_tests(package):
    (image_version,) = re.findall(rf"^ARG {package.upper()}=(\S+)$", DOCKERFILE.read_text(), re.MULTILINE)
    (test_version,) = re.findall(rf"^{package}==(\S+)$", CONSTRAINTS.read_text(), re.MULTILINE)
    assert image_version == test_version
