"""Asks Storm. Reads one JSON job a line: {"model": path, "constants": "A=1,B=2", "properties": [text]}; "drn" for a
model in the direct encoding, "exact" for rational arithmetic, "default" for Storm's own choice of precision, "sound" for that precision with proven bounds, "limit" for the seconds of
processor time after which the process ends. A filter is made here of Storm's values in every state.
Writes one JSON answer a line: {"values": [number or text], "states": n, "seconds": s of processor time, "peak": kilobytes} or {"error": text}."""

import json
import math
import re
import resource
import sys
import time

import stormpy
from stormpy import environments


FILTER = re.compile(r"filter\((\w+), (.*), ([^,]*)\)$")
MADE = {
    "min": min,
    "max": max,
    "sum": sum,
    "avg": lambda values: sum(values) / len(values),
    "state": lambda values: values[0] if len(values) == 1 else None,
}


def flat(texts):
    """Every question, and after that of a filter its states."""
    found = [FILTER.match(text) for text in texts]
    return [part for text, made in zip(texts, found) for part in (made.groups()[1:] if made else [text])]


def filtered(model, kind, question, states, chosen):
    result = stormpy.model_checking(model, question, environment=chosen)
    truths = stormpy.model_checking(model, states).get_truth_values_vector()
    return MADE[kind]([float(result.get_value(state)) for state in range(model.nr_states) if truths[state]])


def environment(job):
    if job.get("exact"):
        return environments.exact()
    chosen = environments.sound()
    if job.get("sound"):
        return chosen
    chosen.solver().native().precision = stormpy.Rational("1/1000000000")
    return chosen


def load(job):
    if job.get("drn"):
        properties = [stormpy.parse_property(text) for text in flat(job["properties"])]
        return stormpy.build_model_from_drn(job["model"]), properties
    program = stormpy.parse_prism_program(job["model"], prism_compatibility=True)
    properties = [stormpy.parse_property(text, program) for text in flat(job["properties"])]
    program, properties = stormpy.instantiate_constants(program, job.get("constants", ""), properties)
    if job.get("exact"):
        return stormpy.build_model[stormpy.Rational](program, properties), properties
    return stormpy.build_model(program, properties), properties


def answer(job):
    if job.get("limit"):
        resource.setrlimit(resource.RLIMIT_CPU, (job["limit"], job["limit"] + 10))
    start = time.process_time()
    model, properties = load(job)
    chosen = None if job.get("default") else environment(job)
    values = []
    left = iter(properties)
    for text in job["properties"]:
        asked = next(left)
        made = FILTER.match(text)
        if made:
            values.append(filtered(model, made.group(1), asked, next(left), chosen))
            continue
        result = stormpy.model_checking(model, asked, environment=chosen)
        start_state = model.initial_states[0]
        if hasattr(result, "get_value"):
            value = float(result.get_value(start_state))
        else:
            value = bool(result.get_truth_values_vector()[start_state])
        values.append("Infinity" if isinstance(value, float) and math.isinf(value) else value)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"values": values, "states": model.nr_states, "seconds": seconds, "peak": peak}


for line in sys.stdin:
    try:
        result = answer(json.loads(line))
    except Exception as error:  # the test reports it with its job
        result = {"error": f"{type(error).__name__}: {error}"}
    print("ANSWER " + json.dumps(result), flush=True)
