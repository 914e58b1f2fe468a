// What grpc_client.py is, with gRPC for Node: a gRPC service, and a gRPC client that finds it through xDS. It has no metrics.

const http = require("node:http");
const grpc = require("@grpc/grpc-js");
require("@grpc/grpc-js-xds").register();

const [control, service] = process.argv.slice(2).map(Number);
let arrived = 0;
let sick = false;

const same = (bytes) => bytes;
const method = {
  path: "/shop.Reviews/Get",
  requestStream: false,
  responseStream: false,
  requestSerialize: same,
  requestDeserialize: same,
  responseSerialize: same,
  responseDeserialize: same,
};

function get(_, answer) {
  arrived += 1;
  if (sick) {
    answer({ code: grpc.status.UNAVAILABLE, details: "sick" });
  } else {
    answer(null, Buffer.from("well"));
  }
}

const server = new grpc.Server();
server.addService({ Get: method }, { Get: get });
server.bindAsync(`127.0.0.1:${service}`, grpc.ServerCredentials.createInsecure(), (error) => {
  if (error) throw error;
});

const Reviews = grpc.makeGenericClientConstructor({ Get: method }, "Reviews");
const client = new Reviews("xds:///reviews", grpc.credentials.createInsecure());

function call() {
  return new Promise((ended) => client.Get(Buffer.alloc(0), { deadline: Date.now() + 10_000 }, ended));
}

async function make(calls) {
  const before = arrived;
  let succeeded = 0;
  let said = "";
  for (let number = 0; number < calls; number += 1) {
    const error = await call();
    if (error) {
      said = error.details;
    } else {
      succeeded += 1;
    }
  }
  return JSON.stringify({ attempts: arrived - before, succeeded, said });
}

http
  .createServer(async (request, answer) => {
    if (request.url.startsWith("/calls/")) {
      answer.end(await make(Number(request.url.slice("/calls/".length))));
    } else {
      sick = request.url === "/sick";
      answer.end();
    }
  })
  .listen(control, "127.0.0.1");
