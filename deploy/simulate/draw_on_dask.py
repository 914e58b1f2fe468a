"""A draw of worlds, or the sweep of a scenario, on a Dask cluster, with the result of a run on one machine.

    python draw_on_dask.py --scheduler tcp://HOST:8786 --units 64 --out results -- \
        tournament --draw 1000 --seed 1 --policies none,finagle,retryguard

Each unit is one task. A worker runs `retryguard simulate … --unit K` and sends the file back, so the machines need the command
(`--retryguard PATH`, the same version everywhere), of a sweep its file, and no shared folder. A unit whose worker dies is run again by another one. A unit
that is in the folder already is not run again, so a driver that was stopped goes on where it was.
`retryguard simulate merge results` joins them afterwards.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile


def unit(command, number):
    """Runs one unit on a worker; the name and the bytes of its file."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [*command, "--unit", str(number), "--out", folder], capture_output=True, text=True
        )
        if done.returncode != 0:
            raise RuntimeError(f"unit {number}: {done.stderr.strip()}")
        (path,) = pathlib.Path(folder).glob("unit-*.json")
        return path.name, path.read_bytes()


def main():
    parser = argparse.ArgumentParser(description="Runs a draw of `retryguard simulate` on a Dask cluster.")
    parser.add_argument("--scheduler", required=True, help="the address of the scheduler")
    parser.add_argument("--units", type=int, required=True, help="how many units of work")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the folder of the results")
    parser.add_argument("--retryguard", default="retryguard", help="the command on the workers")
    parser.add_argument("arguments", nargs="+", help="after --: tournament --draw N …")
    chosen = parser.parse_args()
    from dask.distributed import Client, as_completed

    command = [chosen.retryguard, "simulate", *chosen.arguments, "--units", str(chosen.units)]
    chosen.out.mkdir(parents=True, exist_ok=True)
    names = [f"unit-{number:05}-of-{chosen.units:05}.json" for number in range(chosen.units)]
    left = [number for number, name in enumerate(names) if not (chosen.out / name).exists()]
    with Client(chosen.scheduler) as client:
        tasks = [client.submit(unit, command, number, pure=False, retries=3) for number in left]
        for task in as_completed(tasks):
            name, content = task.result()
            part = chosen.out / f"{name}.part"
            part.write_bytes(content)
            part.rename(chosen.out / name)
            print(name, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
