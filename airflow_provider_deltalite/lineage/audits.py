"""The results of audits as facets of OpenLineage.

A task that runs audits has the run facet `test`. The table that `DeltaCheckOperator` examines is an input, which also
has the facet `dataQualityAssertions`. OpenLineage defines this facet for inputs only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openlineage.client.facet_v2 import InputDatasetFacet, RunFacet, data_quality_assertions_dataset, test_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deltalite.results import AuditResult

_SEVERITIES = {"fail": "error", "quarantine": "error", "ask": "warn", "warn": "warn"}


def run_facets_of_audits(audits: Sequence[AuditResult]) -> dict[str, RunFacet]:
    """Return the run facet with the results of audits; no facet without audits."""
    tests = [
        test_run.TestExecution(
            name=audit.name,
            status="pass" if audit.passed else "fail",
            severity=_SEVERITIES.get(audit.level),
            type=audit.kind,
            expected=audit.threshold,
            actual=str(audit.measured),
            params={"on": audit.on},
        )
        for audit in audits
    ]
    return {"test": test_run.TestRunFacet(tests=tests)} if tests else {}


def input_facets_of_audits(audits: Sequence[AuditResult]) -> dict[str, InputDatasetFacet]:
    """Return the facet of an input that audits examined; no facet without audits."""
    assertions = [
        data_quality_assertions_dataset.Assertion(
            assertion=audit.kind,
            success=audit.passed,
            severity=_SEVERITIES.get(audit.level),
            name=audit.name,
            expected=audit.threshold,
            actual=str(audit.measured),
        )
        for audit in audits
    ]
    facet = data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(assertions=assertions)
    return {"dataQualityAssertions": facet} if assertions else {}
