"""Clients that protect themselves, in SimPy: a process for each client, with a guard, a budget and a breaker of its own.

CLIENTS clients make 15 calls a second in all, of up to four attempts each, to a service with 10 workers, 49 places in its queue and a
mean service time of 100 ms, which fails at one request in ten. Prints the events a second, the attempts of a call and the share of
calls that failed.
"""

import random
from collections import deque

import simpy
from frame import Counter, argument, speed

CLIENTS = argument(2, 1000)
SECONDS = argument(1, 3e5) / 15 / 2.2


class Budget:
    """Retries are at most a fifth of the calls of the last ten seconds; one more is allowed every ten seconds."""

    def __init__(self):
        self.calls, self.retries, self.reserve = deque(), deque(), -10.0

    def on_call(self, now):
        self.calls.append(now)

    def withdraw(self, now):
        for times in (self.calls, self.retries):
            while times and times[0] <= now - 10:
                times.popleft()
        if len(self.retries) + 1 <= 0.2 * len(self.calls):
            self.retries.append(now)
            return True
        if now - self.reserve >= 10:
            self.reserve = now
            return True
        return False


class Breaker:
    """Opens for five seconds once four fifths of at least 20 attempts of the last ten seconds have failed; then one probe."""

    def __init__(self):
        self.ends, self.failures, self.opened, self.probing = deque(), 0, None, False

    def allows(self, now):
        if self.opened is None:
            return True
        if now - self.opened < 5 or self.probing:
            return False
        self.probing = True
        return True

    def on_end(self, failed, now):
        if self.opened is not None:
            self.probing = False
            self.opened = now if failed else None
            return
        self.ends.append((now, failed))
        self.failures += failed
        while self.ends[0][0] <= now - 10:
            self.failures -= self.ends.popleft()[1]
        if len(self.ends) >= 20 and self.failures >= 0.8 * len(self.ends):
            self.opened = now
            self.ends.clear()
            self.failures = 0


class Guard:
    """Algorithm 1: retries are off after five seconds in a row with more than a fifth rejected, on after five with fewer."""

    def __init__(self):
        self.second, self.ended, self.rejected = 0, 0, 0
        self.low, self.high, self.on = 0, 0, True

    def on_end(self, rejected, now):
        if int(now) != self.second:
            self.sample()
            self.second = int(now)
        self.ended += 1
        self.rejected += rejected

    def sample(self):
        if self.ended:
            share = self.rejected / self.ended
            self.low = self.low + 1 if share < 0.2 else 0
            self.high = self.high + 1 if share > 0.2 else 0
            if self.low >= 5:
                self.on = True
            elif self.high >= 5:
                self.on = False
        self.ended = self.rejected = 0


def run():
    env, chance, state = simpy.Environment(), random.Random(1), Counter()
    server = simpy.Resource(env, capacity=10)

    def attempt():
        """Whether it failed, and whether it was rejected."""
        state.handled += 1
        state.attempts += 1
        if state.inside >= 59:
            return True, True
        state.inside += 1
        with server.request() as turn:
            yield turn
            yield env.timeout(chance.expovariate(10.0))
        state.inside -= 1
        state.handled += 1
        return chance.random() < 0.1, False

    def client():
        budget, breaker, guard = Budget(), Breaker(), Guard()
        # A client is met in the middle of its first pause.
        met = chance.random()
        while True:
            yield env.timeout(met * chance.expovariate(15.0 / CLIENTS))
            met = 1.0
            budget.on_call(env.now)
            state.calls += 1
            failed = True
            for number in range(4):
                if not breaker.allows(env.now):
                    break
                failed, rejected = yield from attempt()
                breaker.on_end(failed, env.now)
                guard.on_end(rejected, env.now)
                if not failed or number == 3 or not guard.on or not budget.withdraw(env.now):
                    break
                yield env.timeout(chance.random() * (1 << number))
            state.failed += failed

    for _ in range(CLIENTS):
        env.process(client())
    rate = speed(env, state, SECONDS)
    print(f"simpy-guarded {rate:.0f} {state.attempts / state.calls:.5f} {state.failed / state.calls:.5f}")


run()
