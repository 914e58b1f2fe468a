"""Follows one service of a RetryGuard policy server. Python 3.9 or newer, nothing to install."""

import json
import threading
import time
import urllib.error
import urllib.request


class PolicyClient:
    """Polls `GET {server}/policies/{policy}?service={service}` and keeps the last answer.

    `current()` never blocks. It has `maxRetries`, `initialDelayMs`, `maxDelayMs`, `attemptTimeoutMs` and `deadlineMs`.
    Until the first answer it is `fallback`. A decision of the controller lapses when the server has not confirmed it for
    as long as the server said; then the policy without decisions holds again. `error` says why the last question had no
    answer; it is None where it had one.
    """

    def __init__(self, server, policy, service, fallback, token=None):
        self._url = f"{server}/policies/{policy}?service={service}"
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._current = self._original = fallback
        self._etag = None
        self._lapses = None
        self.error = None
        self._stop = threading.Event()

    def current(self):
        if self._lapses is not None and time.monotonic() > self._lapses:
            return self._original
        return self._current

    def poll(self, wait=0):
        """Asks once, for at most `wait` seconds, and returns the seconds until the next question."""
        headers = dict(self._headers)
        if self._etag:
            headers["if-none-match"] = self._etag
        request = urllib.request.Request(f"{self._url}&wait={wait}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=wait + 5) as answer:
                self._take(answer.headers, json.load(answer))
                self.error = None
                return float(answer.headers.get("x-retryguard-poll-after", 30))
        except urllib.error.HTTPError as error:
            if error.code == 304:
                self._take(error.headers, self._current)
                self.error = None
                return float(error.headers.get("x-retryguard-poll-after", 30))
            self.error = f"the policy server answered {error.code} {error.reason}"
            return 30.0
        except OSError as error:
            self.error = f"the policy server cannot be reached: {error}"
            return 30.0

    def _take(self, headers, policy):
        self._etag = headers.get("etag")
        self._current = policy
        lapse = headers.get("x-retryguard-lapse-after")
        if lapse is None:
            self._lapses, self._original = None, policy
            return
        self._lapses = time.monotonic() + float(lapse)
        try:
            request = urllib.request.Request(f"{self._url}&original", headers=self._headers)
            with urllib.request.urlopen(request, timeout=5) as answer:
                self._original = json.load(answer)
        except OSError:
            pass

    def follow(self):
        """Polls in the background until `close`."""
        def run():
            while not self._stop.is_set():
                self._stop.wait(self.poll(wait=30))
        threading.Thread(target=run, daemon=True).start()
        return self

    def close(self):
        self._stop.set()


if __name__ == "__main__":
    import sys

    if len(sys.argv) != 4:
        sys.exit("usage: retryguard_policy.py SERVER POLICY SERVICE")
    client = PolicyClient(*sys.argv[1:], fallback={"maxRetries": 0})
    client.poll()
    if client.error:
        sys.exit(client.error)
    print("maxRetries", client.current()["maxRetries"])
