"""paceline.spark: rules without Spark, and, where the interpreter PACELINE_PYTHON has pyspark, pandas, pyarrow and torch, real sessions
with executors as processes of their own (spark_runs.py)."""

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import unittest

import harness
from foreign import PYTHON, ForeignTest, needs


def module(name):
    """A module of paceline.spark that needs nothing of Spark's, without the package, which does."""
    spec = importlib.util.spec_from_file_location(f"spark_{name}", harness.SOURCE / f"python/paceline/spark/{name}.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@unittest.skipIf(importlib.util.find_spec("numpy") is None, "no numpy")
class SparkBatches(unittest.TestCase):
    """Mini-batches, whatever blocks their rows lie in."""

    BLOCKS = (3, 1, 7, 4, 2, 5, 1, 1, 6, 2, 3)  # more than are mixed at a time

    def cut(self, size, seed=1, count=1000):
        import numpy as np
        ends = np.cumsum(self.BLOCKS)
        stream = module("batches").cut(len(self.BLOCKS), lambda b: {"id": np.arange(ends[b] - self.BLOCKS[b], ends[b])}, size, seed)
        return [next(stream)["id"] for _ in range(count)]

    def test_each_epoch_has_each_row_once_and_every_mini_batch_is_whole(self):
        rows = sum(self.BLOCKS)
        for size in (1, 4, 9, rows, rows + 3):
            with self.subTest(size):
                batches = self.cut(size, count=4 * rows)
                self.assertEqual({len(batch) for batch in batches}, {size})
                stream = [int(row) for batch in batches for row in batch]
                for begin in range(0, len(stream) - rows, rows):
                    self.assertEqual(sorted(stream[begin:begin + rows]), list(range(rows)))

    def test_the_seed_decides_the_order_and_epochs_differ(self):
        rows = sum(self.BLOCKS)
        first, again, other = (self.cut(rows, seed, 2) for seed in (1, 1, 2))
        self.assertEqual([list(batch) for batch in first], [list(batch) for batch in again])
        self.assertNotEqual(list(first[0]), list(other[0]))
        self.assertNotEqual(list(first[0]), list(first[1]))

    def test_a_mini_batch_is_memory_of_its_own(self):
        import numpy as np
        block = {"id": np.arange(6)}
        block["id"].flags.writeable = False  # as Arrow's is not, which shares it with the next reader
        stream = module("batches").cut(1, lambda _: block, 3, 1)
        for _ in range(4):
            batch = next(stream)["id"]
            self.assertFalse(np.shares_memory(batch, block["id"]))
            batch += 1

    def test_a_size_below_one_is_refused(self):
        with self.assertRaisesRegex(ValueError, "size of a mini-batch: got 0, expected at least 1"):
            self.cut(0)


class SparkAttempts(unittest.TestCase):
    """Which attempt has a share."""

    def setUp(self):
        self.ledger = module("ledger").Ledger("127.0.0.1", b"secret")
        self.addCleanup(self.ledger.close)

    def attempt(self, share, number, secret="b'secret'"):
        """A process that says its word, and ends when its input does."""
        code = (f"import sys; sys.path.insert(0, {str(harness.SOURCE / 'python/paceline/spark')!r}); import ledger\n"
                f"a = ledger.Attempt(('127.0.0.1', {self.ledger.port}), {secret}, {share}, {number})\n"
                "print(a.word, flush=True); sys.stdin.read()")
        process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.kill(), process.wait(), process.stdin.close(), process.stdout.close()))
        return process

    def test_a_newer_attempt_ends_the_older_and_enters_behind_its_end(self):
        older, other = self.attempt(1, 5), self.attempt(0, 4)
        self.assertEqual((older.stdout.readline(), other.stdout.readline()), ("enter\n", "enter\n"))
        newer = self.attempt(1, 9)
        self.assertEqual(newer.stdout.readline(), "enter\n")
        self.assertEqual(older.wait(harness.DEADLINE), 1)
        self.assertIsNone(other.poll())
        self.assertEqual(self.attempt(1, 7).stdout.readline(), "fenced\n")
        self.assertIsNone(newer.poll())
        self.assertEqual(self.ledger.attempts, {0: [4], 1: [5, 9]})
        self.assertEqual(self.ledger.present(), [0, 1])

    def test_who_comes_behind_the_end_of_the_run_is_told(self):
        self.ledger.over = True
        self.assertEqual(self.attempt(0, 3).stdout.readline(), "over\n")
        self.assertEqual(self.ledger.attempts, {})

    def test_a_stranger_fences_nobody(self):
        own = self.attempt(0, 3)
        own.stdout.readline()
        self.assertEqual(self.attempt(0, 8, "b'guess'").stdout.readline(), "\n")
        with socket.create_connection(("127.0.0.1", self.ledger.port)) as stranger:
            stranger.sendall(b"{} 0\n")
            self.assertEqual(stranger.makefile().read().count("\n"), 1)  # the nonce
        self.assertIsNone(own.poll())
        self.assertEqual(self.ledger.attempts, {0: [3]})


