"""Tests in namespaces of their own, which end with them. Where those are not permitted they are skipped, with the reason."""

import os
import subprocess
import sys
import unittest

import harness

INSIDE = "--inside"  # this process has them
_why_not = None  # set where the tests cannot run


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(str(word) for word in words)}: {done.stderr.strip()}")


class InNamespaces(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if _why_not is not None:
            print(f"skipped: {_why_not}", file=sys.stderr)
            raise unittest.SkipTest(_why_not)
        super().setUpClass()


def main(kinds, prepare):
    """harness.main() in namespaces of these kinds, in which prepare() has made what the tests need, or raised an OSError."""
    global _why_not
    unshare = ["unshare", "--map-root-user", *(f"--{kind}" for kind in kinds)]
    try:
        if INSIDE not in sys.argv:
            run(*unshare, "true")
            sys.stdout.flush()
            os.execvp("unshare", [*unshare, sys.executable, *sys.argv, INSIDE])
        sys.argv.remove(INSIDE)
        prepare()
    except OSError as error:
        _why_not = str(error)
    harness.main()
