"""Paceline's programs, found and started: by what starts a run's servers from Python."""

import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
from typing import Optional

from paceline import _library

_PR_SET_PDEATHSIG = 1

# What becomes of an earlier run's files, as arguments of paceline-server.
EXISTING = {"refuse": [], "replace": ["--force"], "continue": ["--resume-or-start"]}


def programs_in(folder: Optional[str]) -> pathlib.Path:
    """Where paceline and paceline-server are: `folder`, else ../bin of the library, else on the PATH. Errors: ValueError."""
    places = [folder] if folder else [pathlib.Path(_library.library._name).resolve().parent.parent / "bin"]
    on_path = shutil.which("paceline-server")
    if not folder and on_path:
        places.append(pathlib.Path(on_path).parent)
    for place in map(pathlib.Path, places):
        if (place / "paceline-server").exists() and (place / "paceline").exists():
            return place
    raise ValueError(f"programs: no paceline-server and paceline in {' or '.join(map(str, places))}, expected them there, on the "
                     "PATH, or programs=FOLDER")


def start(command, **options) -> subprocess.Popen:
    """A process that ends with this one, however that ends, and in a session of its own: a Ctrl-C is this process's, which
    ends the other in order."""
    libc = ctypes.CDLL(None)  # not looked up between fork and exec
    parent = os.getpid()

    def end_with_parent():
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)
    return subprocess.Popen([os.fspath(part) for part in command], stdin=subprocess.DEVNULL, start_new_session=True,
                            preexec_fn=end_with_parent, **options)
