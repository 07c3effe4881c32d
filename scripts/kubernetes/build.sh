#!/usr/bin/env bash
# Builds the programs of the tests on Kubernetes into .kubernetes/: the components, a container runtime, and the images.
# Sources: the Go proxy, the packages of Debian 12, and the PySpark of .venv. The script unpacks Debian's packages, and
# does not install them. The first build takes about ten minutes on two cores, 2.5 GB of memory and 6 GB of disk. If a tool is
# missing, the script prints its name and succeeds. The tests are then skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly SOURCES="$PWD/scripts/kubernetes" TARGET="$PWD/.kubernetes" PACKAGES="$PWD/.venv/lib/python3.11/site-packages"

for tool in go apt-get dpkg nsenter ip openssl; do
    if ! command -v "$tool" >/dev/null; then
        echo "The tests on Kubernetes cannot run, because '$tool' is not installed." >&2
        exit 0
    fi
done
if ((EUID != 0)) || [[ "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" != bookworm || ! -d "$PACKAGES" ]]; then
    echo "The tests on Kubernetes cannot run: they need root on Debian 12, and Python 3.11." >&2
    exit 0
fi
stamp="$(cat "$SOURCES"/*/go.mod "$SOURCES"/*/main.go "$SOURCES"/*.{sh,py} "$PWD"/deployments/kubernetes/* "$PACKAGES/pyspark/version.py" | cksum)"
if [[ "$(cat "$TARGET/.done" 2>/dev/null)" == "$stamp" ]]; then exit 0; fi
mkdir -p "$TARGET"/{bin,debian/packages,images/pause}

build() { # compiles the Go program of a folder: build FOLDER PROGRAM [LINKER_FLAG...]
    (cd "$SOURCES/$1" && CGO_ENABLED=0 nice -n 19 go build -trimpath -ldflags "-s -w ${*:3}" -o "$2" .)
}
version="$(sed -n 's/^.*k8s.io\/kubernetes \(v[^ ]*\)$/\1/p' "$SOURCES/node/go.mod" | head -1)"
minor="${version#v1.}"
version_flags=()
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    version_flags+=(-X "$package.gitVersion=$version" -X "$package.gitMajor=1" -X "$package.gitMinor=${minor%%.*}")
done
build etcd "$TARGET/bin/etcd"
build coredns "$TARGET/bin/coredns"
build node "$TARGET/bin/kubernetes" "${version_flags[@]}"
build pause "$TARGET/images/pause/pause"

(
    cd "$TARGET/debian/packages"
    apt-get --quiet --quiet download containerd runc containernetworking-plugins mmdebstrap libseccomp2
    for package in *.deb; do dpkg --extract "$package" ..; done
)

# The image of Spark: Debian with Python and Java, the PySpark of .venv, and the packages that the driver needs with it.
root="$TARGET/images/spark"
rm -rf "$root"
PATH="$TARGET/debian/usr/bin:$PATH" mmdebstrap --quiet --mode=root --variant=minbase \
    --include=python3,openjdk-17-jre-headless,tini,procps --setup-hook='mkdir -p "$1/usr/share/man/man1"' bookworm "$root"
image_packages="$root/usr/local/lib/python3.11/dist-packages"
mkdir -p "$image_packages" "$root/opt/work" "$root/home/spark"
for package in pyspark py4j pyarrow pyarrow.libs numpy numpy.libs; do
    if [[ -e "$PACKAGES/$package" ]]; then cp --archive --link "$PACKAGES/$package" "$image_packages/"; fi
done
ln --symbolic --force --no-dereference "${image_packages#"$root"}/pyspark" "$root/opt/spark"
install "$PWD/deployments/kubernetes/entrypoint.sh" "$root/opt/entrypoint.sh"
echo 'spark:x:185:0::/home/spark:/bin/bash' >>"$root/etc/passwd"
chown 185:0 "$root/home/spark" "$root/opt/work"

.venv/bin/python "$SOURCES/pack_image.py" "$TARGET/images/pause" localhost/pause:1 "$TARGET/images/pause.tar" \
    --entrypoint /pause
.venv/bin/python "$SOURCES/pack_image.py" "$root" localhost/spark:1 "$TARGET/images/spark.tar" \
    --entrypoint /opt/entrypoint.sh --user 185 --workdir /opt/work --env LANG=C.UTF-8 --env HOME=/home/spark --env SPARK_HOME=/opt/spark \
    --env JAVA_HOME=/usr/lib/jvm/java-17-openjdk-amd64
rm -rf "$root"
echo "$stamp" >"$TARGET/.done"
