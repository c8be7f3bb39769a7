"""Runs a part of a check in a child process, which may crash."""

import gc
import os


def run(work):
    """Calls work(pipe) in a child process without standard streams, and returns what it wrote to the pipe, and the
    exit status. An exception, which is a fault of the script, becomes the last line, with status 1."""
    gc.freeze()  # so that the child's collections do not copy the parent's pages
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        try:
            work(writing)
        except BaseException as error:
            os.write(writing, f"{error!r}\n".encode())
            os._exit(1)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, errors="replace") as pipe:
        text = pipe.read()
    return text, os.waitpid(child, 0)[1]
