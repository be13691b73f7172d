"""Processes of a benchmark: started side by side, ended together, whatever happens."""
import os
import signal
import subprocess
import sys

TIMEOUT_SECONDS = 600  # of one run


def out_of_time(*_):
    raise TimeoutError(f"a run did not end within {TIMEOUT_SECONDS} s")


def run_all(commands, folder):
    """Runs the commands side by side; their processor seconds. What the n-th says stays in folder/stdout<n>, stderr<n>."""
    processes = []
    signal.signal(signal.SIGALRM, out_of_time)
    signal.alarm(TIMEOUT_SECONDS)
    try:
        for n, command in enumerate(commands):
            with open(folder / f"stdout{n}", "w") as out, open(folder / f"stderr{n}", "w") as err:
                processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err))
        seconds = 0.0
        for n, process in enumerate(processes):
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode != 0:
                said = (folder / f"stderr{n}").read_text().strip()
                sys.exit(f"{' '.join(map(str, commands[n]))}: exit status {process.returncode}: {said}")
            seconds += usage.ru_utime + usage.ru_stime
        return seconds
    finally:
        signal.alarm(0)
        for process in processes:
            if process.returncode is None:
                process.kill()
                process.wait()
