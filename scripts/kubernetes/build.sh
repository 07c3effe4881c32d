#!/usr/bin/env bash
# Builds the programs of the tests on Kubernetes into .kubernetes/: the components, a container runtime, and the images.
# buildah builds the image of Spark from deployments/kubernetes/Dockerfile.
# Sources: the Go proxy, the packages of Debian 12, and PyPI. The script unpacks Debian's packages, and does not install
# them. The first build takes about 15 minutes on two cores, 2.5 GB of memory and 7 GB of disk. If a tool is missing, the
# script prints its name and succeeds. The tests are then skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly SOURCES="$PWD/scripts/kubernetes" IMAGE="$PWD/deployments/kubernetes" TARGET="$PWD/.kubernetes"

for tool in go apt-get dpkg nsenter ip openssl; do
    if ! command -v "$tool" >/dev/null; then
        echo "The tests on Kubernetes cannot run, because '$tool' is not installed." >&2
        exit 0
    fi
done
if ((EUID != 0)) || [[ "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" != bookworm || ! -x .venv/bin/python3.11 ||
    "$(uname --machine)" != x86_64 ]]; then
    echo "The tests on Kubernetes cannot run: they need root on Debian 12, amd64, and Python 3.11." >&2
    exit 0
fi
stamp="$(cat "$SOURCES"/*/go.mod "$SOURCES"/*/main.go "$SOURCES/build.sh" "$IMAGE"/{Dockerfile,entrypoint.sh} | cksum)"
if [[ "$(cat "$TARGET/.done" 2>/dev/null)" == "$stamp" ]]; then exit 0; fi
rm -rf --one-file-system "$TARGET"/tmp.* "$TARGET/debian" # a killed build leaves its temporary folder
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
    apt-get --quiet --quiet download containerd runc containernetworking-plugins mmdebstrap buildah \
        libassuan0 libdevmapper1.02.1 libgpgme11 libseccomp2
    for package in *.deb; do dpkg --extract "$package" ..; done
)

export PATH="$TARGET/debian/usr/bin:$TARGET/debian/usr/sbin:$PATH"
work="$(mktemp --directory --tmpdir="$TARGET")"
trap 'rm -rf --one-file-system "$work"' EXIT
mkdir "$work"/{debian,lib}
echo '{"default": [{"type": "insecureAcceptAnything"}]}' >"$work/policy.json"

# Builds the image localhost/NAME:1 into a file. The folder `lib` hides /var/lib, where buildah keeps a cache.
build_image() { # build_image NAME CONTEXT FILE [OPTION...] <DOCKERFILE
    LD_LIBRARY_PATH="$TARGET/debian/usr/lib/x86_64-linux-gnu:$TARGET/debian/lib/x86_64-linux-gnu" \
        unshare --mount bash -c 'mount --bind "$0/lib" /var/lib && exec "$@"' "$work" \
        nice -n 19 buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs build --quiet \
        --signature-policy "$work/policy.json" --runtime runc --network host --file - \
        --tag "oci-archive:$3:localhost/$1:1" "${@:4}" "$2" >/dev/null
}
build_image pause "$TARGET/images/pause" "$TARGET/images/pause.tar" <<<$'FROM scratch\nCOPY pause /\nENTRYPOINT ["/pause"]'

# The base of Spark's image is Debian without man pages, like its slim image, and without the name of this machine.
mmdebstrap --quiet --mode=root --variant=minbase --dpkgopt='path-exclude=/usr/share/man/*' \
    --customize-hook='rm --force "$1/etc/hostname" "$1/etc/resolv.conf"' bookworm "$work/debian/root.tar"
build_image debian "$work/debian" "$work/debian.tar" <<<$'FROM scratch\nADD root.tar /'

# The build mounts the settings of this machine for apt and pip, so the image does not contain them.
mkdir --parents "$work/home/.config/pip"
cp /etc/ssl/certs/ca-certificates.crt "$work/home/"
{
    printf '[global]\ncert = ~/ca-certificates.crt\n'
    .venv/bin/pip config list | sed --quiet "/\.cert=/d; s/^\(:env:\|global\)\.\(.*\)='\(.*\)'$/\2 = \3/p" |
        sort --unique --field-separator== --key=1,1
} >"$work/home/.config/pip/pip.conf"
build_image spark "$IMAGE" "$TARGET/images/spark.tar" \
    --build-arg "BASE=oci-archive:$work/debian.tar:localhost/debian:1" \
    --volume /etc/apt:/etc/apt:ro --volume "$work/home:/root:ro" <"$IMAGE/Dockerfile"
echo "$stamp" >"$TARGET/.done"
