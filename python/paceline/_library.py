"""libpaceline.so, found and described to ctypes. Nothing else knows the C interface (include/paceline/).

Looked for in this order: the file that PACELINE_LIBRARY names; beside this package (a wheel); in the prefix that Python is
installed in; where the system's loader looks.
"""

import ctypes
import json
import operator
import os
import pathlib
import sys
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

NAME = "libpaceline.so.0"

OK, FINISHED, TIMED_OUT, STOPPED = 0, 100, 101, 102
CODES = {1: "INVALID_ARGUMENT", 2: "FAILED_PRECONDITION", 3: "NOT_FOUND", 4: "UNAVAILABLE", 5: "DEADLINE_EXCEEDED",
         6: "RESOURCE_EXHAUSTED", 7: "ABORTED", 8: "INTERNAL", FINISHED: "FINISHED", TIMED_OUT: "TIMED_OUT",
         STOPPED: "STOPPED"}
ABORTED = 7
ROLES = {"weight": 0, "bias": 1, "norm": 2, "buffer": 3}
FIXED, TRAINED, MAY_BE_UNUSED = 0, 1, 2  # enum paceline_trainable
EXISTING = {"refuse": 0, "replace": 1, "continue": 2}


class Options(ctypes.Structure):
    _fields_ = [("file", c_char_p), ("text", c_char_p), ("overrides", POINTER(c_char_p)), ("overrides_count", c_size_t),
                ("node", c_uint32), ("existing", c_int)]


class Metric(ctypes.Structure):
    _fields_ = [("loss_sum", c_double), ("correct", c_int64), ("samples", c_int64)]


class Round(ctypes.Structure):
    # The addresses as numbers: what lies there becomes an array only once.
    _fields_ = [("parameters", c_void_p), ("gradient", c_void_p), ("floats", c_int64), ("clock", c_int64),
                ("iteration", c_int64), ("position", c_int64), ("samples", c_int64)]


class AboutData(ctypes.Structure):
    _fields_ = [(name, c_int64) for name in ("train_samples", "test_samples", "channels", "height", "width", "classes",
                                             "left_out", "batch", "position", "stride", "in_a_row")]


class Batch(ctypes.Structure):
    _fields_ = [("images", c_void_p), ("labels", c_void_p), ("indices", c_void_p), ("samples", c_int64)]


class Pass(ctypes.Structure):
    _fields_ = [("first", c_int64), ("samples", c_int64), ("divisor", c_int64), ("kept", c_int), ("in_", c_void_p), ("out", c_void_p),
                ("out_gradient", c_void_p), ("in_gradient", c_void_p), ("gradient", c_void_p), ("metric", Metric),
                ("kept_bytes", c_int64), ("why", c_char_p)]


Take = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(Pass))


OnWait = ctypes.CFUNCTYPE(c_int, c_void_p)


class Stage(ctypes.Structure):
    _fields_ = [("ends", POINTER(c_int64)), ("stages", c_size_t), ("floats_in", c_int64), ("floats_out", c_int64),
                ("forward", Take), ("backward", Take), ("context", c_void_p)]


Evaluate = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(c_float), c_int64, POINTER(Metric))


def _candidates():
    named = os.environ.get("PACELINE_LIBRARY")
    if named:
        return [named]
    here = pathlib.Path(__file__).resolve().parent
    folders = [here, here / "lib", pathlib.Path(sys.prefix) / "lib", pathlib.Path(sys.base_prefix) / "lib",
               pathlib.Path("/usr/local/lib")]
    return [str(folder / NAME) for folder in folders if (folder / NAME).exists()] + [NAME]


def _binding() -> int:
    """How it is loaded: what it is made of (protobuf, ZeroMQ, …) comes first where it looks for its functions, ahead of another copy that
    is there for all, as TensorFlow's. Not so where malloc is not libc's, as with a sanitizer or a preloaded allocator: some of
    what it frees would then be another's."""
    deep = getattr(os, "RTLD_DEEPBIND", 0)
    if deep:
        try:
            # Whoever replaces malloc replaces these, too. Of malloc the program may have an address of its own.
            everyone, libc = ctypes.CDLL(None), ctypes.CDLL("libc.so.6")
            if any(_address_of(everyone, name) != _address_of(libc, name) for name in ("posix_memalign", "malloc_usable_size")):
                deep = 0
        except (OSError, AttributeError):
            deep = 0  # not glibc
    return os.RTLD_NOW | os.RTLD_LOCAL | deep  # local: none looks for its own in what this one links to


def _address_of(where, name):
    return ctypes.cast(getattr(where, name), c_void_p).value


def _load():
    failures = []
    for candidate in _candidates():
        try:
            return ctypes.CDLL(candidate, mode=_binding())
        except OSError as error:
            failures.append(str(error))
    raise ImportError("libpaceline.so: " + "; ".join(failures) +
                      "; expected it in the package, in Python's prefix, or where PACELINE_LIBRARY says")


