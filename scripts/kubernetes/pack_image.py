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

_MEDIA_TYPE_PREFIX = "application/vnd.oci.image"


def pack(folder: Path, name: str, file: Path, config: dict[str, object]) -> None:
    """Write the image to a file. `config` is the configuration of its containers, such as their entry point."""
    layer = file.with_suffix(".layer")
    subprocess.run(["tar", "--numeric-owner", "--directory", folder, "--create", "--file", layer, "."], check=True)
    try:
        with layer.open("rb") as stream:
            layer_digest = f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"
        config_blob = _encode_json(
            {
                "architecture": "amd64",
                "os": "linux",
                "rootfs": {"type": "layers", "diff_ids": [layer_digest]},
                "config": config,
            }
        )
        layer_descriptor = {
            "mediaType": f"{_MEDIA_TYPE_PREFIX}.layer.v1.tar",
            "digest": layer_digest,
            "size": layer.stat().st_size,
        }
        manifest_blob = _encode_json(
            {
                "schemaVersion": 2,
                "mediaType": f"{_MEDIA_TYPE_PREFIX}.manifest.v1+json",
                "config": _descriptor("config", config_blob),
                "layers": [layer_descriptor],
            }
        )
        annotations = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
        index = {
            "schemaVersion": 2,
            "manifests": [_descriptor("manifest", manifest_blob) | {"annotations": annotations}],
        }
        with tarfile.open(file, "w") as archive:
            _add_file(archive, "oci-layout", _encode_json({"imageLayoutVersion": "1.0.0"}))
            _add_file(archive, "index.json", _encode_json(index))
            for blob in (config_blob, manifest_blob):
                _add_file(archive, _blob_path(_digest(blob)), blob)
            archive.add(layer, _blob_path(layer_digest))
    finally:
        layer.unlink()


def _descriptor(kind: str, blob: bytes) -> dict[str, object]:
    """Return the descriptor of a blob: its media type, its digest and its size."""
    return {"mediaType": f"{_MEDIA_TYPE_PREFIX}.{kind}.v1+json", "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _blob_path(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _encode_json(value: object) -> bytes:
    return json.dumps(value).encode()


def _add_file(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


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
