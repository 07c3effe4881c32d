"""The campaign runs every test that a sample leaves out, and each feature has a test in `make test`."""

from __future__ import annotations

import pytest

from tests.support.golden import ENTRIES, REPLAY_FEATURES, one_per_feature, table_names
from tests.support.selection import cover, sample_every, sampled


def test_a_cover_has_every_feature_and_prefers_the_cheapest_of_equals():
    features = {"a": ["x", "y"], "b": ["y", "z"], "c": ["z"], "d": ["z"], "e": []}
    assert cover(features, {"a": 9, "b": 9, "c": 5, "d": 4, "e": 0}) == ["a", "d"]


def test_a_value_outside_the_sample_is_marked_for_the_campaign():
    inside, outside = sampled(["a", "b"], {"a"})
    assert inside == "a"
    assert (outside.values, [mark.name for mark in outside.marks]) == (("b",), ["campaign"])


def test_all_but_the_first_of_every_two_cases_are_marked_for_the_campaign():
    first, second, third = sample_every(2, [("a", 1), ("b", 2), ("c", 3)])
    assert (first, third) == (("a", 1), ("c", 3))
    assert (second.values, [mark.name for mark in second.marks]) == (("b", 2), ["campaign"])


@pytest.mark.sample("inside")
@pytest.mark.parametrize("value", ["inside", "outside"])
def test_the_marker_sample_leaves_out_the_other_values_of_a_parameter(value, pytestconfig):
    assert value == "inside" or pytestconfig.getoption("--campaign")


def test_the_sampled_golden_tables_have_every_feature_of_a_log(golden):
    all_tables = table_names("read", "log-only")
    parameters = one_per_feature("read", "log-only", prefixes=REPLAY_FEATURES)
    sample = {name for name in parameters if isinstance(name, str)}
    all_features = {feature for name in all_tables for feature in ENTRIES[name]["features"]}
    sampled_features = {feature for name in sample for feature in ENTRIES[name]["features"]}
    missing_features = all_features - sampled_features
    assert {feature for feature in missing_features if feature.startswith(REPLAY_FEATURES)} == set()
    assert len(sample) < len(parameters) == len(all_tables)
