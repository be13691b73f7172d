"""run.tensorboard: what is in the event files is what is in curve.csv and phases.csv, while a run goes and after it, real and
simulated. See harness.py; event_file.py reads the files."""

import csv
import json
import signal
import struct
import time

import event_file
import foreign
import harness
from harness import DaemonTest, FolderWatch

COLUMNS = {"train/loss": "train_loss", "train/accuracy": "train_accuracy", "test/loss": "test_loss", "test/accuracy": "test_accuracy",
           "train/learning_rate": "learning_rate", "sync/lpr": "lpr"}


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
        self.assert_end_quietly(servers + nodes)

    def assert_curve(self, events):
        """The scalars are the cells of curve.csv, in its order, each with its row's step and time."""
        curve = self.rows("curve.csv")
        for tag, column in COLUMNS.items():
            printed = [(event.step, event.scalars[tag]) for event in events if tag in event.scalars]
            cells, newest = [], -1
            for row in curve:  # an evaluation's row may come after a window's, and the last version be evaluated twice
                if row[column] and int(row["version"]) > newest:
                    newest = int(row["version"])
                    cells.append((newest, as_float(row[column])))
            self.assertEqual(printed, cells, tag)
        thresholds = {}  # of each version that no later one came before: an evaluation's row may be late
        for row in curve:
            if int(row["version"]) > max(thresholds, default=-1):
                thresholds[int(row["version"])] = as_float(row["threshold"])
        printed = [(event.step, event.scalars["sync/threshold"]) for event in events if "sync/threshold" in event.scalars]
        self.assertEqual(printed, list(thresholds.items()))
        zero = events[0].wall_time
        of_rows = [event for event in events if event.scalars and not any(tag.startswith("phases/") for tag in event.scalars)]
        rows = [row for row in curve if any(row[column] for column in COLUMNS.values())]
        self.assertEqual([event.step for event in of_rows], [int(row["version"]) for row in rows])
        for event, row in zip(of_rows, rows, strict=True):
            self.assertAlmostEqual(event.wall_time - zero, float(row["seconds"]), places=5)
        self.assertEqual((events[1].session, events[1].step), (1, of_rows[0].step))

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
        self.assertEqual(file.name, f"events.out.tfevents.{int(first.wall_time):010d}.000001")
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

    def test_three_readers_show_one_curve_of_a_run_that_was_killed_twice(self):
        files = self.run_that_was_killed_twice()
        self.assertEqual([file.name[-7:] for file in files], [".000001", ".000002", ".000003"])
        for file in files:
            first, start, point, *_ = event_file.events_of(file)
            self.assertEqual((first.version, start.session, start.step), ("brain.Event:2", 1, point.step), file.name)
        shown = event_file.accumulated(files)
        for reader in event_file.READERS:
            self.assertEqual(reader(files), shown, reader.__name__)
        self.assert_is_the_curve(shown)

    @foreign.needs("tensorboard")
    def test_tensorboards_own_readers_show_it(self):
        files = self.run_that_was_killed_twice()
        read = self.start(foreign.PYTHON, harness.SOURCE / "tests/process/daemons/tensorboard_readers.py", self.run_dir)
        self.assertEqual(read.end(), 0, read.errors())
        shown = event_file.accumulated(files)
        readers = json.loads(read.output())
        self.assertEqual(len(readers), 3)
        for reader, tags in readers.items():
            self.assertEqual({tag: [tuple(point) for point in points] for tag, points in tags.items()}, shown, reader)
        self.assert_is_the_curve(shown)

    def run_that_was_killed_twice(self):
        """And resumed; its event files, of which each session took back points of the one before."""
        # No session ends by itself, so that none is over before a slow test has seen what it waits for.
        saving = (*self.WINDOWS, "checkpoint.every_clocks=25")
        programs = sum(self.start_training(*saving), [])
        for session in (1, 2, 3):
            with FolderWatch(self.run_dir) as watch:
                while not self.has_points_to_take_back():
                    watch.wait(f"a checkpoint and a later point in event file {session}")
            if session < 3:
                for program in programs:
                    program.send(signal.SIGKILL)
                for program in programs:
                    program.end()
                self.assertEqual(len(self.event_files()), session)
                programs = [self.server(0, *saving, "--resume"), *(self.node(i, *saving, "--resume") for i in range(2))]
                programs[0].wait_for_line(harness.PROGRESS.pattern)
        programs[0].send(signal.SIGTERM)
        for program in programs:
            self.assertEqual(program.end(), 1, program.errors())
        return self.event_files()

    def has_points_to_take_back(self):
        """The newest event file has a window after the newest checkpoint of this session."""
        files = self.event_files()
        saved = [int(folder.name.split("-v")[1]) for folder in self.run_dir.glob(f"checkpoint/g{len(files)}-v*") if (folder / "manifest").exists()]
        return saved and any(event.step > max(saved) and "test/accuracy" in event.scalars for event in event_file.events_of(files[-1]))

    def assert_is_the_curve(self, shown):
        """A kill may come between a row and its event: then the event is missing, of each kill one at most."""
        for tag in ("train/loss", "test/accuracy"):
            steps = [step for step, _ in shown[tag]]
            self.assertEqual(steps, sorted(set(steps)), tag)
            rows = [(int(row["version"]), as_float(row[COLUMNS[tag]])) for row in self.rows("curve.csv") if row[COLUMNS[tag]]]
            self.assertFalse(set(shown[tag]) - set(rows), tag)
            if tag == "test/accuracy":
                self.assertLessEqual(len(rows) - len(shown[tag]), 2, tag)

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
            done = self.paceline("simulate", self.config, "--out", self.run_dir, "--force", "--force", "run.tensorboard=true")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            (file,) = self.event_files()
            contents.append(file.read_bytes())
        self.assertEqual(contents[0], contents[1])
        events = event_file.events_of(file)
        self.assertEqual(events[0].wall_time, 0.0)
        self.assert_curve(events)
        for node, event in enumerate(events[-2:]):
            self.assert_phases(event, node)
        self.paceline("simulate", self.config, "--out", self.run_dir, "--force", "--force")
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
