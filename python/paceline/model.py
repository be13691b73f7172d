"""A run's final model, <run.out>/model.bin, as numpy arrays by name."""

import json
import os
import struct
from typing import Dict

import numpy as np

_MAGIC = b"PACELIN1"


def read_model(path: "str | os.PathLike") -> Dict[str, np.ndarray]:
    """The tensors of a model file, float32, each in its shape, in the layout's order. A torch model takes them by
    load_state_dict({name: torch.from_numpy(array) …}, strict=False). Counters and the like it keeps.
    Errors: OSError; ValueError for a file that is no model file, or is cut.
    """
    with open(path, "rb") as file:
        begin = file.read(16)
        if len(begin) < 16 or begin[:8] != _MAGIC:
            raise ValueError(f"{path}: got no model file, expected one that begins with {_MAGIC.decode()}")
        size, _ = struct.unpack("<II", begin[8:])
        header = json.loads(file.read(size).decode())
        file.seek(-(-(16 + size) // 64) * 64)
        values = np.fromfile(file, dtype="<f4")
    if values.size != header["floats"]:
        raise ValueError(f"{path}: got {values.size} floats, expected {header['floats']} as its header says")
    return {tensor["name"]: values[tensor["offset"]:][:int(np.prod(tensor["shape"], dtype=np.int64))].reshape(tensor["shape"])
            for tensor in header["tensors"]}
