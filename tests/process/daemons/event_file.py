"""TensorBoard's event files, read by their definition and not by what wrote them: records of TFRecord with both checksums, and in
each the protobuf message Event, by its field numbers (tensorflow/core/util/event.proto)."""

import struct


def _table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = _table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    """The contents of all whole records; a last one that is cut is one that is being written."""
    at = 0
    while len(data) - at >= 12:
        length, length_sum = struct.unpack_from("<QI", data, at)
        if length_sum != masked(data[at:at + 8]):
            raise ValueError(f"byte {at}: the length's checksum is wrong")
        if len(data) - at < 16 + length:
            return
        content = data[at + 12:at + 12 + length]
        if struct.unpack_from("<I", data, at + 12 + length)[0] != masked(content):
            raise ValueError(f"byte {at}: the content's checksum is wrong")
        yield content
        at += 16 + length


def fields(message):
    """(number, value) of each field: an integer, the bytes of a fixed one, or the bytes of a message or text."""
    at = 0

    def varint():
        nonlocal at
        number = shift = 0
        while True:
            byte = message[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        length = {1: 8, 5: 4}.get(key & 7) or varint()
        yield key >> 3, message[at:at + length]
        at += length


class Event:
    """wall_time, step, and one of: version, scalars (a dictionary), session (its status)."""

    def __init__(self, content):
        self.wall_time, self.step, self.version, self.session, self.scalars = 0.0, 0, None, None, {}
        for number, value in fields(content):
            if number == 1:
                self.wall_time = struct.unpack("<d", value)[0]
            elif number == 2:
                self.step = value
            elif number == 3:
                self.version = value.decode()
            elif number == 5:
                for _, added in fields(value):
                    of = dict(fields(added))
                    self.scalars[of[1].decode()] = struct.unpack("<f", of[2])[0]
            elif number == 7:
                self.session = dict(fields(value))[1]
            else:
                raise ValueError(f"field {number}")


def events_of(file):
    return [Event(content) for content in records(file.read_bytes())]


# TensorBoard's three readers, each with a rule of its own for what a restart takes back: (step, value) by tag, of all files of a
# folder in the order of their names.

def _points(files, on_marker, on_point):
    points = {}
    for file in sorted(files, key=lambda file: file.name):
        for event in events_of(file):
            if event.session == 1:
                on_marker(points, event.step)
            for tag, value in event.scalars.items():
                on_point(points, tag, event.step)
                points.setdefault(tag, []).append((event.step, value))
    return points


def _without(points, step):
    return [point for point in points if point[0] < step]


def accumulated(files):
    """EventAccumulator: a START marker takes back all points from its step on."""
    def on_marker(points, step):
        for tag in points:
            points[tag] = _without(points[tag], step)
    return _points(files, on_marker, lambda *_: None)


def of_slow_page(files):
    """The page without the fast loader: the same, but the first marker of a folder is none."""
    seen = []

    def on_marker(points, step):
        for tag in points if seen else ():
            points[tag] = _without(points[tag], step)
        seen.append(step)
    return _points(files, on_marker, lambda *_: None)


def of_fast_page(files):
    """The page with it: no marker counts; a point takes back those of its tag from its step on."""
    def on_point(points, tag, step):
        points[tag] = _without(points.get(tag, []), step)
    return _points(files, lambda *_: None, on_point)


READERS = (accumulated, of_slow_page, of_fast_page)
