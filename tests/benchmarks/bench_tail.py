"""What following a hundred pods' logs costs: CPU, lag and memory.

A plain script: `./run bench`. A process writes realistic CRI lines and rotates its files as the
kubelet does, each line with the time of its write; another follows them with a sweep a second.
"""

import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from rightslice.exporter.host.oom.log_format import CriOrDocker
from rightslice.exporter.host.oom.log_tail import LogTail
from rightslice.exporter.host.oom.patterns import load_patterns
from rightslice.exporter.host.oom.positions import PositionFile

FILE_COUNT = 100
SECONDS = 12.0 if "--quick" in sys.argv else 40.0
RATES_MB_PER_SECOND = (5, 20)
AIM_PERCENT = {5: 3.0, 20: 12.0}
BYTES_PER_MB, BYTES_PER_MIB, KIB_PER_MIB = 1_000_000, 1024 * 1024, 1024
NANOSECONDS_PER_SECOND = 1_000_000_000
ROTATE_BYTES = 10 * BYTES_PER_MIB
TICK_SECONDS = 0.05
SWEEP_SECONDS = 1.0
# A line that is looked for, one a second; it tells when it was written.
MARK = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB at "
TEXTS = (
    'INFO:     10.42.0.17:51234 - "POST /v1/completions HTTP/1.1" 200 OK',
    "INFO 01-02 03:04:05 [loggers.py:116] Engine 000: Avg prompt throughput: 1391.2 tokens/s, Avg "
    "generation throughput: 402.7 tokens/s, Running: 12 reqs, Waiting: 0 reqs, GPU KV cache: 31.0%",
    '{"level":"info","ts":"2026-01-02T03:04:05.678Z","msg":"step","loss":2.1734,"lr":0.0003}',
    "Epoch 3:  41%|####1     | 4123/10000 [12:34<17:56,  5.46it/s, loss=1.83, v_num=7]",
)


def stamp(now_seconds: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now_seconds))
    return f"{whole}.{int(now_seconds % 1 * NANOSECONDS_PER_SECOND):09d}Z"


def write(folder: Path, rate_bytes: float) -> None:
    """Write for some seconds, a part of each second's bytes with every tick."""
    files = [(folder / f"{number}.log").open("ab", buffering=0) for number in range(FILE_COUNT)]
    started = time.monotonic()
    written, rotated, tick = 0, 0, 0
    while (elapsed := time.monotonic() - started) < SECONDS:
        lines = [f"{stamp(time.time())} stdout F {text}\n" for text in TEXTS]
        block = "".join(lines).encode()
        repeats = max(1, round((elapsed * rate_bytes - written) / len(block) / FILE_COUNT))
        for number, file in enumerate(files):
            file.write(block * repeats)
            if number == tick % FILE_COUNT and tick % 20 == 0:
                file.write(f"{stamp(time.time())} stderr F {MARK}{time.time():.3f}\n".encode())
            if file.tell() > ROTATE_BYTES:
                path = folder / f"{number}.log"
                path.rename(f"{path}.{20260101 + rotated}-000000")
                rotated += 1
                file.close()
                files[number] = path.open("ab", buffering=0)
        written += len(block) * repeats * FILE_COUNT
        tick += 1
        time.sleep(max(0.0, started + tick * TICK_SECONDS - time.monotonic()))


def measure(rate_mb: int) -> None:
    with TemporaryDirectory(prefix="bench-tail-") as name:
        folder = Path(name)
        command = [sys.executable, __file__, "--write", name, str(rate_mb * BYTES_PER_MB)]
        command += [flag for flag in sys.argv if flag == "--quick"]
        tail = LogTail(time.time())
        state = PositionFile(folder / "state.json")
        wanted = {folder / f"{number}.log": CriOrDocker for number in range(FILE_COUNT)}
        may_match = load_patterns().may_match
        lags_seconds, message_count, longest_seconds = list[float](), 0, 0.0
        with subprocess.Popen(command) as writer:
            before = time.process_time()
            started = time.monotonic()
            next_sweep = started
            while True:
                is_last = writer.poll() is not None
                tail.follow(wanted)
                sweep_started = time.monotonic()
                found = [message for _, message in tail.read(may_match)]
                state.save(tail.positions(), is_idle=not found)
                now_seconds = time.time()
                longest_seconds = max(longest_seconds, time.monotonic() - sweep_started)
                message_count += len(found)
                lags_seconds += [
                    now_seconds - float(message.text.removeprefix(MARK))
                    for message in found
                    if message.text.startswith(MARK)
                ]
                if is_last:
                    break
                next_sweep += SWEEP_SECONDS
                time.sleep(max(0.0, next_sweep - time.monotonic()))
            cpu = time.process_time() - before
            wall = time.monotonic() - started
        percent = 100 * cpu / wall
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIB_PER_MIB
        print(
            f"{tail.read_bytes / BYTES_PER_MB / wall:5.1f} MB/s, {FILE_COUNT} files: "
            f"{percent:.2f} % of a core (aim {AIM_PERCENT[rate_mb]:.0f} %), "
            f"lag at most {max(lags_seconds):.2f} s of {len(lags_seconds)} marks (aim 2 s), "
            f"longest sweep {longest_seconds:.3f} s, {message_count} messages decoded, "
            f"skipped {tail.skipped_bytes} bytes, at most {resident:.1f} MiB resident",
            flush=True,
        )


def main() -> None:
    if "--write" in sys.argv:
        at = sys.argv.index("--write")
        write(Path(sys.argv[at + 1]), float(sys.argv[at + 2]))
        return
    print("Following logs")
    for rate_mb in RATES_MB_PER_SECOND:
        measure(rate_mb)


if __name__ == "__main__":
    main()
