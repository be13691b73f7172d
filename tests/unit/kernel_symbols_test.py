#!/usr/bin/env python3
"""What the files that are compiled for one instruction set give to the linker: their table, and nothing else.

An inline function of a header would come out of them as a weak symbol, compiled for the wide instruction set; the
linker keeps one of all its copies, and every caller in the program may then run that one, on processors that lack it.

    kernel_symbols_test.py NM LIBRARY FILE=TABLE…
"""
import subprocess
import sys


def main() -> int:
    nm, library, *tables = sys.argv[1:]
    listing = subprocess.run(
        [nm, "--extern-only", "--defined-only", "--demangle", library], check=True, capture_output=True, text=True)
    found, member = {}, ""
    for line in listing.stdout.splitlines():
        if line.endswith(":"):
            member = line[:-1]
            found[member] = []
        elif line:
            found[member].append(line.split(maxsplit=2)[2])
    wrong = 0
    for member, table in (each.split("=") for each in tables):
        if found.get(member) != [table]:
            print(f"{member}: {found.get(member)}, expected [{table!r}]", file=sys.stderr)
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
