"""axe-core, which finds barriers for people with disabilities in a page. Tests fetch it from the npm registry.

The licence of axe-core is MPL-2.0. Neither the wheel nor the source distribution contains it.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.browser import Browser

_PACKAGE = "axe-core@4.14.1"
_SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
_RUN = """
const options = {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]};
return axe.run(document, options).then((result) => result.violations.map((violation) => ({
  rule: violation.id,
  impact: violation.impact,
  elements: violation.nodes.map((node) => [node.html.slice(0, 200), ...node.any.map((item) => item.message)].join(" ")),
})));
"""


def is_npm_installed() -> bool:
    """Whether npm can fetch axe-core."""
    return shutil.which("npm") is not None


@cache
def _program() -> str:
    """The source of axe-core. npm fetches it once for this process."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["npm", "pack", _PACKAGE, "--ignore-scripts", "--silent"], cwd=folder, check=True, capture_output=True
        )
        [archive] = Path(folder).glob("*.tgz")
        assert base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode() == _SHA512, archive.name
        with tarfile.open(archive) as files:
            member = files.extractfile("package/axe.min.js")
            assert member is not None
            return member.read().decode()


def violations(browser: Browser) -> list[dict[str, Any]]:
    """The violations of accessibility rules in the current frame, each with its rule, impact and elements."""
    browser.run(_program())
    return browser.run(_RUN)
