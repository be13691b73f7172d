"""run.tensorboard: what is in the event files is what is in curve.csv and phases.csv, while a run goes and after it, real and
simulated. See harness.py; event_file.py reads the files."""

import csv
import signal
import struct
import time
from collections import Counter

import event_file
import harness
from harness import DaemonTest, FolderWatch

COLUMNS = {"train/loss": "train_loss", "train/accuracy": "train_accuracy", "test/loss": "test_loss", "test/accuracy": "test_accuracy",
           "sync/lpr": "lpr"}


def as_float(text):
    return struct.unpack("<f", struct.pack("<f", float(text)))[0]


class TensorBoard(DaemonTest):
    """Event files of whole runs, of one that goes on, and of simulated ones."""

    WINDOWS = ("run.tensorboard=true", "sync.policy=dtssp", "sync.lpr.window_clocks=5", "train.eval_every_clocks=20")

    def event_files(self):
        return sorted(self.run_dir.glob("events.out.tfevents.*"))

    def rows(self, name):
        with open(self.run_dir / name, encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def train_to_the_end(self, *overrides):
        servers, nodes = self.start_run(*overrides)
        for program in servers + nodes:
            self.assert_ends(program, 0)

    def assert_curve(self, events):
        """The scalars are the cells of curve.csv, in its order, each with its row's step and time."""
        curve = self.rows("curve.csv")
        for tag, column in COLUMNS.items():
            said = [(event.step, event.scalars[tag]) for event in events if tag in event.scalars]
            cells, newest = [], -1
            for row in curve:
                late = tag.startswith("train/") and int(row["version"]) <= newest  # an evaluation's row behind a window's
                if row[column] and not late:
                    cells.append((int(row["version"]), as_float(row[column])))
                    newest = int(row["version"])
            self.assertEqual(said, cells, tag)
        thresholds = {}  # of each version that no later one came before: an evaluation's row may be late
        for row in curve:
            if int(row["version"]) > max(thresholds, default=-1):
                thresholds[int(row["version"])] = as_float(row["threshold"])
        said = [(event.step, event.scalars["sync/threshold"]) for event in events if "sync/threshold" in event.scalars]
        self.assertEqual(said, list(thresholds.items()))
        zero = events[0].wall_time
        of_rows = [event for event in events if event.scalars and not any(tag.startswith("phases/") for tag in event.scalars)]
        self.assertEqual([event.step for event in of_rows], [int(row["version"]) for row in curve])
        for event, row in zip(of_rows, curve, strict=True):
            self.assertAlmostEqual(event.wall_time - zero, float(row["seconds"]), places=5)

    def assert_phases(self, event, node):
        workers = {}
        for row in self.rows("phases.csv"):
            if row["node"] == str(node):
                workers.setdefault(row["phase"], []).append(float(row["total_seconds"]))
        self.assertEqual(sorted(event.scalars), sorted(f"phases/{phase}/node_{node}" for phase in workers))
        self.assertEqual({len(seconds) for seconds in workers.values()}, {2})  # threads
        for phase, seconds in workers.items():
            expected = sum(seconds) / len(seconds)
            self.assertAlmostEqual(event.scalars[f"phases/{phase}/node_{node}"], expected, delta=1e-6 * abs(expected) + 1e-9)
        self.assertEqual(event.step, self.summary()["final_version"])

    # ---- real runs

    def test_a_whole_run_says_what_its_files_say(self):
        began = time.time()
        self.train_to_the_end("train.total_iterations=400", *self.WINDOWS)
        ended = time.time()
        (file,) = self.event_files()
        first, *events = event_file.events_of(file)
        self.assertEqual(first.version, "brain.Event:2")
        self.assertTrue(began <= first.wall_time <= ended, (began, first.wall_time, ended))
        self.assertEqual(file.name, f"events.out.tfevents.{int(first.wall_time):010d}.0")
        self.assert_curve([first, *events])
        self.assertTrue(any("test/accuracy" in event.scalars for event in events))
        for node, event in enumerate(events[-2:]):
            self.assert_phases(event, node)

    def test_it_is_there_while_the_run_goes_and_force_begins_anew(self):
        servers, nodes = self.start_training(*self.WINDOWS)
        with FolderWatch(self.run_dir) as watch:
            while not (self.event_files() and any("sync/lpr" in e.scalars for e in event_file.events_of(self.event_files()[0]))):
                watch.wait("an LPR in the event file")
        servers[0].send(signal.SIGTERM)
        for program in servers + nodes:
            program.end()
        (self.run_dir / "events.out.tfevents.0000000001.0").write_bytes(b"of an earlier run")
        self.train_to_the_end("train.total_iterations=40", "--force")
        self.assertEqual(self.event_files(), [])

    def test_a_resumed_run_takes_back_what_comes_again(self):
        # Neither generation ends by itself, so that neither is over before a slow test has seen what it waits for.
        saving = (*self.WINDOWS, "checkpoint.every_clocks=20")
        servers, nodes = self.start_training(*saving)
        self.wait_for_log("server.log", "is written: ")
        for program in servers + nodes:
            program.send(signal.SIGKILL)
        for program in servers + nodes:
            program.end()
        (before,) = self.event_files()
        servers = [self.server(0, *saving, "--resume")]
        nodes = [self.node(i, *saving, "--resume") for i in range(2)]
        with FolderWatch(self.run_dir) as watch:
            while not any("test/accuracy" in event.scalars for file in self.event_files() if file != before
                          for event in event_file.events_of(file)):
                watch.wait("an evaluation in the second event file")
        servers[0].send(signal.SIGTERM)
        for program in servers + nodes:
            self.assertEqual(program.end(), 1, program.errors())
        from_version = self.summary()["resumed_from_version"]
        files = self.event_files()
        self.assertEqual(len(files), 2)
        (after,) = [file for file in files if file != before]
        self.assertTrue(after.name.endswith(f".{from_version}"), after.name)
        first, start, *events = event_file.events_of(after)
        self.assertEqual((first.version, start.session, start.step), ("brain.Event:2", 1, from_version + 1))
        kept = [event for event in event_file.events_of(before) if event.step <= from_version]
        self.assert_steps_are_those_of_the_curve(kept + events)

    def assert_steps_are_those_of_the_curve(self, events):
        cut = 0
        for tag in ("train/loss", "test/accuracy"):
            said = [(event.step, event.scalars[tag]) for event in events if tag in event.scalars]
            rows = [row for row in self.rows("curve.csv") if row[COLUMNS[tag]]]
            cells = Counter((int(row["version"]), as_float(row[COLUMNS[tag]])) for row in rows)
            self.assertFalse(Counter(said) - cells, tag)
            # How training went is not said of an evaluation that comes behind a later window.
            late = Counter((int(row["version"]), as_float(row[COLUMNS[tag]])) for row in rows
                           if tag.startswith("train/") and row["test_accuracy"])
            cut += (cells - Counter(said) - late).total()
        self.assertLessEqual(cut, 1, "the one row whose event the kill may have come before")

    # ---- simulated ones

    def test_a_simulated_run_says_the_same_of_itself_each_time_the_same(self):
        self.config.write_text("""\
cluster: {nodes: 2, threads_per_node: 2}
sync: {policy: dtssp, lpr: {window_clocks: 25}}
train: {model: layers, layers: [{kind: flatten}, {kind: dense, out: 10}], batch_size: 8, total_iterations: 2000}
simulate: {compute: {distribution: lognormal, mean: 100ms}, metric: {final_accuracy: 0.9, half_samples: 2000}}
""", encoding="utf-8")
        contents = []
        for _ in range(2):
            done = self.paceline("simulate", self.config, "--out", self.run_dir, "--force", "run.tensorboard=true")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            (file,) = self.event_files()
            contents.append(file.read_bytes())
        self.assertEqual(contents[0], contents[1])
        events = event_file.events_of(file)
        self.assertEqual(events[0].wall_time, 0.0)
        self.assert_curve(events)
        for node, event in enumerate(events[-2:]):
            self.assert_phases(event, node)
        self.paceline("simulate", self.config, "--out", self.run_dir, "--force")
        self.assertEqual(self.event_files(), [])

    def test_the_reader_of_this_test_knows_a_wrong_checksum(self):
        self.assertEqual(event_file.crc32c(b"123456789"), 0xE3069283)  # of the definition (RFC 3720)
        file = self.folder / "events"
        record = struct.pack("<Q", 2) + struct.pack("<I", event_file.masked(struct.pack("<Q", 2))) + b"\x10\x05"
        file.write_bytes(record + struct.pack("<I", event_file.masked(b"\x10\x05")))
        self.assertEqual([event.step for event in event_file.events_of(file)], [5])
        file.write_bytes(record + b"\0\0\0\0")
        with self.assertRaises(ValueError):
            event_file.events_of(file)


if __name__ == "__main__":
    harness.main()
