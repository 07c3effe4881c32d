#!/usr/bin/env bash
# Runs all tests, including those with the marker `campaign`, one family after the other. It prints pytest's summary of each
# family. The complete output is in .campaign/<family>.log. The exit code is 1 if a family failed, and 2 if the script does
# not know a FAMILY.
#
# Usage: scripts/campaign.sh FACTOR WORKERS [FAMILY...]
# Without a FAMILY, it runs all of them.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

readonly FACTOR="$1" WORKERS="$2"
readonly CHOSEN="${*:3}"
# The names of the families, from the calls of `run_family` below.
FAMILIES="$(grep -oP '^(DELTALITE_FUZZ=\S+ )?run_family \K[a-z-]+' scripts/campaign.sh | xargs)"
for name in $CHOSEN; do
    [[ " $FAMILIES " == *" $name "* ]] || { echo "There is no family '$name'. The families are: $FAMILIES" >&2; exit 2; }
done
failed=0
mkdir -p .campaign

environment=.venv
run_family() { # runs the tests of a family in the environment: run_family NAME PYTEST_ARGUMENT...
    local name="$1" log=".campaign/$1.log"
    shift
    [[ -z "$CHOSEN" || " $CHOSEN " == *" $name "* ]] || return 0
    PATH="$PWD/$environment/bin:$PATH" "$environment/bin/python" -m pytest --campaign --numprocesses "$WORKERS" --dist loadfile "$@" >"$log" 2>&1 || failed=1
    printf '%-16s %s\n' "$name" "$(tail -n 1 "$log")"
}

mapfile -t golden < <(find tests/unit tests/spark -name 'test_*golden.py' | sort)
random_tables=tests/interop/test_differential.py
races=(tests/spark/merge/test_concurrent_merges.py tests/spark/row_changes/test_by_model.py)

# The plugin of Hypothesis sets the marker `hypothesis`.
DELTALITE_FUZZ="$FACTOR" run_family random-examples tests/unit tests/faults -m hypothesis
# One file has all or most tests of the next two families. `worksteal` lets several workers run the tests of a file.
run_family golden-tables --dist worksteal "${golden[@]}"
DELTALITE_FUZZ="$FACTOR" run_family random-tables --dist worksteal "$random_tables"
run_family kills-and-races tests/faults "${races[@]}"
DELTALITE_FUZZ="$FACTOR" run_family other-engines tests/interop tests/storage --ignore "$random_tables"
run_family airflow tests/airflow tests/examples tests/system tests/demo
run_family clusters tests/clusters
run_family everything-else tests --ignore tests/clusters --ignore tests/faults --ignore tests/interop --ignore tests/storage --ignore tests/airflow \
    --ignore tests/examples --ignore tests/system --ignore tests/demo \
    $(printf -- '--ignore %s ' "${golden[@]}" "${races[@]}")
# The page in a browser, on the oldest Airflow.
environment=.venv-oldest
run_family page-on-oldest -W default tests/system/test_page.py tests/system/test_page_users.py
exit "$failed"
