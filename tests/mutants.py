#!/usr/bin/env python3
"""Each rule of the product broken on purpose once, from outside, and seen: the tests must object.

    mutants.py BUILD [--jobs N] [--only NAME]...    BUILD: a build folder of Ninja; what is missing there of the test programs is built
    mutants.py --check                              the tables alone: every text is where they say, once

tests/mutants/*.txt have the mutants:

    by: PROGRAM ARGUMENTS       on top: who is to object to those that do not say so themselves
    [name]
    means: what the broken program does instead
    file: common/sync/lpr.cc
    - text that stands in that file exactly once; spaces and line breaks count as one space each
    + text that is there instead; nothing: it goes
    by: PROGRAM ARGUMENTS       one line for each program that has to object

A mutant may have several texts and files. Lines that begin with # are comments.

For each, the files that it changes are compiled from a temporary folder, with the command that the build compiles them
with, and linked in place of the build's own; the checkout and the build stay as they are. Where the build compiles many files
in one piece, that piece is taken apart once: the files that mutants change, and all others together.

An objection is a failed check of the program, or an assertion of what it tests. A crash, a program that does not end, and a
mutant that cannot be compiled are errors; so is a program that objects to what is not broken.
"""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time

SOURCE = pathlib.Path(__file__).resolve().parent.parent
TABLES = SOURCE / "tests" / "mutants"
RUN_SECONDS_MAX = 300  # most are done in one


class Wrong(Exception):
    """What cannot be: a mutant, a table, or a build that is not there."""


# ---- The tables

@dataclasses.dataclass
class Mutant:
    name: str
    place: str  # table:line
    means: str = ""
    edits: list = dataclasses.field(default_factory=list)  # [file, lines that are there, lines instead]
    by: list = dataclasses.field(default_factory=list)     # command lines, as words

    def files(self):
        return {file for file, _, _ in self.edits}


def read_table(path):
    mutants, default, file, before = [], [], None, ""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        place = f"{path.name}:{number}"
        mutant = mutants[-1] if mutants else None
        kind, _, rest = line.partition(":")
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("["):
            mutants.append(Mutant(line.strip("[] "), place))
            file = None
        elif kind == "by":
            (mutant.by if mutant else default).append(shlex.split(rest))
        elif mutant is None:
            raise Wrong(f"{place}: expected by: or [name], got {line}")
        elif kind == "means":
            mutant.means = rest.strip()
        elif kind == "file":
            file = rest.strip()
        elif line[0] in "-+" and file is None:
            raise Wrong(f"{place}: of which file? expected file: before it")
        elif line[0] == "-":
            if before != "-":
                mutant.edits.append((file, [], []))
            mutant.edits[-1][1].append(line[2:])
        elif line[0] == "+" and before in "-+" and mutant.edits:
            mutant.edits[-1][2].append(line[2:])
        else:
            raise Wrong(f"{place}: expected means:, file:, -, + or by:, got {line}")
        before = line[0] if line[0] in "-+" else " "
    for mutant in mutants:
        mutant.by = mutant.by or default
        if not (mutant.means and mutant.edits and mutant.by):
            raise Wrong(f"{mutant.place}: {mutant.name} needs means:, file: with a text, and by:")
    return mutants


def read_tables():
    mutants = [mutant for path in sorted(TABLES.glob("*.txt")) for mutant in read_table(path)]
    for one, other in zip(sorted(mutants, key=lambda m: m.name), sorted(mutants, key=lambda m: m.name)[1:]):
        if one.name == other.name:
            raise Wrong(f"{other.place}: {other.name} is the name of another, at {one.place}")
    return mutants


def mutated(mutant):
    """{file: its text with the mutant in it}."""
    texts = {}
    for file, there, instead in mutant.edits:
        if not file.endswith(".cc"):
            raise Wrong(f"{mutant.place}: {mutant.name}: {file} is no .cc file: others include it")
        text = texts.get(file) or (SOURCE / file).read_text()
        pattern = r"\s+".join(re.escape(word) for word in " ".join(there).split())
        found = list(re.finditer(pattern, text))
        if len(found) != 1:
            raise Wrong(f"{mutant.place}: {mutant.name}: {file} has this {len(found)} times, expected once: {there[0]}")
        texts[file] = text[:found[0].start()] + "\n".join(instead) + text[found[0].end():]
    return texts


def check(mutants):
    """The first thing that is wrong with each mutant, in words."""
    programs = set(re.findall(r"paceline_test\((\w+)", "".join(p.read_text() for p in (SOURCE / "tests/subjects").glob("*.cmake"))))
    wrong = []
    for mutant in mutants:
        try:
            mutated(mutant)
            for words in mutant.by:
                if words[0] not in programs:
                    raise Wrong(f"{mutant.place}: {mutant.name}: there is no test program {words[0]}")
        except (Wrong, OSError) as why:
            wrong.append(str(why))
    return wrong


# ---- Commands, ended with this one

