"""The version of the library and of the provider: written here, once; and how our commits name their engine."""

VERSION = "0.1.0"
_ENGINE = "deltalite/"
ENGINE_INFO = f"{_ENGINE}{VERSION}"


def is_ours(engine_info: object) -> bool:
    """Whether the `engineInfo` of a commit names this library, in any version."""
    return isinstance(engine_info, str) and engine_info.startswith(_ENGINE)
