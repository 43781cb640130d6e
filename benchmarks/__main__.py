"""Runs the benchmarks and writes results.json beside this file.

python -m benchmarks                 all of them
python -m benchmarks step live       some topics; the other results in the file stay
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.measure import Result, machine

TOPICS = {
    "step": "one joint step at MNIST's size",
    "live": "a live training, and the import",
    "phase_map": "figure 5's map in one call",
    "browser": "a slider in a real browser",
    "frames": "what a frame of each Lab costs",
    "playground": "the pages that train in the browser: first picture, steps, a map, sizes",
    "recorded": "recorded Labs in node: a step beside torch, the first picture, a page's size",
    "link": "a Lab over links of 20, 5 and 2 Mbit/s",
    "specialization": "a step of the cluster room's mixture, ten trials, a live run",
    "pruning": "a step of the pruning room's layer, a live run, a rho, a pruned layer's inference",
    "estimator": "the estimator beside meteorits' example, and beside a loop of scikit-learn's parts",
    "recovery": "20 trials of spectral recovery, ten of joint EM, and the memory of a third moment at d=200",
    "hub": "experts of a checkpoint of 300 MB pruned on disk, its memory and its time",
    "vision": "WRN-pMoE with kept patches alone, and three models side by side",
    "vmoe": "the tiny V-MoE's pre-training, an evaluation, the table of prunings; V-MoE B/16 pruned",
    "gpu": "figure 5's map at d=784 and the mixture's step on a GPU",
}
FILE = Path(__file__).with_name("results.json")


def asked(arguments: list[str]) -> list[str]:
    """Reads the topics from the command's arguments; `--help` lists all."""
    listed = "\n".join(f"  {topic:<16}{words}" for topic, words in TOPICS.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Runs the benchmarks and writes results.json beside them.",
        epilog=f"topics:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help="what to measure; all if not given")
    return list(parser.parse_args(arguments).topics)


def main(topics: list[str]) -> int:
    """Measures the topics, each in a process of its own, so that neither memory nor caches carry over.

    Returns:
      1 where a target is missed or a topic fails, else 0.
    """
    topics = asked(topics)
    unknown = set(topics) - set(TOPICS)
    if unknown:
        raise SystemExit(f"a topic must be one of {', '.join(TOPICS)}: got {', '.join(sorted(unknown))}")
    known: dict[str, Any] = json.loads(FILE.read_text()) if topics and FILE.exists() else {}
    missed = 0
    for topic in topics or TOPICS:
        print(f"{topic}: {TOPICS[topic]}", flush=True)
        child = [sys.executable, "-m", "benchmarks", "--measure", topic]
        done = subprocess.run(child, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            print(f"  failed with status {done.returncode}; see the message above", flush=True)
            missed += 1
            continue
        measured = json.loads(done.stdout.splitlines()[-1])
        known.update(measured)
        FILE.write_text(json.dumps(known, indent=2) + "\n")
        for name, figure in measured.items():
            missed += figure["holds"] is False
            print(f"  {sentence(name, figure)}", flush=True)
    return int(missed > 0)


def measure(topic: str) -> None:
    """Measures one topic in this process; the last line printed is its part of results.json."""
    from benchmarks.measure import one_thread

    one_thread()
    results: list[Result] = importlib.import_module(f"benchmarks.{topic}").run()
    at = machine()
    command = f"python -m benchmarks {topic}"
    print(json.dumps({result.name: {**result.record(command), "machine": at} for result in results}))


def sentence(name: str, figure: dict[str, Any]) -> str:
    """One figure in words."""
    if figure["value"] is None:
        return f"{name}: not measured ({figure['note']})"
    target = f", target {figure['best']} {figure['target']:g}" if figure["target"] is not None else ""
    target += f" (has held on {figure['held']})" if figure["held"] else ""
    verdict = {True: " - holds", False: " - MISSED", None: ""}[figure["holds"]]
    note = f" ({figure['note']})" if figure["note"] else ""
    return f"{name}: {figure['value']:.3g} {figure['unit']}{target}{verdict}{note}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2])
    else:
        sys.exit(main(sys.argv[1:]))
