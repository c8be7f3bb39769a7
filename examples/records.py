#!/usr/bin/env python3
"""A task for `brasa finetune`: sentences about people, and the record that a model must write for each.

    records.py make N                     prints N examples, one per line, as JSON with "prompt" and "completion"
    records.py check MODEL [ADAPTER]      counts for how many of 40 other sentences the model writes the right record

The sentences of `check` have names and cities that no example has. docs/tutorial_fine_tuning.md uses this program. It
calls the command `brasa`, or the one that $BRASA names.
"""
import json
import os
import random
import subprocess
import sys

NAMES = ["Anna", "Ben", "Carla", "David", "Eva", "Felix", "Greta", "Hugo", "Ida", "Jonas", "Klara", "Leo"]
CITIES = ["Berlin", "Paris", "Rome", "Madrid", "Vienna", "Oslo", "Lisbon", "Prague", "Dublin", "Athens"]
OTHER_NAMES = ["Maria", "Nils", "Olivia", "Peter", "Rosa", "Simon", "Tina", "Victor"]
OTHER_CITIES = ["London", "Warsaw", "Helsinki", "Zurich", "Budapest", "Tokyo"]
JOBS = ["teacher", "baker", "nurse", "pilot", "painter", "farmer", "lawyer", "chef"]
SENTENCES = ["{name} is a {job} from {city} and is {age} years old.", "The {job} {name}, who is {age}, lives in {city}.",
             "In {city} there is a {job} of {age} years called {name}.", "My friend {name} ({age}) works as a {job} in {city}."]
CHECKED = 40


def example(rng, names, cities):
    """Returns a sentence and its record."""
    values = {"name": rng.choice(names), "age": rng.randint(20, 70), "job": rng.choice(JOBS), "city": rng.choice(cities)}
    return rng.choice(SENTENCES).format(**values), ";".join(f"{key}={value}" for key, value in values.items())


def generate(options, prompt):
    """Returns the first line that the model writes after the prompt."""
    brasa = os.environ.get("BRASA", "brasa")
    run = subprocess.run([brasa, "generate", *options, "--max-new-tokens", "32", "--stop", "\n", prompt + "\n"],
                         stdout=subprocess.PIPE, text=True, check=True)
    return run.stdout[len(prompt) + 1:].split("\n")[0]


def check(options):
    rng = random.Random(1)
    right = 0
    for i in range(CHECKED):
        prompt, record = example(rng, OTHER_NAMES, OTHER_CITIES)
        written = generate(options, prompt)
        right += written == record
        if i < 2:
            print(f"{prompt}\n  right: {record}\n  model: {written}")
    print(f"{right} of {CHECKED} records are right")


def main():
    if sys.argv[1:2] == ["make"] and len(sys.argv) == 3:
        rng = random.Random(0)
        for _ in range(int(sys.argv[2])):
            prompt, record = example(rng, NAMES, CITIES)
            print(json.dumps({"prompt": prompt + "\n", "completion": record}))
    elif sys.argv[1:2] == ["check"] and len(sys.argv) in (3, 4):
        check(["--model", sys.argv[2]] + (["--adapter", sys.argv[3]] if len(sys.argv) == 4 else []))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
