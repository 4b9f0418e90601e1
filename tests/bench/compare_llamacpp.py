#!/usr/bin/env python3
"""Octavo's CPU engine against llama.cpp on the same model, alternating, and the ratio for each state of the cores.

usage: compare_llamacpp.py --engine BUILD/bin/octavo-engine --peers DIR --scratch DIR [--cells prefill:512,decode:512,...]

--peers is a folder with bench_llamacpp.py (drives llama.cpp through its C interface) and to_gguf.py (converts a checkpoint).
The peer's prebuilt libraries come from npm and go, like the converted model, into --scratch. Needs numpy and npm; no part of the
build. A cell is prefill:CONTEXT, decode:CONTEXT or decode8:CONTEXT. The peer runs with the settings that suit it best in each
cell, and its better one counts. Lines are compared only where both were measured in the same state ("near" or "far": how long a
cache line takes from one core to the other).
"""
import argparse
import collections
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

PACKAGES = ["node-llama-cpp@3.22.1", "@node-llama-cpp/linux-x64@3.22.1"]
DEFAULT_CELLS = "prefill:512,prefill:4096,decode:512,decode:4096,decode8:512"


def run(command, under):
    done = subprocess.run(under + [str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def install_peer(scratch, peers, model):
    libraries = scratch / "node_modules/@node-llama-cpp/linux-x64/bins/linux-x64"
    if not libraries.is_dir():
        subprocess.run(["npm", "i", "--ignore-scripts", "--prefix", scratch, *PACKAGES], check=True)
    converted = scratch / "q4_0.gguf"
    if not converted.is_file():
        subprocess.run([sys.executable, peers / "to_gguf.py", model, converted, "q4_0"], check=True)
    return libraries, converted


def ours(options, kind, context):
    command = [options.engine, "bench", "prefill" if kind == "prefill" else "decode", "--device", "cpu", "--model", options.model,
               "--context", context, "--agents", 8 if kind == "decode8" else 1, "--threads", options.threads, "--seconds", 2, "--json"]
    line = run(command, options.under)[-1]
    return line["state"], line["tokens_per_s"]


def theirs(options, libraries, converted, kind, context):
    """The peer's settings worth trying in this cell; one (state, tokens/s) for each."""
    command = {"prefill": "pp", "decode": "tg", "decode8": "par"}[kind]
    # It reads the last three prompts one after another, and would silently measure a shorter context.
    held = sum(len(prompt["prompt_ids"]) for prompt in json.loads(options.prompts.read_text())[-3:])
    if held < context:
        sys.exit(f"{options.prompts}: its last three prompts hold {held} tokens, a cell of {context} needs that many; "
                 "name another file with --prompts")
    attention = ["1"] if kind == "prefill" else ["1", "0"] if context >= 4096 else ["1"]
    caches = ["f16"] if kind == "prefill" or context >= 4096 else ["f16", "q8_0"]
    for flash in attention:
        for cache in caches if flash == "1" else ["f16"]:
            with tempfile.TemporaryDirectory() as folder:
                line = run([sys.executable, options.peers / "bench_llamacpp.py", libraries, converted, command, "--ctx", context,
                            "--runs", 3 if context <= 4096 and kind != "decode8" else 1, "--threads", options.threads, "--fa", flash,
                            "--kv", cache, "--prompts", options.prompts, "--log", folder + "/log"], options.under)[-1]
            yield line["state"], line["tok_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--engine", type=pathlib.Path, required=True)
    parser.add_argument("--peers", type=pathlib.Path, required=True)
    parser.add_argument("--scratch", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, default=root / "resources/demo-model")
    parser.add_argument("--prompts", type=pathlib.Path, default=root / "tests/data/goldens/prompts.json")
    parser.add_argument("--cells", default=DEFAULT_CELLS)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--under", type=str.split, default=[], help="command that each measurement runs under")
    options = parser.parse_args()
    options.scratch.mkdir(parents=True, exist_ok=True)
    libraries, converted = install_peer(options.scratch, options.peers, options.model)

    for cell in options.cells.split(","):
        kind, context = cell.split(":")
        seen = collections.defaultdict(lambda: {"octavo": [], "llama.cpp": []})
        for _ in range(options.rounds):
            state, speed = ours(options, kind, int(context))
            seen[state]["octavo"].append(speed)
            for state, speed in theirs(options, libraries, converted, kind, int(context)):
                seen[state]["llama.cpp"].append(speed)
        for state, speeds in sorted(seen.items()):
            both = speeds["octavo"] and speeds["llama.cpp"]
            ratio = statistics.median(speeds["octavo"]) / max(speeds["llama.cpp"]) if both else None
            print(json.dumps({"cell": cell, "state": state, "ratio": ratio and round(ratio, 2),
                              **{name: [round(s, 1) for s in values] for name, values in speeds.items()}}), flush=True)


if __name__ == "__main__":
    main()
