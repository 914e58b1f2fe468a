// Drives the laboratory's gateway from outside, as the load driver of `retryguard lab` does from inside: open or closed load,
// one order in ten sent a second time with the same key, and an order counted as a success only when it is paid.
//
//   retryguard lab serve --config G --address gateway=127.0.0.1:8000
//   k6 run --no-usage-report -e GATEWAY=http://127.0.0.1:8000 -e SHAPE=open -e RATE=40 -e SECONDS=30 deploy/k6/orders.js
//
// SHAPE=closed has USERS users who think for half a second to one and a half; SPIKE=500 lets their number rise to that for the
// middle third. TIME_SCALE is that of the services. OUT names a file for the counts, which are printed otherwise.
import http from "k6/http";
import exec from "k6/execution";
import { sleep } from "k6";
import { Counter, Trend } from "k6/metrics";

const number = (name, usual) => {
  const value = Number(__ENV[name] === undefined ? usual : __ENV[name]);
  if (!Number.isFinite(value) || value < 0) throw new Error(`${name} must be a number that is not negative`);
  return value;
};
const GATEWAY = __ENV.GATEWAY || "http://127.0.0.1:8000";
const SHAPE = __ENV.SHAPE || "closed";
const SECONDS = number("SECONDS", 30);
const SCALE = number("TIME_SCALE", 1);
const GOODS = number("GOODS", 1000);
const REPLAYS = number("REPLAYS", 0.1);
const PATIENCE = number("PATIENCE", 60) * SCALE;
const SPIKE = number("SPIKE", 0);

const counts = {};
for (const name of ["sent", "paid", "shed", "failed", "lost", "replays", "replays_paid"]) counts[name] = new Counter(`orders_${name}`);
const latency = new Trend("orders_latency", true);

export const options = { scenarios: scenarios(), summaryTrendStats: ["med", "p(95)", "p(99)", "max"] };

function scenarios() {
  const time = `${SECONDS}s`, gracefulStop = `${Math.ceil(PATIENCE)}s`;
  if (SHAPE === "open") {
    const rate = number("RATE", 40);
    return { open: { executor: "constant-arrival-rate", rate, timeUnit: "1s", duration: time, preAllocatedVUs: Math.max(10, Math.ceil(rate * 5)), maxVUs: 5000, gracefulStop } };
  }
  if (SHAPE !== "closed") throw new Error(`SHAPE is open or closed, not ${SHAPE}`);
  const all = { users: { executor: "constant-vus", vus: number("USERS", 20), duration: time, gracefulStop, env: { THINK: "usual" } } };
  if (SPIKE > 0) {
    const third = SECONDS / 3;
    all.spike = {
      executor: "ramping-vus", startTime: `${third}s`, startVUs: 0, gracefulStop, gracefulRampDown: gracefulStop, env: { THINK: "hardly" },
      stages: [{ duration: `${third / 3}s`, target: SPIKE }, { duration: `${third * 2 / 3}s`, target: SPIKE }, { duration: "0s", target: 0 }],
    };
  }
  return all;
}

// One run's orders are not those of another.
export function setup() {
  return { run: Math.random().toString(16).slice(2, 10).padEnd(8, "0") };
}

const below = bound => Math.floor(Math.random() * bound);

export default function (data) {
  const order = `${data.run}-${exec.scenario.name[0]}${exec.scenario.iterationInTest}`;
  const items = Array.from({ length: 1 + below(3) }, () => ({ sku: below(GOODS), quantity: 1 + below(3) }));
  const body = JSON.stringify({ order, items });
  counts.sent.add(1);
  const first = send(order, body);
  latency.add(first.took);
  counts[first.verdict].add(1);
  if (Math.random() < REPLAYS) {
    counts.replays.add(1);
    if (send(order, body).verdict === "paid") counts.replays_paid.add(1);
  }
  if (SHAPE === "closed") sleep((__ENV.THINK === "hardly" ? 0.1 : 0.5 + Math.random()) * SCALE);
}

function send(order, body) {
  const response = http.post(`${GATEWAY}/orders`, body, {
    headers: { "content-type": "application/json", "idempotency-key": `order-${order}` },
    timeout: `${Math.ceil(PATIENCE * 1000)}ms`,
    tags: { name: "orders" },
  });
  return { verdict: verdict(response), took: response.timings.duration };
}

// Success is what the order came to, and not the status alone.
function verdict(response) {
  if (response.status === 0) return "lost";
  if (response.status === 201 && response.json("status") === "paid") return "paid";
  if (response.status === 429 || response.headers["Retryguard-Do-Not-Retry"] !== undefined) return "shed";
  return "failed";
}

export function handleSummary(data) {
  const all = {};
  for (const name of Object.keys(counts)) {
    const metric = data.metrics[`orders_${name}`];
    all[name] = metric ? metric.values.count : 0;
  }
  const dropped = data.metrics.dropped_iterations;
  all.unsent = dropped ? dropped.values.count : 0;
  all.latency_ms = data.metrics.orders_latency ? data.metrics.orders_latency.values : {};
  const text = JSON.stringify(all) + "\n";
  return __ENV.OUT ? { [__ENV.OUT]: text } : { stdout: text };
}
