"""Jobs run with the shipped library, which lacks some parts of the installed one."""

from __future__ import annotations

from airflow_provider_deltalite.shipping import NOT_FOR_JOBS
from tests.architecture.test_layers import LIBRARY_MODULES, component, component_of_target, violations
from tests.support.imports import Import


def test_no_module_of_the_shipped_library_imports_a_module_that_is_not_shipped():
    unshipped = {name.removesuffix(".py") for name in NOT_FOR_JOBS}

    def is_wrong(module: str, module_import: Import) -> bool:
        imports_unshipped = (
            module_import.package == "deltalite" and component_of_target(module_import.target) in unshipped
        )
        return imports_unshipped and component(module) not in unshipped

    assert unshipped <= {component(module) for module in LIBRARY_MODULES}
    assert violations(LIBRARY_MODULES, is_wrong) == []