@needs("pyspark", "pandas", "pyarrow", "torch")
@unittest.skipIf(shutil.which("java") is None, "no java")
class Spark(ForeignTest):
    """DataFrames as training data."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # Java starts for the driver and for each executor before anything trains; on a busy machine that takes minutes. This is
        # for what hangs.
        deadline, harness.DEADLINE = harness.DEADLINE, 1800.0
        cls.addClassCleanup(setattr, harness, "DEADLINE", deadline)
        cls._ended = {}  # sessions: exit status, what each case has said, and the last errors

    def output_of(self, case, kind="local"):
        """What a case of spark_runs.py has said; the first that asks runs all of its session, to its end."""
        if kind not in self._ended:
            folder = self._shared / kind
            folder.mkdir()
            os.environ["PYSPARK_PYTHON"] = PYTHON
            driver = self.start(PYTHON, harness.SOURCE / "tests/process/daemons/spark_runs.py", kind, harness.BIN, folder)
            status = driver.end()
            while harness.children():  # Java's processes end a while after Java
                self.wait_for_no_children(driver)
            before, *cases = f"\n{driver.output()}".split("\n== ")
            parts = {"": before.strip(), **dict(case.partition("\n")[::2] for case in cases)}
            self._ended[kind] = (status, parts, driver.errors()[-20:])
        status, parts, errors = self._ended[kind]
        self.assertIn(case, parts, f"the driver has ended with {status}: {errors}")
        return parts[case]

    def result(self, case, kind="local"):
        output_of = self.output_of(case, kind)
        try:
            return json.loads(output_of)
        except ValueError:
            raise AssertionError(f"{output_of}; {self._ended[kind]}") from None

    def test_two_executors_train(self):
        result = self.result("trains", "cluster")
        self.assertGreater(result["accuracy"], 0.95)
        self.assertEqual(result["rows"], [1000, 1000])
        self.assertEqual(sum(each["steps"] for each in result["returned"].values()), 400)
        self.assertEqual(len({each["pid"] for each in result["returned"].values()}), 2)
        self.assertEqual({share: [each["attempt"]] for share, each in result["returned"].items()}, result["attempts"])
        self.assertEqual((result["summary"]["status"], result["summary"]["lost_nodes"]), ("ok", 0))
        for each in result["returned"].values():
            self.assertEqual(*each["signals"])
            self.assertEqual(each["warned"], [])

    def test_a_task_that_begins_late_joins(self):
        result = self.result("comes_late")
        summary = result["summary"]
        self.assertEqual((summary["status"], summary["iterations"], summary["late_nodes"]), ("ok", 400, 1))
        self.assertGreater(min(each["steps"] for each in result["returned"].values()), 0)

    def test_the_built_in_network_trains_on_an_rdd(self):
        result = self.result("has_no_loop")
        self.assertGreater(result["accuracy"], 0.9)
        self.assertEqual((result["rows"], result["summary"]["status"]), ([1000, 1000], "ok"))
        self.assertEqual(sum(each["steps"] for each in result["returned"].values()), 400)

    def test_barrier_mode_trains(self):
        result = self.result("trains_in_barrier_mode")
        self.assertEqual((result["summary"]["status"], sum(each["steps"] for each in result["returned"].values())), ("ok", 400))
        warned = "the servers' optimizer steps with defaults: train.optimizer.lr is 0.01, the local optimizer's 1"
        self.assertEqual([each["warned"] for each in result["returned"].values()], [[warned]] * 2)

    def test_an_executor_is_killed_and_the_others_go_on(self):
        result = self.result("loses_an_executor", "cluster")
        summary, attempts, returned = result["summary"], result["attempts"], result["returned"]
        self.assertEqual((summary["status"], summary["lost_nodes"], summary["returned_nodes"]), ("ok", 1, 1))
        self.assertEqual(summary["iterations"], 400)
        self.assertLessEqual(summary["iterations_lost"], 1)
        self.assertEqual([len(attempts["0"]), len(attempts["1"])], [1, 2])  # share 0 was not begun again
        self.assertLess(attempts["1"][0], attempts["1"][1])
        self.assertEqual((self._shared / "cluster/killed").read_text(), str(attempts["1"][0]))
        self.assertEqual([returned["0"]["attempt"], returned["1"]["attempt"]], [attempts["0"][0], attempts["1"][1]])
        self.assertGreater(result["accuracy"], 0.95)

    def test_bad_input_is_named_and_nothing_is_left(self):
        output_of = self.output_of("refuses")
        for complaint in (r"workers: num_workers: got 0, expected a whole number from 1 to 4096",
                          r"cores: num_workers: got 3, expected at most 2: the session has 2 cores, and spark\.task\.cpus is 1",
                          r"executors: num_workers: got 3, expected at most 2: the session has 4 cores, and spark\.task\.cpus is 2",
                          r"empty: the DataFrame is empty, expected rows to train with",
                          r"few: the DataFrame has 1 rows, expected at least one for each of 2 workers",
                          r"text: column 'name': got string, expected a number, or an array of numbers",
                          r"absent: column 'z': the DataFrame has 0 of that name, expected one of x, y",
                          r"null: column 'x': holds a null",
                          r"ragged: column 'x': holds arrays of .*",
                          r"frame: dataframe: got list, expected a DataFrame or an RDD of Spark",
                          r"connect: dataframe: got one of Spark Connect, expected one of a session in this process, where the server runs",
                          r"key: .*train\.batch_sise.*",
                          r"existing: existing: got 'append', expected one of refuse, replace, continue",
                          r"no rows: the RDD is empty, expected rows to train with",
                          r"no names: the RDD has a row that is tuple, expected dicts or Rows, or columns= with .*",
                          r"a text: column 'x': got str in the first row, expected a number, or an array of numbers",
                          r"a later text: column 'x': got 'two' in a row, expected float as in the first",
                          r"a later part: column 'x': got '1\.5' in a row, expected int64 as in the first",
                          r"a later lack: column 'x': a row of the RDD has none, expected it in each",
                          r"label: label: got 'z', expected one of the columns x, y",
                          r"layer: layers:1: layers\[0\]: missing key, got no out, expected dense to have kind, out, .*",
                          r"classes: column 'y': got label 2, expected 0 to 1 as the last layer has 2 outputs",
                          r"speculation: spark\.speculation: got true, expected false: a second attempt of a share would end the first"):
            self.assertRegex(output_of, f"(?m)^{complaint}\nleft: \\[\\]$")

    def test_a_function_that_raises_ends_the_job_and_the_server(self):
        self.assertEqual(self.output_of("fails"), "\n".join(["said: True\nleft: []"] * 2))

    def test_ctrl_c_ends_the_job_and_the_server(self):
        self.assertEqual(self.output_of("is_interrupted"), "interrupted\nleft: []")

    def test_the_end_of_the_driver_is_the_server_s(self):
        self.assertEqual(self.output_of("is_killed"), "")
        self.assertEqual(self._ended["local"][0], -9)
        written = self._shared / "local/is_killed/summary.json"  # under that name when it is whole; the server ends by itself
        with harness.FolderWatch(written.parent) as watch:
            while not written.exists():
                watch.wait(str(written))
        summary = json.loads(written.read_text(encoding="utf-8"))
        self.assertEqual(summary["status"], "stopped")

    def test_rows_are_dealt_out_evenly(self):
        self.assertEqual(self.output_of("deals").splitlines(), [
            "one partition: [250, 250, 250, 250]: 499500", "mostly empty: [5, 5, 5, 5]: 190", "a row each: [1, 1, 1, 1, 2]: 15",
            "200 rows lay in 2 partitions, of 100 to 100; dealt out as 4 shares, of 50 to 50",
            "column 'y': 2 values, each in every share",
            "10 rows lay in 1 partitions, of 10 to 10; dealt out as 2 shares, of 5 to 5",
            "column 'y': share 0 has no row of 1",
            *(f"column 'b{i}': {line}" for i in range(8) for line in (
                *(f"share {share} has no row of 1, 2, 3, 4, 5 and 4 more" for share in range(5)),
                "6 more shares lack values that others have")),
            "and 12 more columns of whole numbers, 0 of them with shares that lack a value"])

    def test_shares_are_larger_than_the_memory_of_their_process(self):
        self.assertEqual(self.output_of("", "streams").splitlines(), [
            "98304 rows, each 1 to 1 times", "98304 rows, each 1 to 1 times", "an RDD's rows in blocks of at most 5 MiB", "all of it: does not fit"])


if __name__ == "__main__":
    harness.main()
