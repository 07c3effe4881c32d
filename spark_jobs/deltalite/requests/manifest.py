"""The request of a task that generates manifests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from deltalite.requests.base import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateManifestRequest(Request):
    """A request to write the symlink manifests of the newest version of `table`.

    See `DeltaGenerateManifestOperator` for the meaning of each parameter.
    """

    kind: ClassVar[str] = "generate_manifest"
