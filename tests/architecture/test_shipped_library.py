"""Jobs run with the shipped library, which lacks some parts of the installed one."""

from __future__ import annotations

from airflow_provider_deltalite.shipping import NOT_FOR_JOBS
from tests.architecture.test_layers import LIBRARY_MODULES, component, violations
from tests.support.imports import Import


def test_no_module_of_the_shipped_library_imports_a_module_that_is_not_shipped():
    unshipped = {name.removesuffix(".py") for name in NOT_FOR_JOBS}

    def is_wrong(module: str, module_import: Import) -> bool:
        is_unshipped = module_import.package == "deltalite" and module_import.target.split(".")[1:2][0] in unshipped
        return is_unshipped and component(module) not in unshipped

    assert unshipped <= {component(module) for module in LIBRARY_MODULES}
    assert violations(LIBRARY_MODULES, is_wrong) == []
