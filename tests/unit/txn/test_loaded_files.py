"""The transaction of the loaded files: it conflicts, a restore puts it back, and it never expires."""

from __future__ import annotations

import dataclasses

import pytest

from deltalite.errors import ConcurrentFlowException, InvalidRequestError
from deltalite.loaded_files.manifest import current_manifest_number
from deltalite.protocol.actions import LOADED_FILES_APP_ID
from deltalite.txn.loaded_files import check_keeps_loaded_files, loaded_files_transaction, restored_loaded_files
from deltalite.upkeep.checkpoint import write_checkpoint
from tests.unit.builders import NOON_MS, add, add_rival, create, load, new_store, proposal, try_commit, txn

READS_RECORD = {"app_id_prefixes": (LOADED_FILES_APP_ID,)}


def transactions(*txns):
    return {action.app_id: action for action in txns}


def test_a_load_conflicts_with_a_winner_that_has_loaded_files():
    store = create(new_store(), add("f0"))
    add_rival(store, [txn(LOADED_FILES_APP_ID, 3), add("w")])
    base = proposal(0, add("f1"))
    current = dataclasses.replace(
        base,
        reads=dataclasses.replace(base.reads, **READS_RECORD),
        offsets=(loaded_files_transaction(4, now_ms=NOON_MS),),
    )
    with pytest.raises(ConcurrentFlowException, match="the record of loaded files"):
        try_commit(store, current)
    assert current_manifest_number(load(store).transactions) == 3


def test_a_restore_puts_the_record_back():
    newest = transactions(loaded_files_transaction(9, now_ms=1), txn("run", 1))
    older = transactions(loaded_files_transaction(4, now_ms=1))
    assert restored_loaded_files(newest, older, now_ms=5) == (loaded_files_transaction(4, now_ms=5),)
    assert restored_loaded_files(newest, transactions(), now_ms=5) == (loaded_files_transaction(-1, now_ms=5),)
    assert restored_loaded_files(newest, newest, now_ms=5) == ()
    assert restored_loaded_files(transactions(), transactions(), now_ms=5) == ()


def test_a_checkpoint_keeps_the_record_although_the_table_expires_transactions():
    retention = {"delta.setTransactionRetentionDuration": "interval 1 day"}
    store = create(new_store(), configuration=retention)
    proposed = dataclasses.replace(proposal(0, add("f")), offsets=(loaded_files_transaction(7, now_ms=1),))
    try_commit(store, proposed)
    write_checkpoint(load(store), now_ms=NOON_MS)
    assert current_manifest_number(load(store).transactions) == 7


def test_a_table_whose_transactions_expire_is_refused_with_a_remedy_for_files():
    check_keeps_loaded_files({}, table="t")
    with pytest.raises(InvalidRequestError, match=r"load files into t: .*`deltalite loaded`"):
        check_keeps_loaded_files({"delta.setTransactionRetentionDuration": "interval 1 day"}, table="t")
