"""A real run's trace, event by event, and what is read from it. See harness.py."""

import collections
import csv
import json

import harness
from harness import DaemonTest

PHASES = ("BATCH", "COMPUTE_GRADS", "APPLY_GRADS", "PS_APPLY_GRADS", "STEP", "BARRIER", "PS_PARAM", "P_CACHE_PARAM",
          "T_CACHE_PARAM")


class Traces(DaemonTest):
    """What run.trace leaves, what it is worth, and what becomes of a damaged one."""

    def traced_run(self, *overrides, iterations=200):
        self.configure(shards=2)
        servers, nodes = self.start_run(f"train.total_iterations={iterations}", "run.trace=true", "sync.policy=bsp",
                                        "train.eval_every_clocks=20", *overrides)
        self.assert_end_quietly(servers + nodes)
        trace = json.loads((self.run_dir / "trace.json").read_text(encoding="utf-8"))
        self.names = {event["tid"]: event["args"]["name"] for event in trace["traceEvents"]
                      if event["ph"] == "M" and event["name"] == "thread_name"}
        self.spans = collections.defaultdict(list)  # by the thread's name
        self.decisions = collections.defaultdict(list)  # by kind
        for event in trace["traceEvents"]:
            if event["ph"] == "X":
                self.spans[self.names[event["tid"]]].append(event)
            elif event["ph"] == "i":
                self.decisions[event["name"]].append(event)
        return trace

    def workers(self):
        return {name.removeprefix("worker "): spans for name, spans in self.spans.items() if name.startswith("worker ")}

    def phase_seconds(self):
        """By worker and phase, as phases.csv says."""
        with open(self.run_dir / "phases.csv", encoding="utf-8", newline="") as file:
            return {(f"{row['node']}.{row['thread']}", row["phase"]): float(row["total_seconds"])
                    for row in csv.DictReader(file)}

    def test_every_event_of_a_run_is_in_it_and_adds_up(self):
        trace = self.traced_run()
        summary = self.summary()
        self.assertEqual((summary["status"], summary["trace_events_left_out"]), ("ok", 0))
        events = [event for event in trace["traceEvents"] if event["ph"] in "Xi"]
        self.assertEqual(len(events), summary["trace_events"])
        self.assertEqual(trace["otherData"]["events"], summary["trace_events"])
        self.assertEqual(sorted(self.workers()), ["0.0", "0.1", "1.0", "1.1"])

        self.assert_nothing_overlaps()
        self.assert_sums_are_those_of_the_phases()
        self.assert_every_iteration_was_granted()
        self.assert_every_wait_has_a_decision()
        self.assert_viewers_have_curves_and_arrows(trace["traceEvents"])
        self.assert_shards_applied_what_was_decided()
        self.assertEqual(len(self.decisions["report"]), 200)
        asked = [event["args"]["version"] for event in self.decisions["evaluate"]]
        self.assertEqual(asked, [event["args"]["version"] for event in self.decisions["evaluated"]])
        self.assertEqual(asked[-1], summary["final_version"])

        self.assert_explained()
        self.assert_merged_again(trace)

    def assert_nothing_overlaps(self):
        for name, spans in self.spans.items():
            for before, after in zip(spans, spans[1:]):
                self.assertGreaterEqual(after["ts"], before["ts"] + before["dur"] - 0.002, name)
        for kind, decisions in self.decisions.items():
            times = [event["ts"] for event in decisions]
            self.assertEqual(times, sorted(times), kind)

    def assert_sums_are_those_of_the_phases(self):
        expected = self.phase_seconds()
        for worker, spans in self.workers().items():
            sums = collections.Counter()
            for span in spans:
                sums[span["name"]] += span["dur"] * 1e-6
            self.assertLessEqual(set(sums), set(PHASES))
            for phase in PHASES:
                self.assertAlmostEqual(sums[phase], expected[worker, phase], delta=max(1e-6, expected[worker, phase] * 0.01),
                                       msg=f"{worker} {phase}")

    def assert_every_iteration_was_granted(self):
        granted = {(event["args"]["worker"], event["args"]["clock"]): event["ts"] for event in self.decisions["grant"]}
        self.assertEqual(len(granted), 200)
        for worker, spans in self.workers().items():
            computed = [span for span in spans if span["name"] == "COMPUTE_GRADS"]
            self.assertEqual([span["args"]["clock"] for span in computed], list(range(50)))
            for span in computed:
                self.assertLessEqual(granted[worker, span["args"]["clock"]], span["ts"], (worker, span))

    def assert_viewers_have_curves_and_arrows(self, events):
        points = [event for event in events if event["ph"] == "C"]
        self.assertEqual({point["name"] for point in points if point["name"] != "LPR"}, {"workers held", "threshold"})
        held = [point["args"]["workers"] for point in points if point["name"] == "workers held"]
        self.assertEqual((min(held), max(held) <= 3), (0, True))  # of four workers one is waited for
        starts = {event["id"]: event for event in events if event["ph"] == "s"}
        waits = {(worker, span["args"]["clock"]): span for worker, spans in self.workers().items() for span in spans
                 if span["name"] == "BARRIER" and span["dur"] > 0}
        grants = {(event["args"]["worker"], event["args"]["clock"]): event for event in self.decisions["grant"]}
        ends = [event for event in events if event["ph"] == "f"]
        self.assertEqual(len(ends), len(starts))
        let_go = [key for key in waits if key in grants and grants[key]["args"].get("released_by") == "worker"]
        self.assertEqual(len(ends), len(let_go))
        for end in ends:
            worker = self.names[end["tid"]].removeprefix("worker ")
            clock, = (clock for (of, clock), span in waits.items()
                      if of == worker and span["ts"] <= end["ts"] < span["ts"] + span["dur"])
            start = starts[end["id"]]
            self.assertEqual(self.names[start["tid"]], "worker " + grants[worker, clock]["args"]["by"])
            self.assertLessEqual(start["ts"], end["ts"])

    def assert_every_wait_has_a_decision(self):
        """One who stood at a barrier was held by a decision, for somebody, and let go by another."""
        holds = {(event["args"]["worker"], event["args"]["clock"]): event for event in self.decisions["hold"]}
        grants = {(event["args"]["worker"], event["args"]["clock"]): event for event in self.decisions["grant"]}
        waited = 0
        for worker, spans in self.workers().items():
            for span in spans:
                key = worker, span["args"]["clock"]
                if span["name"] != "BARRIER" or key not in grants:
                    continue
                waited += 1
                self.assertLessEqual(span["dur"], grants[key]["args"]["held_us"] + 0.001)
                self.assertIn(key, holds)
                self.assertLessEqual(holds[key]["ts"], grants[key]["ts"])
                self.assertNotEqual(holds[key]["args"]["by"], worker)
                self.assertEqual(grants[key]["args"]["released_by"], "worker")
                self.assertNotEqual(grants[key]["args"]["by"], worker)
        self.assertGreater(waited, 0)  # three of four wait in each clock

    def assert_shards_applied_what_was_decided(self):
        decided = [(event["args"]["version"], event["args"]["revision"]) for event in self.decisions["apply"]]
        self.assertEqual(decided[-1][1], 200)
        for shard in ("shard 0", "shard 1"):
            applied = [(event["args"]["version"], event["args"]["revision"]) for event in self.spans[shard]]
            # The final state is one more, for the model's file.
            self.assertEqual(applied[:len(decided)], decided, shard)

    def assert_explained(self):
        worker, longest = max(((worker, span) for worker, spans in self.workers().items() for span in spans
                               if span["name"] == "BARRIER" and span["args"]["clock"] < 50), key=lambda pair: pair[1]["dur"])
        one = self.paceline("explain", self.run_dir, "--worker", worker, "--clock", longest["args"]["clock"])
        self.assertEqual((one.returncode, one.stderr), (0, ""))
        self.assertRegex(one.stdout, rf"^worker {worker}, clock {longest['args']['clock']}: waited [\d.]+ ms from [\d.]+ s on\n")
        self.assertRegex(one.stdout, r"barrier +[\d.]+ ms  1 ahead of worker [01]\.[01] \(clock \d+\), threshold 0")
        self.assertRegex(one.stdout, r"let go at [\d.]+ s: worker [01]\.[01] moved on")

        explained = self.paceline("explain", self.run_dir, "--format", "json")
        self.assertEqual((explained.returncode, explained.stderr), (0, ""))
        whole = json.loads(explained.stdout)
        phases = self.phase_seconds()
        causes = {cause["cause"]: cause["seconds"] for cause in whole["causes"]}
        for cause, names in (("barrier", ["BARRIER"]), ("parameters", ["PS_PARAM"]), ("data", ["BATCH"])):
            expected = sum(seconds for (_, phase), seconds in phases.items() if phase in names)
            self.assertAlmostEqual(causes[cause], expected, delta=max(1e-5, expected * 0.01), msg=cause)
        exchange = sum(seconds for (_, phase), seconds in phases.items() if phase in ("PS_APPLY_GRADS", "STEP"))
        self.assertAlmostEqual(causes["network"] + causes["server"], exchange, delta=max(1e-5, exchange * 0.01))
        costs = [wait["waited_seconds"] for wait in whole["costliest"]]
        self.assertEqual((len(costs), costs), (10, sorted(costs, reverse=True)))

    def assert_merged_again(self, before):
        (self.run_dir / "trace.json").unlink()
        merged = self.paceline("trace", self.run_dir)
        self.assertEqual((merged.returncode, merged.stderr), (0, ""))
        self.assertIn(f"trace.json: {before['otherData']['events']} events of 4 processes, 0 left out", merged.stdout)
        self.assertEqual(json.loads((self.run_dir / "trace.json").read_text(encoding="utf-8")), before)

    def test_a_trace_has_a_bound_and_keeps_the_newest(self):
        trace = self.traced_run("run.trace_events=1000", iterations=400)
        summary = self.summary()
        self.assertLessEqual(summary["trace_events"], 1000 + 8)
        self.assertGreater(summary["trace_events_left_out"], 1000)
        self.assertEqual(trace["otherData"]["left_out"], summary["trace_events_left_out"])
        for worker, spans in self.workers().items():
            self.assertEqual(max(span["args"]["clock"] for span in spans if span["name"] == "COMPUTE_GRADS"), 99, worker)
        log = (self.run_dir / "server.log").read_text(encoding="utf-8")
        self.assertIn(f"{summary['trace_events_left_out']} older ones are left out (run.trace_events)", log)
        gone = self.paceline("explain", self.run_dir, "--worker", "0.0", "--clock", "1")
        self.assertEqual((gone.returncode, gone.stdout), (2, ""))
        self.assertIn("older ones are left out of the trace (run.trace_events)", gone.stderr)

    def test_a_damaged_trace_is_refused_with_its_place(self):
        self.traced_run(iterations=40)
        path = self.run_dir / "trace.json"
        text = path.read_text(encoding="utf-8")
        within_a_token = text.index('"ts"', len(text) // 2) + 2  # after a } or a comma it would be cut off, but no fault
        for damaged, output in ((text[:within_a_token], rf"{path}:\d+: no event: "),
                              (text.replace('"name":"grant"', '"name":"gift"', 1), rf'{path}:\d+: a decision "gift"'),
                              (text.replace("paceline_trace", "trace"), rf"{path}:1: no trace of Paceline's: ")):
            path.write_text(damaged, encoding="utf-8")
            for command in (("explain", self.run_dir), ("simulate", self.config, "--out", self.folder / "sim", "--trace",
                                                        self.run_dir, "train.total_iterations=40", "sync.policy=bsp")):
                refused = self.paceline(*command)
                self.assertEqual((refused.returncode, refused.stdout), (2, ""), command)
                self.assertRegex(refused.stderr, f"^paceline {command[0]}: {output}")

    def test_a_simulation_computes_as_long_as_the_traced_run(self):
        self.traced_run(iterations=40)
        out = self.folder / "sim"
        simulated = self.paceline("simulate", self.config, "--out", out, "--trace", self.run_dir,
                                  "train.total_iterations=40", "sync.policy=asp", "run.trace=true")
        self.assertEqual((simulated.returncode, simulated.stderr), (0, ""))
        trace = json.loads((out / "trace.json").read_text(encoding="utf-8"))
        lengths = collections.defaultdict(list)
        for event in trace["traceEvents"]:
            if event["ph"] == "X" and event["name"] == "COMPUTE_GRADS":
                lengths[event["tid"]].append(event["dur"])
        for tid, name in self.names.items():
            if name.startswith("worker "):
                real = [span["dur"] for span in self.spans[name] if span["name"] == "COMPUTE_GRADS"]
                self.assertEqual(lengths[tid], real, name)  # the same, one after another
        explained = self.paceline("explain", out)
        self.assertEqual((explained.returncode, explained.stderr), (0, ""))

    def test_a_run_that_is_not_traced_leaves_none_and_says_how_to_have_one(self):
        self.configure()
        servers, nodes = self.start_run("train.total_iterations=40")
        self.assert_end_quietly(servers + nodes)
        self.assertEqual(list(self.run_dir.glob("trace*")), [])
        self.assertNotIn("trace_events", self.summary())
        for command in ("explain", "trace"):
            refused = self.paceline(command, self.run_dir)
            self.assertEqual((refused.returncode, refused.stdout), (2, ""))
            self.assertIn("expected those of a run with run.trace: true", refused.stderr)


if __name__ == "__main__":
    harness.main()
