"""What scripts/gpu_check.sh measured, in one table: python3 gpu_table.py LINES.jsonl PROGRAMS.

Of the lines that these programs gave; of what was looked at again, with more rounds say, the last time's. A figure without a target is one to
know. Exit status: 1 where a target is not met.
"""
import json
import sys
from pathlib import Path

CHECKS = ("gradients", "sanitizer", "torch")
SKIPPED = 77  # scripts/gpu_check.sh's checked()


def rows_of(line):
    """(what, measured, target, whether it is met; None: there is no target) of one line."""
    kind, limit = line["benchmark"], line.get("limit")
    cell = " ".join(str(line[key]) for key in ("model", "batch", "precision", "device") if key in line)
    if kind in CHECKS and line["status"] == SKIPPED:
        yield line["what"], "skipped", "passed", None
    elif kind in CHECKS:
        yield line["what"], "passed" if line["status"] == 0 else f"status {line['status']}", "passed", line["status"] == 0
    elif kind in ("gpu_step_vs_pytorch", "gpu_server_vs_pytorch"):
        theirs = line[f"{line['fastest']}_ms"]
        what = "step"
        if kind == "gpu_server_vs_pytorch":
            what += (f" through the server, refresh_clocks {line['refresh_clocks']}, on_device "
                     f"{line.get('on_device', 'auto')}")
        yield (f"{what}, {cell}", f"{line['ours_ms']:.3f} ms / PyTorch {theirs:.3f} = {line['ratio']:.3f}",
               "" if limit is None else f"<= {limit:g}", None if limit is None else line["ratio"] <= limit)
        if "sent_ms" in line:
            part = "nothing to hide" if line["hidden"] is None else f"{100 * line['hidden']:.0f} % hidden"
            yield (f"the same with on_device off, {cell}",
                   f"{line['predicted_ms']:.3f} ms, sent in front {line['sent_ms']:.3f}: {part}", "", None)
    elif kind == "loss_beside_cpu":
        yield (f"loss beside the CPU, {cell}", f"{100 * line['mean_difference']:.3f} %", f"<= {100 * limit:g} %",
               line["mean_difference"] <= limit)
    elif kind == "gpu_threads":
        yield (f"{line['threads']} threads, {cell}", f"{line['samples_per_second']} samples/s, {line['to_one']:.2f} of one",
               "" if limit is None else f">= {limit:g}", None if limit is None else line["to_one"] >= limit)
    elif kind == "through_server":
        yield (f"through the server / bare loop, refresh_clocks {line.get('refresh_clocks', '1')}, {cell}", f"{line['ratio']:.3f}", f">= {limit:g}", line["ratio"] >= limit)
    elif kind == "gpu_cell":
        yield (f"DTSSP cell, {line['asked']} iterations, {line['data']}, learning rate {line['learning_rate']:g}, {cell}",
               f"{line['wall_seconds']:.0f} s for {line['iterations']}, {line['seconds_whole']:.0f} s for 100000, "
               f"accuracy {line['test_accuracy']:.4f}",
               "" if limit is None else f"<= {limit:g} s", None if limit is None else line["seconds_whole"] <= limit)


def main():
    lines = [json.loads(line) for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    of_these = [line for line in lines if line.get("programs") == sys.argv[2]]
    rows = list({row[0]: row for line in of_these for row in rows_of(line)}.values())
    table = [("", "measured", "target", "met")]
    table += [(what, measured, target, {None: "", True: "yes", False: "NO"}[met]) for what, measured, target, met in rows]
    widths = [max(len(row[n]) for row in table) for n in range(4)]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    return 1 if any(met is False for *_, met in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
