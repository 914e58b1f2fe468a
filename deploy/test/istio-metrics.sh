#!/bin/sh
# What the sidecars of a service would report, to try the controller without a mesh: a page of metrics in the
# folder that is named, a hundred calls a second, of which as many are answered 503 as the file `rejected` says.
# Serve the folder with `python3 -m http.server 15090 --bind 127.0.0.1`.
set -eu
cd "${1:?name a folder}"
[ -e rejected ] || echo 0 >rejected
good=0
bad=0
while true; do
    now=$(cat rejected)
    bad=$((bad + now))
    good=$((good + 100 - now))
    labels='destination_service_name="reviews",destination_service_namespace="bookinfo",source_workload="productpage"'
    {
        echo '# TYPE istio_requests_total counter'
        for reporter in source destination; do
            echo "istio_requests_total{reporter=\"$reporter\",response_code=\"200\",$labels} $good"
            echo "istio_requests_total{reporter=\"$reporter\",response_code=\"503\",$labels} $bad"
        done
    } >metrics.new
    mv metrics.new metrics
    sleep 1
done