def _launched(config):
    """What paceline.launch was told, for the configuration that it was given and for no other: the command line's values, and what
    becomes of an earlier run's files."""
    encoded = os.environ.get("PACELINE_LAUNCHED")
    if encoded is None or config is None:
        return [], "refuse"
    try:
        launched = json.loads(encoded)
        is_that = launched["config"] == os.path.realpath(os.fsdecode(config))
        return ([str(each) for each in launched["overrides"]], launched["existing"]) if is_that else ([], "refuse")
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"PACELINE_LAUNCHED: got {encoded!r}, expected what paceline.launch sets, or none") from None


def overrides_of(config, overrides):
    """What counts in place of the file's values. What paceline.launch was told counts last. Errors: ValueError."""
    given = [] if isinstance(overrides, str) else list(overrides)
    if isinstance(overrides, str) or not all(isinstance(each, str) for each in given):
        raise ValueError(f"overrides: got {overrides!r}, expected a list of 'key.path=value'")
    return [*given, *_launched(config)[0]]


def existing_of(config, existing):
    """As given, or as paceline.launch was told. Errors: ValueError."""
    if existing not in EXISTING:
        raise ValueError(f"existing: got {existing!r}, expected one of {', '.join(EXISTING)}")
    launched = _launched(config)[1]
    return existing if launched == "refuse" else launched


def whole_number(what, given, least):
    """It as an int. Errors: ValueError."""
    try:
        number = None if isinstance(given, bool) else operator.index(given)
    except TypeError:
        number = None
    if number is None or not least <= number < 1 << 31:
        raise ValueError(f"{what}: got {given!r}, expected a whole number, {least} or more")
    return number


def options_of(config, text, node, overrides, existing="refuse"):
    """What opens a worker or data. It keeps alive what it points to."""
    node = whole_number("node", node, 0)
    overrides = overrides_of(config, overrides)
    given = (c_char_p * len(overrides))(*(override.encode() for override in overrides))
    return Options(file=None if config is None else os.fsencode(config), text=None if text is None else text.encode(),
                   overrides=given, overrides_count=len(overrides), node=node, existing=EXISTING[existing_of(config, existing)])


def _described(library):
    worker = network = data = c_void_p
    for name, result, arguments in (
            ("version", c_char_p, []),
            ("error", c_char_p, []),
            ("open", c_int, [POINTER(Options), POINTER(worker)]),
            ("value", c_int, [worker, c_char_p, POINTER(c_char_p)]),
            ("add_tensor", c_int, [worker, c_char_p, POINTER(c_int64), c_size_t, c_int, c_int, c_double, c_double]),
            ("on_evaluate", c_int, [worker, Evaluate, c_void_p]),
            ("start", c_int, [worker, c_void_p, c_int64]),
            ("begin", c_int, [worker, c_int64, POINTER(Round)]),
            ("copy_gradient", c_int, [worker, c_int64, c_void_p, c_int64]),
            ("final_from", c_int, [worker, c_int64]),
            ("finish", c_int, [worker, POINTER(Metric)]),
            ("on_stage", c_int, [worker, POINTER(Stage)]),
            ("on_wait", c_int, [worker, OnWait, c_void_p]),
            ("step_stages", c_int, [worker, c_int64, POINTER(Metric)]),
            ("end", c_int, [worker, c_char_p, c_int64]),
            ("warn", c_int, [worker, c_char_p]),
            ("close", None, [worker]),
            ("network_open", c_int, [c_char_p, POINTER(c_int64), c_int64, c_uint64, POINTER(network)]),
            ("network_floats", c_int64, [network]),
            ("network_classes", c_int64, [network]),
            ("network_initialize", c_int, [network, c_void_p]),
            ("network_gradient", c_int, [network, c_void_p, c_void_p, c_void_p, c_int64, c_int64, c_void_p, POINTER(Metric)]),
            ("network_evaluate", c_int, [network, c_void_p, c_void_p, c_void_p, c_int64, POINTER(Metric)]),
            ("network_close", None, [network]),
            ("add_network", c_int, [worker, network]),
            ("data_open", c_int, [POINTER(Options), POINTER(data)]),
            ("data_about", c_int, [data, POINTER(AboutData)]),
            ("data_train", c_int, [data, c_int64, c_int64, POINTER(POINTER(Batch))]),
            ("data_test", c_int, [data, c_int64, c_int64, POINTER(POINTER(Batch))]),
            ("data_warning", c_char_p, [data]),
            ("data_close", None, [data]),
            ("batch_release", None, [POINTER(Batch)])):
        function = getattr(library, "paceline_" + name)
        function.restype, function.argtypes = result, arguments
    return library


library = _described(_load())
