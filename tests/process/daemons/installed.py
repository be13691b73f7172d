"""Which of some modules an interpreter has, and of which version:

    installed.py MODULE…     prints {"module": "version"} as JSON; "": it has no version
"""

import importlib.metadata
import importlib.util
import json
import sys


def versions(*modules):
    """Of those of them that are there; none is imported."""
    return {name: _version(name) for name in modules if importlib.util.find_spec(name) is not None}


def _version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


if __name__ == "__main__":
    print(json.dumps(versions(*sys.argv[1:])))