class Commands:
    """Runs commands. end() ends those that still run, each with all that it has started, and lets no other begin."""

    def __init__(self):
        self.lock = threading.Lock()
        self.running = set()
        self.ended = False
        self.environment = {**os.environ, "CCACHE_DISABLE": "1"}  # what is compiled here is compiled once

    def run(self, command, folder, seconds=RUN_SECONDS_MAX):
        """Its exit status (None: it has not ended in time) and what it has written."""
        with self.lock:
            if self.ended:
                raise Wrong("ended")
            process = subprocess.Popen(command, cwd=folder, shell=isinstance(command, str), stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                       env=self.environment, start_new_session=True)
            self.running.add(process)
        try:
            output, _ = process.communicate(timeout=seconds)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            self.kill(process)
            return None, process.communicate()[0]
        finally:
            with self.lock:
                self.running.discard(process)

    @staticmethod
    def kill(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def end(self):
        with self.lock:
            self.ended = True
            for process in self.running:
                self.kill(process)


# ---- The build, as Ninja would do it

class Build:
    """What the programs are made of: how each object is compiled, what is in each archive, how each program is linked."""

    def __init__(self, folder, programs, commands):
        self.folder = folder
        targets = [f"tests/{program}" for program in programs]
        status, output = commands.run(["ninja", *targets], folder, seconds=None)
        if status != 0:
            raise Wrong(f"{folder}: the programs cannot be built:\n{output}")
        _, output = commands.run(["ninja", "-t", "commands", *targets], folder)
        self.compile, self.archives, self.links = {}, {}, {}
        for line in output.splitlines():
            if archive := re.search(r"&& (\S*ar) qcs? (\S+) (.*?) &&", line):
                self.archiver = archive[1]
                self.archives[archive[2]] = archive[3].split()
            elif linked := re.search(r" -o (tests/\w+) ", line):
                self.links[linked[1]] = line
            elif compiled := re.search(r" -o (\S+) -c (\S+)$", line):
                self.compile[compiled[1]] = (line[:compiled.start()], compiled[2])

    def sources(self, piece):
        """The files that the object is compiled from, relative to the checkout: those of a piece of many are included there."""
        source = pathlib.Path(self.compile[piece][1])
        paths = [source]
        if source.parent.name == "Unity":
            paths = [pathlib.Path(p) for p in re.findall(r'#include "(.*)"', source.read_text())]
        return [str(p.relative_to(SOURCE)) if p.is_relative_to(SOURCE) else str(p) for p in paths]

    def objects_of(self, program):
        for word in shlex.split(self.links[f"tests/{program}"]):
            yield from self.archives.get(word, [word] if word in self.compile else [])

    def compile_command(self, piece, source, to):
        flags = re.sub(r" -M[FT] \S+| -MD", "", self.compile[piece][0])
        return f"{flags} -w -o {to} -c {source}"


class Bench:
    """Compiles what mutants change, once each, and links programs with it."""

    def __init__(self, build, mutants, folder, commands):
        self.build, self.folder, self.commands = build, folder, commands
        self.changed = set().union(*(mutant.files() for mutant in mutants))
        self.jobs = {}  # object to make: (command, the mutant's name or "")

    def parts(self, piece, mutant):
        """The objects that stand in for an object of the build: each changed file by itself, and all the others."""
        sources, made = self.build.sources(piece), []
        texts = mutated(mutant)
        for file in [s for s in sources if s in self.changed]:
            name = mutant.name if file in texts else ""
            made.append(self.part(piece, name, file, texts.get(file, f'#include "{SOURCE / file}"\n')))
        if others := [s for s in sources if s not in self.changed]:
            made.append(self.part(piece, "", "others", "".join(f'#include "{SOURCE / s}"\n' for s in others)))
        return made

    def part(self, piece, mutant, file, text):
        base = re.sub(r"\W+", "_", f"{mutant} {file} {piece}")
        to = self.folder / f"{base}.o"
        if to not in self.jobs:
            source = self.folder / f"{base}.cc"
            source.write_text(text)
            self.jobs[to] = (self.build.compile_command(piece, source, to), mutant)
        return str(to)

    def touched(self, program, mutant):
        return [o for o in self.build.objects_of(program) if mutant.files() & set(self.build.sources(o))]

    def plan(self, program, mutant):
        pieces = self.touched(program, mutant)
        if not pieces:
            raise Wrong(f"{mutant.place}: {mutant.name}: {program} has no {', '.join(sorted(mutant.files()))} in it")
        for piece in pieces:
            self.parts(piece, mutant)

    def make(self, to):
        command, mutant = self.jobs[to]
        status, output = self.commands.run(command, self.build.folder)
        if status != 0:
            raise Wrong(f"{mutant or 'not mutated'}: cannot be compiled: {command}\n{output}")

    def link(self, program, mutant, folder):
        """The program with the mutant in it."""
        pieces = self.touched(program, mutant)
        to, words = folder / program, []
        for word in shlex.split(self.build.links[f"tests/{program}"]):
            if word in pieces:
                words += self.parts(word, mutant)
            elif set(self.build.archives.get(word, [])) & set(pieces):
                archive = folder / re.sub(r"\W+", "_", word)
                members = [m for o in self.build.archives[word] for m in (self.parts(o, mutant) if o in pieces else [o])]
                # Whole paths: a thin archive's others are looked for from where it is.
                self.run([self.build.archiver, "qcs", "--thin", str(archive), *(str(self.build.folder / m) for m in members)])
                words.append(str(archive))
            else:
                words.append(str(to) if word == f"tests/{program}" else word)
        self.run([w for w in words if w not in (":", "&&")])
        return to

    def run(self, command):
        status, output = self.commands.run(command, self.build.folder)
        if status != 0:
            raise Wrong(f"cannot be linked: {shlex.join(command)}\n{output}")


# ---- Running

def objection(status, output):
    """What the program objects to; empty: to nothing."""
    if status == 0:
        return ""
    if status is None:
        raise Wrong(f"it has not ended in {RUN_SECONDS_MAX} s")
    lines = [line.strip() for line in output.splitlines()]
    asserted = [line for line in lines if "assertion failed: " in line]
    failed = [i for i, line in enumerate(lines) if line.endswith("FAILED:")]
    if asserted and status == -signal.SIGABRT:
        return asserted[0]
    if failed and status > 0:
        printed = lines[failed[0] + 1:]
        return " ".join(printed[:printed.index("")])
    raise Wrong(f"it has not failed, it has ended with {status}:\n" + "\n".join(lines[-20:]))


def run_program(commands, program, arguments, folder):
    return objection(*commands.run([str(program), "--abort", *arguments], folder))


def run_all(build_folder, mutants, jobs, commands):
    """How many mutants nobody noticed, or are wrong."""
    begin = time.monotonic()
    programs = sorted({words[0] for mutant in mutants for words in mutant.by})
    build = Build(build_folder, programs, commands)

    def report(what, words, work, expected):
        started = time.monotonic()
        try:
            found = work()
            is_bad = bool(found) != expected
            text = found or "no objection"
        except Wrong as why:
            is_bad, text = True, str(why)
        if not commands.ended:
            mark = "BAD " if is_bad else "ok  "
            shown = text if is_bad else text[-160:]  # it begins with the schedule
            print(f"{mark}{what:28} {words[0]:18} {time.monotonic() - started:5.1f} s  {shown}", flush=True)
        return is_bad

    with tempfile.TemporaryDirectory(prefix="paceline_mutants_") as temporary, \
            concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        try:
            folder = pathlib.Path(temporary)
            bench = Bench(build, mutants, folder, commands)
            for mutant in mutants:
                for words in mutant.by:
                    bench.plan(words[0], mutant)
            made = {to: pool.submit(bench.make, to) for to in bench.jobs}

            def of_mutant(mutant, words):
                for piece in bench.touched(words[0], mutant):
                    for part in bench.parts(piece, mutant):
                        made[pathlib.Path(part)].result()
                with tempfile.TemporaryDirectory(dir=folder) as own:
                    program = bench.link(words[0], mutant, pathlib.Path(own))
                    return run_program(commands, program, words[1:], own)

            def as_it_is(words):
                with tempfile.TemporaryDirectory(dir=folder) as own:
                    return run_program(commands, build_folder / "tests" / words[0], words[1:], own)

            commandlines = sorted({tuple(words) for mutant in mutants for words in mutant.by})
            waiting = [pool.submit(report, "(nothing broken)", words, lambda w=words: as_it_is(w), False) for words in commandlines]
            waiting += [pool.submit(report, mutant.name, words, lambda m=mutant, w=words: of_mutant(m, w), True)
                        for mutant in mutants for words in mutant.by]
            bad = sum(each.result() for each in waiting)
        finally:
            commands.end()
            pool.shutdown(cancel_futures=True)
    print(f"{len(mutants)} mutants, {len(bench.jobs)} compilations, {bad} wrong, {time.monotonic() - begin:.0f} s")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("build", nargs="?", type=pathlib.Path, metavar="BUILD")
    parser.add_argument("--check", action="store_true", help="the tables alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N")
    parser.add_argument("--only", action="append", metavar="NAME", help="this mutant; may be said again")
    asked = parser.parse_args()
    if asked.check == bool(asked.build):
        parser.error("expected a build folder, or --check")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what is temporary goes
    try:
        mutants = read_tables()
        if unknown := set(asked.only or []) - {mutant.name for mutant in mutants}:
            raise Wrong(f"--only: there is no mutant {', '.join(sorted(unknown))}")
        if wrong := check(mutants):
            raise Wrong("\n".join(wrong))
        if asked.check:
            return 0
        mutants = [mutant for mutant in mutants if not asked.only or mutant.name in asked.only]
        return 1 if run_all(asked.build.resolve(), mutants, asked.jobs, Commands()) else 0
    except Wrong as why:
        print(why, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
