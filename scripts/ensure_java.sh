#!/usr/bin/env bash
# Checks the Java that Spark would start (from JAVA_HOME, then from the PATH): Spark needs Java 17 or later. If there is no
# Java, the script installs a Java on Debian as root. If it cannot, or if the Java is too old, it fails and prints what to do.
set -euo pipefail

readonly MINIMUM=17

java_major() {
    local java="java"
    if [[ -n "${JAVA_HOME:-}" ]]; then java="$JAVA_HOME/bin/java"; fi
    # The version line is 'openjdk version "17.0.15" ...'; before Java 9 it was "1.8.0_402".
    { "$java" -version 2>&1 || true; } | sed -n 's/^.* version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*$/\2/p' | head -n 1
}

install_java() {
    echo "There is no Java; installing openjdk-17-jre-headless." >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >&2
    # A later Debian has no package of Java 17. Its package default-jre-headless installs a later Java.
    apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless >&2 ||
        apt-get install -y -qq --no-install-recommends default-jre-headless >&2
}

major="$(java_major)"
if [[ -z "$major" && -z "${JAVA_HOME:-}" && -f /etc/debian_version && "$(id -u)" == 0 ]]; then
    install_java
    major="$(java_major)"
fi

if [[ -z "$major" ]]; then
    echo "Found no Java${JAVA_HOME:+ in JAVA_HOME=$JAVA_HOME}; Spark needs Java $MINIMUM or later. Install a JRE (on Debian or" \
        "Ubuntu: 'sudo apt-get install openjdk-17-jre-headless'), or set JAVA_HOME to an installed JRE." >&2
    exit 1
elif ((major < MINIMUM)); then
    echo "Java $major is too old; Spark needs Java $MINIMUM or later. Install a later JRE (on Debian or Ubuntu:" \
        "'sudo apt-get install openjdk-17-jre-headless'), and set JAVA_HOME to it." >&2
    exit 1
fi
