"""What the programs in SimPy share: their arguments, what they count, and the clock that measures them."""

import sys
import time


def argument(number, default):
    """The argument of the program with this number, of the default's type."""
    return type(default)(sys.argv[number]) if len(sys.argv) > number else default


class Counter:
    handled = 0
    inside = 0
    calls = 0
    attempts = 0
    failed = 0


def speed(env, counter, seconds):
    """Runs the world for so many simulated seconds. Returns the handled events for each second of processor time."""
    began = time.process_time()
    env.run(until=seconds)
    return counter.handled / (time.process_time() - began)
