"""What a confined process may not do, asked of the kernel: by seccomp and Landlock together, and
by each of them alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.core.platforms.landlock import give_up_writing

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the kernel of another system refuses none of this"
)

TRIED = """
import ctypes, fcntl, mmap, os, resource, signal, socket, struct, subprocess, sys, threading
from engine.corpus.sandbox import confinement

kept, without = sys.argv[1:]
parent = os.getppid()
libc = ctypes.CDLL(None, use_errno=True)
if without:
    setattr(confinement, without, lambda **_: True)
with open(kept) as file:
    assert file.read() == "kept"
assert confinement.confine(2**31).calls

def call(name, *arguments):
    function = (lambda *more: libc.syscall(name, *more)) if isinstance(name, int) else getattr(libc, name)
    if function(*arguments) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

def mapped():
    with open(kept, "r+b") as file, mmap.mmap(file.fileno(), 4) as memory:
        memory[:] = b"LOST"

def asked(command, argument):
    with open(kept) as file:
        fcntl.ioctl(file, command, argument)

def owned():
    with open("/dev/null") as file:
        fcntl.fcntl(file, fcntl.F_SETOWN, parent)

def locked(by, how):
    with open(kept) as file:
        by(file, how | fcntl.LOCK_NB)

path, here = kept.encode(), -100
place = struct.pack("QQ", id(path), 1)
tried = {
    "internet": lambda: socket.socket(socket.AF_INET), "unix socket": lambda: socket.socket(socket.AF_UNIX),
    "datagrams": lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM),
    "packets": lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET),
    "program": lambda: os.execv("/bin/true", ["true"]), "fork": os.fork, "subprocess": lambda: subprocess.run(["true"]),
    "new": lambda: open(kept + "2", "w"), "empty": lambda: open(kept, "w"), "append": lambda: open(kept, "a"),
    "both": lambda: open(kept, "r+"), "mapped": mapped, "unnamed": lambda: os.open(os.path.dirname(kept), os.O_TMPFILE | os.O_RDWR),
    "openat2": lambda: call(437, here, path, struct.pack("QQQ", os.O_WRONLY, 0, 0), 24),
    "unlink": lambda: os.unlink(kept), "rename": lambda: os.rename(kept, kept + "3"), "mkdir": lambda: os.mkdir(kept + "4"),
    "rmdir": lambda: os.rmdir(kept + ".d"),
    "symlink": lambda: os.symlink("x", kept + "5"), "link": lambda: os.link(kept, kept + "6"),
    "fifo": lambda: os.mkfifo(kept + "7"), "truncate": lambda: os.truncate(kept, 0), "chmod": lambda: os.chmod(kept, 0o777),
    "fchmodat2": lambda: call(452, here, path, 0o777, 0),
    "chown": lambda: os.chown(kept, os.getuid(), os.getgid()), "xattr": lambda: os.setxattr(kept, "user.x", b"x"),
    "setxattrat": lambda: call(463, here, path, 0, b"user.x", struct.pack("QII", 0, 0, 0), 16),
    "time": lambda: os.utime(kept), "flags": lambda: asked(0x40086602, struct.pack("l", 0)),
    "kill": lambda: os.kill(parent, 0), "tgkill": lambda: call("tgkill", parent, parent, 0),
    "pidfd": lambda: call(434, parent, 0), "limits": lambda: resource.prlimit(parent, resource.RLIMIT_CPU),
    "flock": lambda: locked(fcntl.flock, fcntl.LOCK_EX), "lock": lambda: locked(fcntl.lockf, fcntl.LOCK_SH),
    "owner": owned, "priority": lambda: os.setpriority(os.PRIO_PROCESS, parent, 19),
    "scheduler": lambda: os.sched_setaffinity(parent, {0}),
    "memory": lambda: open(f"/proc/{parent}/mem", "rb"), "environment": lambda: open(f"/proc/{parent}/environ").read(),
    "trace": lambda: call("ptrace", 16, parent, None, None), "userspace": lambda: call("unshare", 0x10000000),
    "read memory": lambda: call("process_vm_readv", parent, place, 1, place, 1, 0),
    "io_uring": lambda: call(425, 1, bytes(120)), "shared memory": lambda: call("shmget", 7, 1, 0o1600),
}
done = []
for name, act in tried.items():
    try:
        act()
        done.append(name)
    except OSError:
        pass
thread = threading.Thread(target=lambda: done.append("thread"))
thread.start()
thread.join()
print(*done, sep=",")
"""  # noqa: E501
OF_FILES = {
    "new",
    "empty",
    "append",
    "both",
    "mapped",
    "unnamed",
    "openat2",
    "unlink",
    "rename",
    "mkdir",
    "rmdir",
    "symlink",
    "link",
    "fifo",
    "truncate",
}
IN_PROC = {"memory", "environment"}


def attempted(folder: Path, without: str = "") -> set[str]:
    """What a confined process could do all the same; the file that it tried to change is as it
    was.
    """
    kept = folder / "kept.txt"
    kept.write_text("kept")
    kept.with_name("kept.txt.d").mkdir()
    before = kept.stat()
    done = subprocess.run(
        [sys.executable, "-c", TRIED, kept, without], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    if not without:
        after = kept.stat()
        assert (after.st_mode, after.st_mtime_ns, kept.read_text()) == (
            before.st_mode,
            before.st_mtime_ns,
            "kept",
        )
        assert sorted(path.name for path in folder.iterdir()) == ["kept.txt", "kept.txt.d"]
    return set(done.stdout.strip().split(","))


def landlocked() -> int:
    """The version of Landlock here."""
    asked = f"from {give_up_writing.__module__} import *; print(give_up_writing())"
    return int(
        subprocess.run(
            [sys.executable, "-c", asked], capture_output=True, text=True, check=True
        ).stdout
    )


def test_a_confined_process_changes_no_file_and_reaches_no_other_process(tmp_path: Path) -> None:
    assert attempted(tmp_path) - (set() if landlocked() else IN_PROC) == {"thread"}


def test_refused_calls_alone_leave_only_what_lies_in_proc(tmp_path: Path) -> None:
    done = attempted(tmp_path, "give_up_writing")
    assert done - IN_PROC == {"thread"}
    assert (tmp_path / "kept.txt").read_text() == "kept"


@pytest.mark.skipif(
    landlocked() < 6 if sys.platform == "linux" else True,
    reason="the kernel has no Landlock, or an old one",
)
def test_landlock_alone_keeps_files_and_processes(tmp_path: Path) -> None:
    done = attempted(tmp_path, "refuse_calls")
    assert not done & (OF_FILES | IN_PROC | {"kill", "tgkill", "program", "trace", "read memory"})
    assert (tmp_path / "kept.txt").read_text() == "kept"


@pytest.mark.skipif(
    os.name == "nt" or os.geteuid() != 0, reason="only the superuser may read what is another's"
)
def test_the_superuser_still_reads_what_is_anothers(tmp_path: Path) -> None:
    (tmp_path / "his.txt").write_text("The pelican.")
    os.chown(
        tmp_path / "his.txt",
        12345,
        12345,
    )
    (tmp_path / "his.txt").chmod(0o600)
    asked = (
        "import sys; from engine.corpus.sandbox.confinement import confine; confine(2**31);"
        " print(open(sys.argv[1]).read())"
    )
    done = subprocess.run(
        [sys.executable, "-c", asked, tmp_path / "his.txt"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "The pelican.\n", done.stderr
