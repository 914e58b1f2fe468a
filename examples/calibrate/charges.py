#!/usr/bin/env python3
"""Sends charges to the laboratory's payments at fixed rates, whatever the answers: an open load.

    charges.py ADDRESS SECONDS RATE...      charges.py 127.0.0.1:8510 50 20 45 75

Prints, for each rate, the share of the charges that were made. Needs nothing but Python 3.
"""
import http.client
import sys
import threading
import time
import uuid


def charge(address, order, made):
    body = '{"order":"%s","amount":100}' % order
    connection = http.client.HTTPConnection(address, timeout=30)
    try:
        connection.request("POST", "/charges", body, {"content-type": "application/json"})
        if connection.getresponse().status == 201:
            made.append(order)
    except (OSError, http.client.HTTPException):
        pass  # Not made, and counted as such.
    finally:
        connection.close()


def load(address, rate, seconds):
    run, made, threads, began = uuid.uuid4().hex, [], [], time.monotonic()
    sent = int(rate * seconds)
    for number in range(sent):
        time.sleep(max(0, began + number / rate - time.monotonic()))
        thread = threading.Thread(target=charge, args=(address, f"{run}-{number}", made))
        thread.start()
        threads.append(thread)
    for thread in threads:
        thread.join()
    return len(made) / sent


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    address, seconds = sys.argv[1], float(sys.argv[2])
    for rate in map(float, sys.argv[3:]):
        print(f"{rate:g} a second: {load(address, rate, seconds):.3f} made", flush=True)


main()
