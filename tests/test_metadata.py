"""The distribution's metadata is consistent, and no file of the checkout names a package index or a machine's path."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import tomllib
from importlib.metadata import distribution, version
from pathlib import Path

import pytest

import airflow_provider_deltalite
import deltalite
from deltalite.version import REPOSITORY, documentation_url

CHECKOUT = Path(__file__).resolve().parents[1]

# The public names of `deltalite`. A name leaves this list only through a deprecation.
PUBLIC_NAMES = {"DeltaTable"}

# Written in parts, so that this file does not contain a forbidden text.
INDEX_HOSTS = [
    ".".join(parts)
    for parts in [
        ("pypi", "org"),
        ("python" + "hosted", "org"),
        ("registry", "npmjs"),
        ("static", "crates", "io"),
        ("proxy", "golang", "org"),
        ("repo1", "maven", "org"),
        ("repo", "maven", "apache", "org"),
        ("deb", "debian", "org"),
    ]
]
MACHINE_PATHS = [f"/{folder}/" for folder in ("work", "root")]
FORBIDDEN = re.compile(
    "|".join([*map(re.escape, INDEX_HOSTS), *(rf"(?<![\w.}}/-]){re.escape(path)}" for path in MACHINE_PATHS)])
)


def checkout_files() -> list[Path]:
    """The files that git tracks, and the new files that it does not ignore."""
    if shutil.which("git") is None or not (CHECKOUT / ".git").exists():
        pytest.skip("Not a git checkout.")
    git_process = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [path for name in git_process.stdout.split("\0") if name and (path := CHECKOUT / name).is_file()]


def test_the_checkout_has_no_symbolic_link():
    assert [path.name for path in checkout_files() if path.is_symlink()] == []


def test_only_one_module_assigns_the_version():
    assert version("airflow-provider-deltalite") == airflow_provider_deltalite.__version__
    literal = re.compile(rf"""=\s*["']{re.escape(airflow_provider_deltalite.__version__)}["']""")
    sources = [*CHECKOUT.glob("airflow_provider_deltalite/**/*.py"), *CHECKOUT.glob("spark_jobs/**/*.py")]
    modules_with_version = [path.name for path in sources if literal.search(path.read_text(encoding="utf-8"))]
    assert modules_with_version == ["version.py"]


def test_airflow_finds_the_provider_by_its_entry_point():
    [entry] = [
        e for e in distribution("airflow-provider-deltalite").entry_points if e.group == "apache_airflow_provider"
    ]
    info = entry.load()()
    assert info["package-name"] == "airflow-provider-deltalite"
    if "versions" in info:
        assert info["versions"][0] == airflow_provider_deltalite.__version__


def test_the_changelog_has_an_entry_for_this_version():
    assert f"## {airflow_provider_deltalite.__version__}" in (CHECKOUT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_a_package_index_links_to_the_documentation_the_source_the_changelog_and_the_issues():
    urls = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    assert urls == {
        "Documentation": documentation_url("index"),
        "Source": REPOSITORY,
        "Changelog": f"{REPOSITORY}/blob/main/CHANGELOG.md",
        "Issues": f"{REPOSITORY}/issues",
    }


def test_the_documentation_address_of_an_error_leads_to_its_heading():
    address = documentation_url("troubleshooting", "TableNotFoundError")
    assert address.endswith("/docs/troubleshooting.md#tablenotfounderror")
    page = (CHECKOUT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    assert "\n## TableNotFoundError\n" in page


def test_the_library_exports_the_listed_public_names():
    assert set(deltalite.__all__) == PUBLIC_NAMES
    assert all(getattr(deltalite, name) is not None for name in PUBLIC_NAMES)


def test_an_unknown_name_of_the_library_raises_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        importlib.import_module("deltalite").no_such_name  # noqa: B018


def test_constraints_pin_exact_versions_and_nothing_else():
    lines = [line for line in (CHECKOUT / "constraints.txt").read_text(encoding="utf-8").splitlines() if line]
    pins = [line for line in lines if not line.startswith("#")]
    assert [line for line in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!-]+", line)] == []
    assert len({line.split("==")[0].lower() for line in pins}) == len(pins)


def test_no_file_of_the_checkout_names_a_package_index_or_a_path_of_one_machine():
    findings = []
    for path in checkout_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        findings += [f"{path.relative_to(CHECKOUT)}: {match.group()}" for match in FORBIDDEN.finditer(text)]
    assert findings == []


@pytest.mark.parametrize("text", ["https://" + INDEX_HOSTS[0] + "/simple", "path = '" + MACHINE_PATHS[0] + "main'"])
def test_a_forbidden_address_is_recognised(text):
    assert FORBIDDEN.search(text)


@pytest.mark.parametrize("text", ["lake/work/x", "s3://bucket/work/x", "{tmp}/root/x"])
def test_a_table_folder_with_such_a_name_is_not_a_forbidden_path(text):
    assert not FORBIDDEN.search(text)
