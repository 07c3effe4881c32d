"""The check that a table keeps its transactions, which hold source offsets and name the record of loaded files.

`delta.setTransactionRetentionDuration` lets every engine remove old transactions. Protocol: Transaction Identifiers.
"""

from __future__ import annotations

from collections.abc import Mapping

from deltalite.errors import InvalidRequestError
from deltalite.protocol import properties as props


def check_keeps_transactions(configuration: Mapping[str, str], *, failure: str, effect: str, advice: str) -> None:
    """Check that a table keeps its transactions.

    Args:
        configuration: the properties of the table.
        failure: the beginning of the error, which names the operation and the table.
        effect: the record that other engines remove, and the consequence.
        advice: the end of the remedy, after the advice to remove the property.

    Raises:
        InvalidRequestError: the table has `delta.setTransactionRetentionDuration`.
    """
    retention = props.SET_TRANSACTION_RETENTION_MS
    if retention.of(configuration) is not None:
        raise InvalidRequestError(
            f"{failure}: the table has {retention.key}, so other engines remove {effect}.",
            remedy=f"Remove the property with unset_properties of DeltaTableOperator. {advice}",
        )
