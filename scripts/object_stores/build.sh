#!/usr/bin/env bash
# Builds the object stores for tests into .object_stores/: SeaweedFS and fake-gcs-server from the Go proxy, with the jar of
# Google's connector from Maven, and Azurite from the npm registry.
# The first build takes about ten minutes on two cores, 3 GB of memory and 3 GB of disk. If a tool is missing, the script
# prints its name and succeeds. The tests on this store are then skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly SOURCES="$PWD/scripts/object_stores" TARGET="$PWD/.object_stores"
mkdir -p "$TARGET"

# Runs the function build_STORE in its folder below .object_stores, unless its sources and tool are unchanged.
build() { # build STORE TOOL
    local stamp
    if ! command -v "$2" >/dev/null; then
        echo "The tests on $1 cannot run, because '$2' is not installed." >&2
        return
    fi
    stamp="$(cat "$SOURCES/build.sh" "$SOURCES/$1"/* | cksum)"
    if [[ "$(cat "$TARGET/$1/.done" 2>/dev/null)" == "$stamp" ]]; then return; fi
    rm -rf "${TARGET:?}/$1"
    mkdir "$TARGET/$1"
    "build_$1" "$SOURCES/$1" "$TARGET/$1"
    echo "$stamp" >"$TARGET/$1/.done"
}

build_seaweedfs() { # its go.mod names the program as a tool
    (cd "$1" && CGO_ENABLED=0 nice -n 19 go build -p 2 -trimpath -ldflags "-s -w" -o "$2/weed" \
        github.com/seaweedfs/seaweedfs/weed)
}

build_azurite() {
    cp "$1"/package*.json "$2/"
    (cd "$2" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
}

build_fake_gcs_server() {
    (cd "$1" && CGO_ENABLED=0 nice -n 19 go build -p 2 -trimpath -ldflags "-s -w" -o "$2/fake-gcs-server" \
        github.com/fsouza/fake-gcs-server)
    mvn --quiet --batch-mode --file "$1/pom.xml" dependency:copy-dependencies "-DoutputDirectory=$2" </dev/null
}

build seaweedfs go
build fake_gcs_server go
build azurite npm
