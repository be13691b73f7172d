"""Pictures that tests make without a library: PNG files, one for each class or several."""

import random
import struct
import zlib


def png(width, height, pixels):
    """A PNG file of `pixels`, red, green and blue of each, row by row."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + pixels[3 * width * y:3 * width * (y + 1)] for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def noise(label, side):
    """The pixels of a class's pictures, unlike those of any other."""
    return random.Random(label).randbytes(3 * side * side)


def write_folder(folder, classes, side=8, each=1):
    """train/ and test/, with a folder for each class, 0000 to the last; returns the files of the training set in order."""
    files = []
    for part in ("train", "test"):
        for label in range(classes):
            of_class = folder / part / f"{label:04d}"
            of_class.mkdir(parents=True)
            for i in range(each):
                (of_class / f"{i}.png").write_bytes(png(side, side, noise(label, side)))
                if part == "train":
                    files.append(of_class / f"{i}.png")
    return files


def break_pixels(file):
    """Only decoding shows it: what the file's head says, and its length, stay."""
    data = bytearray(file.read_bytes())
    data[data.index(b"IDAT") + 8] ^= 0xFF
    file.write_bytes(data)
