"""The requests that operators send to jobs: the contract between Airflow and Spark, with each parameter declared once.

Operators build requests; jobs and `commands` read them. The package uses only the standard library, because parsing a
DAG must stay cheap.
Begin with `base.py` (the fields of all requests), then `write.py`.
"""

from __future__ import annotations

from deltalite.requests.approvals import Approval, AskedAudit, AuditQuestion
from deltalite.requests.audits import Audit, AuditKind, AuditLevel, AuditScope
from deltalite.requests.base import SCHEMA_VERSION, CommitRequest, OnRerun, OutOfOrder, Request, RunIdentity
from deltalite.requests.check import CheckRequest
from deltalite.requests.checkpoint import CheckpointRequest
from deltalite.requests.convert import ConvertRequest
from deltalite.requests.copy import CopyRequest
from deltalite.requests.deduplicate import Deduplicate
from deltalite.requests.incremental import BY_ADDRESS, OnChange, OnGap, SourceRead
from deltalite.requests.maintain import DEFAULT_THRESHOLDS, MaintainRequest, Step, Thresholds
from deltalite.requests.manifest import GenerateManifestRequest
from deltalite.requests.optimize import DEFAULT_COMMIT_BYTES, OptimizeRequest
from deltalite.requests.provenance import DIGEST_SCHEME, RunProvenance
from deltalite.requests.restore import RestoreRequest
from deltalite.requests.rows import ALL_COLUMNS, DeleteRequest, MergeClause, MergeRequest, RowsRequest, UpdateRequest
from deltalite.requests.scd import OnSameSequence, ScdRequest
from deltalite.requests.source import Source
from deltalite.requests.table import TableRequest
from deltalite.requests.vacuum import VacuumMode, VacuumRequest
from deltalite.requests.write import PartitionOverwrite, WriteMode, WriteRequest

__all__ = [
    "ALL_COLUMNS",
    "BY_ADDRESS",
    "DEFAULT_COMMIT_BYTES",
    "DEFAULT_THRESHOLDS",
    "DIGEST_SCHEME",
    "SCHEMA_VERSION",
    "Approval",
    "AskedAudit",
    "Audit",
    "AuditKind",
    "AuditLevel",
    "AuditQuestion",
    "AuditScope",
    "CheckRequest",
    "CheckpointRequest",
    "CommitRequest",
    "ConvertRequest",
    "CopyRequest",
    "Deduplicate",
    "DeleteRequest",
    "GenerateManifestRequest",
    "MaintainRequest",
    "MergeClause",
    "MergeRequest",
    "OnChange",
    "OnGap",
    "OnRerun",
    "OnSameSequence",
    "OptimizeRequest",
    "OutOfOrder",
    "PartitionOverwrite",
    "Request",
    "RestoreRequest",
    "RowsRequest",
    "RunIdentity",
    "RunProvenance",
    "ScdRequest",
    "Source",
    "SourceRead",
    "Step",
    "TableRequest",
    "Thresholds",
    "UpdateRequest",
    "VacuumMode",
    "VacuumRequest",
    "WriteMode",
    "WriteRequest",
]
