"""scripts/reproduce_dtssp.sh: small versions of the real thing, what it prints, what it keeps. See harness.py."""

import csv
import importlib.util
import json
import os
import re
import select
import signal

import harness
from harness import ScriptTest


class DtsspExperiment(ScriptTest):
    """Tables beside the published ones, out of runs that are made once."""

    def setUp(self):
        super().setUp()
        self.out = self.folder / "dtssp"

    def reproduce(self, *arguments, bin_folder=None):
        return self.start("bash", harness.SOURCE / "scripts/reproduce_dtssp.sh", "--out", self.out, "--bin",
                          bin_folder or harness.BIN, *arguments)

    def wall(self, run):
        return json.loads((self.out / run / "summary.json").read_text(encoding="utf-8"))["wall_seconds"]

    def end_of_threshold(self, run):
        return json.loads((self.out / run / "summary.json").read_text(encoding="utf-8"))["final_threshold"]

    def test_table_1_says_of_its_runs_what_they_say_and_stands_beside_the_published_one(self):
        script = self.reproduce("--iterations", "1600", "--seeds", "1", "table1")
        self.assertEqual(script.end(), 0, script.errors())
        said = script.output()
        # The cluster is that of the configuration, whatever it says.
        self.assertTrue(said.lstrip().startswith(
            "The cluster is assumed, not measured (configs/dtssp_paper.yaml):\n"
            "  4 nodes, a computation of 150ms x 1 : 1 : 1.3 : 1.6, lognormal with a coefficient of variation of 0.3\n"
            "  latency 100us; a node's link 1192MiB per second, the server's 1192MiB per second, each direction; servers: 1\n"
            "  training accuracy, which DTSSP follows: from 0.1 towards 0.81, half of the way after 100000 samples, noise binomial\n"
            "\nTable 1, "), said)
        for refresh in ("null", "1"):
            for threads, published in ((1, "-1.49"), (2, "-8.52"), (4, "-14.72")):
                folder = f"table1/{refresh}-{threads}"
                ours, theirs = self.wall(f"{folder}/dtssp-1"), self.wall(f"{folder}/ssp3-1")
                self.assertIn(f"{4 * threads:>3} workers  {100 * (ours - theirs) / theirs:+.2f} % too few seeds;  "
                              f"published {published} %", said)
        self.assertNotIn("nan", said)
        # 16 workers: windows of 10 clocks, 160 x 128 samples, and an accuracy that rises by far more than 5 %.
        self.assertRegex(said, r"DTSSP's threshold, table1, 16 workers, refresh_clocks null, seed 1: "
                               r"10 windows of 10 clocks, 20480 samples\n"
                               r"  3 -> 4 after 20.00 % of the run, .* s: LPR \+")
        self.assertRegex(said, r"standard deviation \d\.\d\d % expected \(binomial\)")
        self.assertEqual(len(re.findall(r"DTSSP's threshold, table1, (?:4|8|16) workers, refresh_clocks 1, seed 1", said)), 3)
        # A path is one seed's; where the threshold ends is said of each.
        ends = self.end_of_threshold("table1/null-4/dtssp-1")
        self.assertRegex(said, rf"(?m)^  16 workers, refresh_clocks null +{ends}  of seeds 1$")
        phase = re.search(r"Fig. 10: 16 workers, refresh_clocks null.*?BARRIER +(\S+)", said, re.DOTALL).group(1)
        summary = json.loads((self.out / "table1/null-4/bsp-1/summary.json").read_text(encoding="utf-8"))
        self.assertEqual(phase, f"{summary['phases']['BARRIER']['total_seconds'] / 16:.1f}")
        by_node = re.search(r"Fig. 9: 16 workers, refresh_clocks null, seed 1.*?\n((?:  .*\n)+)", said).group(1)
        held = [float(x) for x in re.findall(r"BARRIER, node \d +(\S+)", by_node)]  # bsp's
        self.assertAlmostEqual(sum(held) / 4, float(phase), delta=0.1)
        self.assertGreater(held[0], 1.5 * held[3])  # node 3 takes 1.6 times as long as node 0, which waits for it

    def test_a_run_is_made_once_and_again_when_it_is_another_or_gone(self):
        arguments = ("--sweep-iterations", "64", "--seeds", "1", "sweep")
        self.assertEqual(self.reproduce(*arguments).end(), 0)
        runs = sorted(self.out.glob("sweep/*/*/summary.json"))
        self.assertEqual(len(runs), 12 * 6)
        before = {run: run.stat().st_mtime_ns for run in runs}
        arrival = {run.parent.name: (run.parent / "config.yaml").read_text(encoding="utf-8")
                   for run in runs if "applied-on-arrival" in str(run)}
        self.assertEqual([name for name, config in arrival.items() if "\n  apply: eager\n" not in config], ["bsp-1"])
        runs[5].unlink()
        script = self.reproduce(*arguments)
        self.assertEqual(script.end(), 0, script.errors())
        self.assertEqual([run for run in runs if run.stat().st_mtime_ns != before[run]], [runs[5]])
        self.assertRegex(script.output(), r"DTSSP against asp\n    as-assumed +[+-]\d+\.\d\d % too few seeds")

    def test_a_run_that_fails_is_said_and_the_others_are_made(self):
        tools = self.folder / "tools"
        self.stand_in(tools / "paceline", f"""
case "$*" in simulate*equal-speeds-no-jitter/asp-1*) echo "no such luck" >&2; exit 1 ;; esac
exec {harness.BIN}/paceline "$@"
""")
        script = self.reproduce("--sweep-iterations", "16", "--seeds", "1", "sweep", bin_folder=tools)
        self.assertEqual(script.end(), 1)
        self.assertIn(f"reproduce_dtssp: {self.out}/sweep/equal-speeds-no-jitter/asp-1 failed: no such luck", script.errors())
        self.assertIn("equal-speeds-no-jitter       unknown", script.output())
        self.assertIn(f"no result, and in no table: {self.out}/sweep/equal-speeds-no-jitter/asp-1\n", script.output())
        self.assertEqual(len(list(self.out.glob("sweep/*/*/summary.json"))), 71)

    def test_table_2_has_accuracies_the_time_to_one_and_the_threshold_with_its_noise(self):
        made = self.start(harness.BIN / "paceline", "data", "synthesize", "--out", self.out / "data", "--train", "500",
                          "--test", "50")
        self.assertEqual(made.end(), 0, made.errors())
        arguments = ("--training-iterations", "96", "--seeds", "1", "table2")
        script = self.reproduce("--target", "0.01", *arguments)  # anything gets there
        for threads in (1, 2, 4):
            script.wait_for_line(f"4 x {threads} workers")
        self.assertEqual(script.end(), 0, script.errors())
        said = script.output()
        self.assertIn("Table 2 is CUT TO THE BUDGET: 96 iterations of cifar_cnn_small on generated data, mini-batches of 16;", said)
        self.assertIn("Table 2, test accuracy in % after 96 iterations; refresh_clocks null (the paper's), learning rate 1e-04",
                      said)
        table = re.search(r"time to test accuracy 1.00 %, s; refresh_clocks null.*?\n((?:  .*\n)+)", said).group(1)
        for threads, every, clocks in ((1, 3, 24), (2, 1, 12), (4, 1, 6)):
            reached = []
            for policy in ("bsp", "ssp3", "dtssp"):
                with open(self.out / f"table2/{threads}/{policy}-1/curve.csv", encoding="utf-8") as file:
                    tests = [row for row in csv.DictReader(file) if row["test_accuracy"]]
                self.assertEqual([int(row["version"]) for row in tests], list(range(every, clocks + 1, every)))
                reached.append(float(tests[2]["seconds"]))
            self.assertRegex(table, rf"(?m)^  {4 * threads} +" + r" +".join(re.escape(f"{s:.1f}") for s in reached) + "$")
            change = 100 * (reached[2] - reached[0]) / reached[0]
            self.assertRegex(table, rf"{4 * threads:>3} workers  {re.escape(f'{change:+.2f}')} % too few seeds")
        self.assertNotIn("censored,", said)
        table = re.search(r"Table 2, time at 96 iterations, s; .*\n((?:  .*\n)+)", said).group(1)
        seconds = [json.loads((self.out / f"table2/4/{policy}-1/summary.json").read_text(encoding="utf-8"))["wall_seconds"]
                   for policy in ("bsp", "ssp3", "dtssp")]
        self.assertRegex(table, r"(?m)^  16 +" + r" +".join(re.escape(f"{s:.1f}") for s in seconds) + "$")
        against = rf"(?s)bsp against ssp\(3\), s\n.* 16 workers  {re.escape(f'{seconds[0] - seconds[1]:+.2f}')} too few seeds"
        self.assertRegex(table, against)
        self.assertEqual(len(re.findall(r"winner in (?:accuracy|time) with \d+ workers: none", said)), 6)
        # 4 workers: 24 clocks in windows of 8, 512 samples each, of an accuracy near chance.
        noise = re.search(r"DTSSP's threshold, table2, 4 workers, refresh_clocks null, seed 1: 3 windows of 8 clocks, 512 samples\n"
                          r"(?:  .*\n)+?  noise expected in LPR.*standard deviation ([\d.]+) to ([\d.]+) %;\n"
                          r"  \+-5 % is .* noise alone moves the threshold in many windows", said)
        with open(self.out / "table2/1/dtssp-1/curve.csv", encoding="utf-8") as file:
            shares = [float(row["train_accuracy"]) for row in csv.DictReader(file)
                      if row["train_accuracy"] and not row["test_accuracy"]]
        for got, p in ((noise.group(1), max(shares)), (noise.group(2), min(shares))):
            self.assertEqual(got, f"{100 * (2 * (1 - p) / (p * 512)) ** 0.5:.2f}")
        # Out of reach: nobody has a mean, and each run is named. Nothing is run again for another target.
        before = {run: run.stat().st_mtime_ns for run in self.out.glob("table2/*/*/summary.json")}
        script = self.reproduce("--target", "0.99", *arguments)
        self.assertEqual(script.end(), 0, script.errors())
        self.assertEqual({run: run.stat().st_mtime_ns for run in before}, before)
        table = script.output()[script.output().index("time to test accuracy 99.00 %"):]
        self.assertRegex(table, r"(?m)^  16 +0/1 +0/1 +0/1$")
        self.assertEqual(len(re.findall(r"    censored, .*: the mean of three evaluations was never at 99.00 %, a single one at most at ", table)), 9)
        self.assertEqual(re.findall(r"winner with \d+ workers: (\S+)", table), ["none"] * 3)
        self.assertEqual(re.findall(r"(?m)^ +\d+ workers  (.*)", table)[:6], ["censored"] * 6)

    def tables_module(self):
        spec = importlib.util.spec_from_file_location("dtssp_tables", harness.SOURCE / "scripts/lib/dtssp_tables.py")
        tables = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(tables)
        return tables

    def test_a_change_is_of_the_seeds_that_both_have_and_of_censored_runs_none(self):
        tables = self.tables_module()

        def table(key, pair, **by_seed):
            return {"key": key, "pairs": [{"first": 0, "second": 1, "inside_margin": False, **pair}],
                    "values": [{"mean": None, "by_seed": values} for values in (by_seed["bsp"], by_seed["dtssp"])]}

        # bsp has a third seed, far from the others; of 100 and 200 s, 15 s less are 10 %.
        bsp, dtssp = {"1": 100, "2": 200, "3": 900}, {"1": 90, "2": 180}
        report = self.folder / "report.json"
        report.write_text(json.dumps({"groups": [{"name": tables.BSP}, {"name": tables.DTSSP}], "tables": [
            table("time", {"mean": -15, "low": -30, "high": 0, "verdict": "undecided"}, bsp=bsp, dtssp=dtssp),
            table("time_to_accuracy", {"mean": -5, "low": -9, "high": -1, "verdict": "censored"},
                  bsp={"1": 50, "2": 60}, dtssp={"1": 45, "2": None})]}), encoding="utf-8")
        comparison = tables.Comparison(report)
        self.assertEqual(comparison.said("time", tables.BSP, tables.DTSSP), "-10.00 % [-20.00, +0.00] undecided")
        self.assertEqual(comparison.said("time", tables.DTSSP, tables.BSP), "+11.11 % [+0.00, +22.22] undecided")
        self.assertEqual(comparison.said("time", tables.BSP, tables.DTSSP, in_percent=False), "-15.00 [-30.00, +0.00] undecided")
        self.assertEqual(comparison.said("time_to_accuracy", tables.BSP, tables.DTSSP), "censored")
        self.assertEqual(comparison.said("time", tables.BSP, tables.SSP3), "unknown")

    def test_more_of_table_2_and_another_rate_are_asked_for(self):
        tools = self.folder / "tools"
        asked = self.folder / "asked"
        self.stand_in(tools / "paceline", f"""[ "$1" = simulate ] && echo "$@" >>{asked}\n[ "$1" = check-config ]\n""")
        self.assertEqual(self.reproduce("--seeds", "1", "--more", "--learning-rate", "0.000025", "table2",
                                        bin_folder=self.with_data(tools)).end(), 1)
        runs = asked.read_text(encoding="utf-8").splitlines()
        # In whatever order those that go beside each other have begun.
        self.assertCountEqual([re.search(rf"--out {self.out}/table2/(\S+)", run).group(1) for run in runs],
                              [f"{folder}/{policy}-1" for folder in ("1", "2", "4", "refresh-1-4")
                               for policy in ("bsp", "ssp3", "dtssp", "ssp10", "walk")])
        for run in runs:
            self.assertIn(" train.optimizer.lr=0.000025 ", run)
            self.assertIn(f" sync.refresh_clocks={1 if 'refresh-1-4' in run else 'null'} ", run)

    def with_data(self, tools):
        """The data set is there, as far as the script looks."""
        (self.out / "data").mkdir(parents=True)
        (self.out / "data/test_batch.bin").touch()
        return tools

    def test_the_whole_experiment_is_a_list_of_cells_each_with_all_iterations_of_real_images(self):
        tools = self.folder / "tools"
        cifar = self.folder / "cifar"
        cifar.mkdir()
        (cifar / "test_batch.bin").touch()
        asked = self.folder / "asked"
        self.stand_in(tools / "paceline", f"""[ "$1" = simulate ] && echo "$@" >>{asked}\nexit 1\n""")
        script = self.reproduce("--full", cifar, "dtssp:4:2", "bsp:1:7", bin_folder=tools)
        self.assertEqual(script.end(), 1)
        # In whatever order they have begun, beside each other.
        cells = sorted(asked.read_text(encoding="utf-8").splitlines(), key=lambda cell: f"--out {self.out}/full/4/" not in cell)
        self.assertEqual(len(cells), 2)
        for cell, run, threads, seed, policy in ((cells[0], "full/4/dtssp-2", 4, 2, "dtssp"),
                                                 (cells[1], "full/1/bsp-7", 1, 7, "bsp")):
            for argument in (f"--out {self.out}/{run} ", f"cluster.threads_per_node={threads} ", f"run.seed={seed} ",
                             "data.kind=cifar10 ", f'data.path="{cifar}" ', "simulate.mode=training ",
                             f"sync.policy={policy}"):
                self.assertIn(argument, cell)
            self.assertNotIn("total_iterations", cell)  # the configuration's 100000
            self.assertIn("train.eval_every_clocks=100 ", cell)
            self.assertIn("sync.refresh_clocks=null ", cell)
        self.reproduce("--full", cifar, "--refresh-clocks", "1", "dtssp:4:2", bin_folder=tools).end()
        cell = asked.read_text(encoding="utf-8").splitlines()[2]
        self.assertIn(f"--out {self.out}/full/refresh-1-4/dtssp-2 ", cell)
        self.assertIn("sync.refresh_clocks=1 ", cell)

    def test_the_whole_experiments_table_is_of_the_cells_that_have_ended(self):
        cifar = self.folder / "cifar"
        made = self.start(harness.BIN / "paceline", "data", "synthesize", "--out", cifar, "--train", "200", "--test", "50")
        self.assertEqual(made.end(), 0, made.errors())
        tools = self.folder / "tools"
        self.stand_in(tools / "paceline", f"""
small="train.model=cifar_cnn_small train.total_iterations=96 train.batch_size=8 train.eval_every_clocks=1 sync.lpr.window_clocks=2 data.kind=synthetic"
case "$*" in
  simulate*4/ssp3-1*) echo "no such luck" >&2; exit 1 ;;
  simulate*4/dtssp-2*)
    {harness.BIN}/paceline "$@" $small
    sed -i 's/"status": "ok",/"status": "failed",\\n  "reason": "worker 0.0 at clock 5: not finite: loss",/' "$4/summary.json"
    echo "worker 0.0 at clock 5: not finite: loss" >&2
    exit 1 ;;
  simulate* | check-config*dtssp_paper*) exec {harness.BIN}/paceline "$@" $small ;;
esac
exec {harness.BIN}/paceline "$@"
""")
        arguments = ("--full", cifar, "--target", "0.01")  # anything gets there
        cells = ("bsp:4:1", "ssp3:4:1", "dtssp:4:1", "bsp:4:2")
        full = self.out / "full"

        def ended(*runs):
            return [json.loads((full / run / "summary.json").read_text(encoding="utf-8")) for run in runs]

        def table(said, title):
            return re.search(rf"Table 2, {title}.*?\n((?:  .*\n)+)", said).group(1)

        def line(said, title, *cells):
            self.assertRegex(table(said, title), r"(?m)^  16 +" + " +".join(map(re.escape, cells)) + "$")

        script = self.reproduce(*arguments, *cells, bin_folder=tools)
        self.assertEqual(script.end(), 1)
        self.assertIn(f"reproduce_dtssp: {full}/4/ssp3-1 failed: no such luck", script.errors())
        said = script.output()
        self.assertIn(f"no result, and in no table: {full}/4/ssp3-1\n", said)
        self.assertNotIn("CUT TO THE BUDGET", said)
        accuracy, seconds = "test accuracy in % after 96 iterations; refresh_clocks null", "time at 96 iterations, s; refresh_clocks null"
        self.assertRegex(table(said, accuracy), r"^  workers +bsp +dtssp 3-10\n")
        one, other, dtssp = ended("4/bsp-1", "4/bsp-2", "4/dtssp-1")
        line(said, accuracy, f"{50 * (one['test_accuracy'] + other['test_accuracy']):.1f}", f"{100 * dtssp['test_accuracy']:.1f}")
        line(said, seconds, f"{(one['wall_seconds'] + other['wall_seconds']) / 2:.1f}", f"{dtssp['wall_seconds']:.1f}")
        self.assertRegex(table(said, "time to test accuracy 1.00 %, s; refresh_clocks null"), r"(?m)^  16 +\d+\.\d +\d+\.\d$")
        self.assertIn("DTSSP's threshold, full, 16 workers, refresh_clocks null, seed 1: 3 windows of 2 clocks, 256 samples", said)

        # One that diverges is censored, and has no mean; it is said, made once and not again, since it would do the same.
        before = {}
        for _ in range(2):
            script = self.reproduce(*arguments, "bsp:4:1", "dtssp:4:2", bin_folder=tools)
            self.assertEqual(script.end(), 1)
            self.assertRegex("\n".join(script.errors()), rf"reproduce_dtssp: {full}/4/dtssp-2 failed: .*: not finite: ")
            said = script.output()
            line(said, accuracy, f"{50 * (one['test_accuracy'] + other['test_accuracy']):.1f}", "1/2")
            line(said, seconds, f"{(one['wall_seconds'] + other['wall_seconds']) / 2:.1f}", "1/2")
            self.assertRegex(table(said, accuracy), rf"16 workers  censored\n.*none\n    censored, {full}/4/dtssp-2: failed ")
            made = {run: (full / "4" / run / "summary.json").stat().st_mtime_ns for run in ("bsp-1", "bsp-2", "dtssp-1", "dtssp-2")}
            self.assertIn(before, ({}, made))
            before = made

        # Cells of another refresh_clocks, made later, have a table of their own, and the first stays.
        script = self.reproduce(*arguments, "--refresh-clocks", "1", "dtssp:4:1", bin_folder=tools)
        self.assertEqual(script.end(), 0, script.errors())
        line(script.output(), accuracy, f"{50 * (one['test_accuracy'] + other['test_accuracy']):.1f}", "1/2")
        line(script.output(), "test accuracy in % after 96 iterations; refresh_clocks 1",
             f"{100 * ended('refresh-1-4/dtssp-1')[0]['test_accuracy']:.1f}")

    def test_a_signal_stops_it_and_the_same_command_goes_on(self):
        tools = self.folder / "tools"
        begun = self.folder / "begun"
        os.mkfifo(begun)
        self.stand_in(tools / "paceline", f"""[ "$1" = simulate ] || exit 1\necho begun >{begun}\nexec sleep 1000\n""")
        fifo = os.open(begun, os.O_RDWR)  # without an end, whoever opens and closes it
        self.addCleanup(os.close, fifo)
        for number in (signal.SIGTERM, signal.SIGINT):
            script = self.reproduce("sweep", bin_folder=tools)
            said = b""
            while said.count(b"begun\n") < min(30, len(os.sched_getaffinity(0))):  # as many as there are processors
                said += os.read(fifo, 6)
            script.send(number)
            self.assertEqual(script.end(), 1)
            self.assertEqual(script.errors()[-1],
                             f"reproduce_dtssp: stopped; the same command goes on with {self.out}/sweep/as-assumed/bsp-1")
            self.wait_for_no_children(script)
            self.assertEqual(select.select([fifo], [], [], 0)[0], [])  # nothing was begun after it

    def test_wrong_usage(self):
        for *arguments, complaint in (
                ("table3", "no part 'table3' (see --help)"),
                ("--seeds", "none", "--seeds needs a number, got 'none'"),
                ("--seeds", "0", "--seeds needs 1 or more"),
                ("--iterations", "--iterations needs a number"),
                ("--target", "1.5", "--target needs a share between 0 and 1, got '1.5'"),
                ("--refresh-clocks", "0", "--refresh-clocks needs a number or null, got '0'"),
                ("--refresh-clocks", "1", "--refresh-clocks goes with --full (see --help)"),
                ("--nonsense", "unknown option '--nonsense' (see --help)"),
                ("bsp:4:1", "cells go with --full (see --help)"),
                ("--full", "absent", "no CIFAR-10 in 'absent' (its binary format; see --help)")):
            with self.subTest(arguments=arguments):
                script = self.reproduce(*arguments)
                self.assertEqual((script.end(), script.errors()), (2, [f"reproduce_dtssp: {complaint}"]))
        (self.folder / "test_batch.bin").touch()
        for cell in ("tap:4:1", "bsp:3:1", "bsp:4:x"):
            script = self.reproduce("--full", self.folder, cell)
            self.assertEqual((script.end(), script.errors()), (2, [f"reproduce_dtssp: no cell '{cell}' (see --help)"]))


if __name__ == "__main__":
    harness.main()
