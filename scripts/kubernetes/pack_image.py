"""Packs a folder as a container image with one layer, for `ctr images import`.

Usage: pack_image.py FOLDER NAME FILE [--entrypoint PROGRAM] [--env NAME=VALUE]... [--user ID] [--workdir FOLDER]

The format is that of the OCI image specification: https://github.com/opencontainers/image-spec
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path

_TYPE = "application/vnd.oci.image"


def pack(folder: Path, name: str, file: Path, config: dict[str, object]) -> None:
    """Write the image to a file."""
    layer = file.with_suffix(".layer")
    subprocess.run(["tar", "--numeric-owner", "--directory", folder, "--create", "--file", layer, "."], check=True)
    try:
        with layer.open("rb") as stream:
            layer_digest = f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"
        config_blob = _json(
            {
                "architecture": "amd64",
                "os": "linux",
                "rootfs": {"type": "layers", "diff_ids": [layer_digest]},
                "config": config,
            }
        )
        layer_entry = {
            "mediaType": f"{_TYPE}.layer.v1.tar",
            "digest": layer_digest,
            "size": layer.stat().st_size,
        }
        manifest_blob = _json(
            {
                "schemaVersion": 2,
                "mediaType": f"{_TYPE}.manifest.v1+json",
                "config": _entry("config", config_blob),
                "layers": [layer_entry],
            }
        )
        names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
        index = {"schemaVersion": 2, "manifests": [_entry("manifest", manifest_blob) | {"annotations": names}]}
        with tarfile.open(file, "w") as archive:
            _add(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
            _add(archive, "index.json", _json(index))
            for blob in (config_blob, manifest_blob):
                _add(archive, _blob_path(_digest(blob)), blob)
            archive.add(layer, _blob_path(layer_digest))
    finally:
        layer.unlink()


def _entry(kind: str, blob: bytes) -> dict[str, object]:
    return {"mediaType": f"{_TYPE}.{kind}.v1+json", "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _blob_path(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("name")
    parser.add_argument("file", type=Path)
    parser.add_argument("--entrypoint", required=True)
    parser.add_argument("--env", action="append", default=[])
    parser.add_argument("--user", default="0")
    parser.add_argument("--workdir", default="/")
    options = parser.parse_args()
    search_path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    image_config = {
        "Env": [search_path, *options.env],
        "Entrypoint": [options.entrypoint],
        "User": options.user,
        "WorkingDir": options.workdir,
    }
    pack(options.folder, options.name, options.file, image_config)
