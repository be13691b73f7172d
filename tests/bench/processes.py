"""Processes of a benchmark: started side by side, ended together, whatever happens."""
import json
import os
import signal
import subprocess
import sys

TIMEOUT_SECONDS = 600  # of one run
FAILED = 3  # a benchmark's exit status when it measured nothing; 1 says that a figure missed its target


def fail(message):
    print(message, file=sys.stderr)
    sys.exit(FAILED)


def say(result, file):
    """Prints the object as a line of JSON, and appends it to the file, too, if there is one."""
    line = json.dumps(result)
    print(line, flush=True)
    if file:
        with open(file, "a", encoding="utf-8") as lines:
            lines.write(line + "\n")


def fail_unforeseen(*exception):
    sys.__excepthook__(*exception)
    sys.stderr.flush()
    os._exit(FAILED)  # the status that Python itself would give is 1


sys.excepthook = fail_unforeseen


def out_of_time(*_):
    raise TimeoutError(f"a run did not end within {TIMEOUT_SECONDS} s")


# They would end Python where it stands: no `finally`, processes and folders left behind.
ENDING = {number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) != signal.SIG_IGN}  # nohup


def end_in_order(number, _):
    for again in ENDING:
        signal.signal(again, signal.SIG_IGN)  # a second one must not cut the cleaning up short
    fail(f"stopped by {signal.Signals(number).name}")


for number in ENDING:
    signal.signal(number, end_in_order)


def available_bytes():
    """What new processes may take without anything being pushed out of memory."""
    with open("/proc/meminfo") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


def run_all(commands, folder, peaks=None):
    """Runs the commands side by side; their processor seconds. What the n-th says stays in folder/stdout<n>, stderr<n>;
    the most memory it had in use (VmHWM), in bytes, becomes peaks[n].

    The first that fails ends all of them and the benchmark (exit status FAILED), which says which it was."""
    processes = {}
    signal.signal(signal.SIGALRM, out_of_time)
    signal.alarm(TIMEOUT_SECONDS)
    try:
        for n, command in enumerate(commands):
            with open(folder / f"stdout{n}", "w") as out, open(folder / f"stderr{n}", "w") as err:
                process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command],  # should this be killed
                                           stdin=subprocess.DEVNULL, stdout=out, stderr=err)
            processes[process.pid] = n, process
        seconds = 0.0
        running = set(processes)
        while running:
            pid, status, usage = os.wait4(-1, 0)  # whichever ends first: a server waits long for a worker that died
            if pid not in running:
                continue
            running.remove(pid)
            n, process = processes[pid]
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode != 0:
                output = (folder / f"stderr{n}").read_text().strip()
                fail(f"{' '.join(map(str, commands[n]))}: exit status {process.returncode}: {output}")
            seconds += usage.ru_utime + usage.ru_stime
            if peaks is not None:
                peaks[n] = usage.ru_maxrss * 1024
        return seconds
    finally:
        signal.alarm(0)
        for _, process in processes.values():
            if process.returncode is None:
                process.kill()
                process.wait()
