#!/bin/bash
# The entry point that Spark on Kubernetes expects of its image: `driver ARGUMENT...` or `executor`. It runs any other
# command unchanged.
set -euo pipefail
role="$1"
shift
case "$role" in
driver)
    exec tini -s -- "$SPARK_HOME/bin/spark-submit" --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
        --deploy-mode client "$@"
    ;;
executor)
    java_options=()
    while IFS= read -r option; do
        java_options+=("${option#*=}")
    done < <(env | grep '^SPARK_JAVA_OPT_' | sort --field-separator=_ --key=4 --numeric-sort || true)
    exec tini -s -- "$JAVA_HOME/bin/java" "${java_options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
        -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}:$SPARK_HOME/jars/*" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
*)
    exec "$role" "$@"
    ;;
esac
