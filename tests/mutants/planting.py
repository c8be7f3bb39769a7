"""Plants errors in copies of the sources and runs suites on them, for `run` and `draw`."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TIMEOUT = 120  # seconds for one test; an error that makes a test hang is caught
# Seconds for all tests, and for some suites. Criterion does not stop every test that hangs.
LONGEST, LONGEST_SUITES = 900, 300
RANKS_LONGEST = 60  # seconds for ranks that wait for each other; the tests of three ranks take 15
RANKS = "forked_ranks"
# Suites that are programs. {} is the build folder.
PROGRAMS = {
    RANKS: ["tests/distributed/run", "{}", "forked", "1", "2", "3"],
    "failing_allocations": ["tests/ctypes/failing_allocations.py", "{}/libbrasa.so", "{}/libbrasa_counted.so"],
    "named_arguments": ["tests/ctypes/named_arguments.py", "{}/libbrasa.so"],
    "bad_calls": ["tests/ctypes/bad_calls.py", "{}/libbrasa.so"],
    "ended_handles": ["tests/ctypes/ended_handles.py", "{}/libbrasa.so"],
    "option_values": ["tests/ctypes/option_values.py", "check", "{}/libbrasa.so"],
    "command_line": ["docs/make_command_line.py", "--check", "{}/brasa"],
    "option_defaults": ["tests/ctypes/options.py", "check", "{}/libbrasa.so"],
}
# -fexpensive-optimizations clears the upper halves of vector registers, which a test checks.
FLAGS = ["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS=-O1 -fexpensive-optimizations"]
BUILDS = {
    "plain": FLAGS,
    "asan": [*FLAGS, "-DBRASA_SANITIZE=address,undefined"],
}


class Bad(Exception):
    """A planted error that cannot be planted, or does not compile."""


class Mutant:
    """One paragraph of a table."""

    def __init__(self, place, lines):
        self.place = place
        self.path, *self.suites = lines[0].split()
        parts = {"-": [], "+": [], "!": [], " ": []}
        for line in lines[1:]:
            if line[0] not in parts:
                raise Bad(f"{place}: a line begins with {line[0]!r}")
            parts[line[0]].append(line[1:].strip())
        self.what = " ".join(parts[" "])
        self.reason = " ".join(parts["!"])
        self.old, self.new = " ".join(parts["-"]), " ".join(parts["+"])
        if not self.what or not self.old or (not self.suites and not self.reason):
            raise Bad(f"{place}: needs suites, a description and a line that begins with '-'")

    def planted(self, source):
        """Returns the source with the error."""
        pattern = r"\s+".join(re.escape(word) for word in self.old.split())
        found = list(re.finditer(pattern, source))
        if len(found) != 1:
            raise Bad(f"{self.place}: {self.path} has the text {len(found)} times: {self.old}")
        return source[:found[0].start()] + self.new + source[found[0].end():]

    def runs(self, everything):
        """Returns the pairs of a build and suites that should catch the error; with `everything` also all tests."""
        plain = [suite for suite in self.suites if ":" not in suite and suite not in PROGRAMS]
        runs = [("plain", "|".join(plain))] if plain else []
        runs += [tuple(suite.split(":", 1)) for suite in self.suites if ":" in suite]
        runs += [("plain", suite) for suite in self.suites if suite in PROGRAMS]
        return runs + ([("plain", "*"), ("asan", "*"), ("plain", RANKS)] if everything else [])

    def __str__(self):
        return f"{self.path}: {self.what} ({self.place})"


class Worker:
    """A copy of the sources with builds, in a folder of its own."""

    def __init__(self, folder, jobs):
        self.folder, self.source, self.jobs, self.configured = folder, folder / "source", jobs, set()

    def call(self, *command, seconds=None, **environment):
        """Runs a command and returns whether it succeeded. Its output is in self.output. After `seconds` it is
        killed with all processes that it started, and has failed."""
        env = dict(os.environ, **environment)
        process = subprocess.Popen([str(word) for word in command], cwd=self.source, env=env, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
                                   start_new_session=True)
        try:
            self.output = process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            self.output = process.communicate()[0]
        return process.returncode == 0

    def update_sources(self):
        """Copies the files that git knows or does not ignore, and removes others. Unchanged files keep their times."""
        self.source.mkdir(parents=True, exist_ok=True)
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                                check=True, capture_output=True, text=True).stdout
        wanted = set(filter(None, listed.split("\0")))
        for found in self.source.rglob("*"):
            if found.is_file() and str(found.relative_to(self.source)) not in wanted:
                found.unlink()
        for name in wanted:
            old, new = ROOT / name, self.source / name
            if not old.is_file():
                new.unlink(missing_ok=True)
            elif not new.exists() or new.read_bytes() != old.read_bytes():
                new.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(old, new)

    def configure(self, kind):
        """Writes the files of the build, once. Returns whether that succeeded."""
        options = ["-DBRASA_TESTS=ON", "-DBRASA_EXAMPLES=OFF", *BUILDS[kind]]
        if kind not in self.configured and self.call("cmake", "-G", "Ninja", "-S", self.source, "-B",
                                                     self.folder / kind, *options):
            self.configured.add(kind)
        return kind in self.configured

    def build(self, kind):
        """Builds the tests and the command. Returns whether that succeeded."""
        return self.configure(kind) and self.call("ninja", "-C", self.folder / kind, "-j", self.jobs, "brasa",
                                                  "brasa_tests", "brasa_cli", "brasa_distributed")

    def tests_pass(self, kind, suite):
        if suite in PROGRAMS:
            return self.call(*[word.format(self.folder / kind) for word in PROGRAMS[suite]], seconds=LONGEST,
                             BRASA_RANKS_SECONDS=str(RANKS_LONGEST))
        filters = f"--filter=@({suite})/*"
        return self.call(self.folder / kind / "brasa_tests", "--fail-fast", "-j", self.jobs,
                         "--timeout", TIMEOUT, filters,
                         seconds=LONGEST_SUITES if kind == "plain" and suite != "*" else LONGEST,
                         ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=1")

    def prepare(self, runs):
        """Builds the sources without errors. All suites must pass."""
        self.update_sources()
        for kind in sorted({kind for kind, _ in runs}, reverse=True):
            if not self.build(kind):
                raise Bad(f"the sources do not build:\n{self.output[-3000:]}")
        for kind, suite in sorted(runs):
            if not self.tests_pass(kind, suite):
                raise Bad(f"{suite} fails in the {kind} build without a planted error:\n{self.output[-3000:]}")

    def first_failure(self, runs):
        """Returns the name of a test that fails in the first run (kind, suites) that has one, or None."""
        for kind, suites in runs:
            if not self.build(kind):
                raise Bad(f"does not build:\n{self.output[-1500:]}")
            if not self.tests_pass(kind, suites):
                test = re.search(r"\[FAIL\] (\w+::\w+)", self.output)
                test = test[1] if test else suites
                return test if kind == "plain" else f"{kind}:{test}"
        return None

    def try_mutant(self, mutant, runs):
        path = self.source / mutant.path
        right = path.read_text()
        path.write_text(mutant.planted(right))
        try:
            return self.first_failure(runs)
        finally:
            path.write_text(right)


class Campaign:
    """Distributes the mutants among workers."""

    def __init__(self, mutants, everything):
        self.waiting, self.everything, self.lock = list(mutants), everything, threading.Lock()
        self.results, self.failure = [], None
        self.all_runs = {(kind, name) for m in mutants for kind, names in m.runs(everything)
                         for name in names.split("|")}

    def next(self):
        with self.lock:
            return self.waiting.pop(0) if self.waiting and not self.failure else None

    def report(self, mutant, caught, note, seconds):
        wrong = bool(mutant.reason) == bool(caught)
        state = f"caught by {caught}" if caught else "SURVIVES" if wrong else "survives"
        if mutant.reason and caught:
            state += ", although the table says that no test can"
        with self.lock:
            self.results.append((mutant, bool(caught), wrong))
            print(f"{len(self.results):4} {seconds:5.1f} s  {mutant}: {state}{note}", flush=True)

    def work(self, worker):
        try:
            worker.prepare(self.all_runs)
            while mutant := self.next():
                began = time.monotonic()
                try:
                    caught, note = worker.try_mutant(mutant, mutant.runs(self.everything)), ""
                except Bad as error:
                    caught, note = None, f": {error}"
                self.report(mutant, caught, note, time.monotonic() - began)
        except Exception as error:  # shown by the main thread
            self.failure = error


def table_of(results):
    """Returns a line for each folder: caught of planted."""
    counts = {}
    for mutant, caught, _ in results:
        if not mutant.reason:
            count = counts.setdefault(mutant.path.split("/")[0], [0, 0])
            count[0] += caught
            count[1] += 1
    total = [sum(c[i] for c in counts.values()) for i in (0, 1)]
    return [f"{name:12} {c[0]:4} of {c[1]}" for name, c in sorted(counts.items()) + [("all", total)]]


def suites_in(folder):
    """Returns the suites of the test files in a folder and its subfolders."""
    pattern = r"^(?:Test|ParameterizedTest|TheoryDataPoints)\(.*?(\w+), \w+"
    return {suite for path in folder.rglob("*.c") for suite in re.findall(pattern, path.read_text(), re.M)}


def add_campaign_options(parser):
    """Adds the options that run_campaign() reads."""
    parser.add_argument("--all", action="store_true", help="try survivors with all tests")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="workers (default: one for each processor)")
    parser.add_argument("--keep", metavar="FOLDER", help="keep the copies and their builds here")


def run_campaign(mutants, args):
    """Tries all errors and prints a table. Returns tuples: a mutant, whether it was caught, whether that is wrong."""
    jobs = max(1, min(args.jobs, len(mutants)))
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(args.keep or temporary).resolve()
        campaign = Campaign(mutants, args.all)
        workers = [Worker(folder / str(i), max(1, os.cpu_count() // jobs)) for i in range(jobs)]
        threads = [threading.Thread(target=campaign.work, args=(worker,)) for worker in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if campaign.failure:
        sys.exit(str(campaign.failure))
    print("\n".join(table_of(campaign.results)))
    return campaign.results
