"""The queue of the benchmark in SimPy: a process for each request, and bare callbacks."""

import random

import simpy
from frame import Counter, argument, speed

SECONDS = argument(1, 3e5) / 1.5 / 3.4


def with_processes():
    env, chance, state = simpy.Environment(), random.Random(1), Counter()
    server = simpy.Resource(env, capacity=1)

    def request():
        for attempt in range(4):
            state.handled += 1
            if state.inside < 50:
                state.inside += 1
                with server.request() as turn:
                    yield turn
                    yield env.timeout(chance.expovariate(1.0))
                state.inside -= 1
                state.handled += 1
                return
            if attempt < 3:
                yield env.timeout(chance.random() * (1 << attempt))

    def arrivals():
        while True:
            env.process(request())
            yield env.timeout(chance.expovariate(1.5))

    env.process(arrivals())
    return speed(env, state, SECONDS)


def with_callbacks():
    env, chance, state = simpy.Environment(), random.Random(1), Counter()

    def after(delay, then):
        event = env.timeout(delay)
        event.callbacks.append(then)

    def arrive(attempt):
        state.handled += 1
        if attempt == 0:
            after(chance.expovariate(1.5), lambda _: arrive(0))
        if state.inside < 50:
            state.inside += 1
            if state.inside == 1:
                after(chance.expovariate(1.0), depart)
        elif attempt < 3:
            after(chance.random() * (1 << attempt), lambda _: arrive(attempt + 1))

    def depart(_):
        state.handled += 1
        state.inside -= 1
        if state.inside > 0:
            after(chance.expovariate(1.0), depart)

    arrive(0)
    return speed(env, state, SECONDS)


print(f"simpy-process {with_processes():.0f}")
print(f"simpy-callbacks {with_callbacks():.0f}")
