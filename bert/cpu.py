"""Settings of the processor and of the memory that make every run of the network faster."""

import ctypes

import torch


def configure_cpu(threads: int | None = None) -> None:
    """Settings that make the network faster on a CPU and change no result that matters.

    Numbers too small for float32's normal range are flushed to zero, and freed memory stays with
    the process: giving it back and asking again costs a fifth of every training
    step, and as much of every text of 128 tokens. A server gives each text one thread: a second
    one gains little, and takes a processor from the next visitor.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return  # not glibc
    trim_threshold, top_pad, mmap_threshold = -1, -2, -3
    for name, value in ((mmap_threshold, 1 << 30), (trim_threshold, (1 << 31) - 1),
                        (top_pad, 1 << 28)):
        mallopt(name, value)
