"""A gRPC service, and a gRPC client that finds it through xDS, in one process for the tests of `grpc-xds`.

It is driven over HTTP on the port of its first argument: /calls/N makes N calls one after another and answers how many attempts the
service saw and how many calls succeeded; /sick and /well switch the service; /metrics has the client's own metrics. The service
listens on the port of its second argument. GRPC_XDS_BOOTSTRAP names the client's bootstrap file.
"""

import http.server
import json
import sys
from concurrent import futures

import grpc
import grpc_observability
import prometheus_client
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider

arrived = 0
sick = False


def get(request, context):
    global arrived
    arrived += 1
    if sick:
        context.abort(grpc.StatusCode.UNAVAILABLE, "sick")
    return b"well"


server = grpc.server(futures.ThreadPoolExecutor(8))
methods = {"Get": grpc.unary_unary_rpc_method_handler(get)}
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("shop.Reviews", methods),))
server.add_insecure_port(f"127.0.0.1:{sys.argv[2]}")
server.start()

provider = MeterProvider(metric_readers=[PrometheusMetricReader()])
grpc_observability.OpenTelemetryPlugin(meter_provider=provider).register_global()
channel = grpc.insecure_channel("xds:///reviews")
call = channel.unary_unary("/shop.Reviews/Get")


def make(calls):
    before, succeeded, said = arrived, 0, ""
    for _ in range(calls):
        try:
            call(b"", timeout=10)
            succeeded += 1
        except grpc.RpcError as error:
            said = str(error.details())
    return {"attempts": arrived - before, "succeeded": succeeded, "said": said}


class Control(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        global sick
        body = b""
        if self.path.startswith("/calls/"):
            body = json.dumps(make(int(self.path.removeprefix("/calls/")))).encode()
        elif self.path == "/metrics":
            body = prometheus_client.generate_latest()
        else:
            sick = self.path == "/sick"
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.send_header("content-type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Control).serve_forever()
