"""The version of the library and the provider, the engine name in their commits, and the project's addresses.

`pyproject.toml` repeats the addresses for package indexes, and a test compares both. `documentation_url` is the only
place that builds the address of a page.
"""

VERSION = "0.1.0"
REPOSITORY = "https://github.com/deltalite/airflow-provider-deltalite"
DOCUMENTATION = f"{REPOSITORY}/blob/main/docs"
_ENGINE = "deltalite/"
ENGINE_INFO = f"{_ENGINE}{VERSION}"


def is_this_library(engine_info: object) -> bool:
    """Whether the `engineInfo` of a commit names this library, in any version."""
    return isinstance(engine_info, str) and engine_info.startswith(_ENGINE)


def documentation_url(page: str, section: str = "") -> str:
    """Return the web address of a documentation page, such as `troubleshooting`, or of a section in it.

    Args:
        page: The file name in `docs/` without its suffix.
        section: The heading as it stands on the page, such as `TableNotFoundError`; empty for the whole page.
    """
    anchor = section.lower().replace(" ", "-")
    return f"{DOCUMENTATION}/{page}.md" + (f"#{anchor}" if anchor else "")
