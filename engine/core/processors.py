"""Processor cores that this process may use."""

from __future__ import annotations

import os
from pathlib import Path


def usable_cores(
    cpuinfo: str, allowed: frozenset[int], quota: float | None, limit: str | None
) -> tuple[int, str]:
    """Return the physical cores that this process may use, and the reason for the number.

    `cpuinfo`: text of /proc/cpuinfo, in which hyperthreads of one core (same physical id and core
    id) count once. `allowed`: numbers of the processors that this process may run on. `quota`: the
    CPU quota of its cgroup, in cores. `limit`: the value of OMP_NUM_THREADS.
    """
    # The ids of the processor and of the core in it.
    cores = set()
    for block in cpuinfo.split("\n\n"):
        fields = {}
        for line in block.splitlines():
            key, _, value = line.partition(":")
            fields[key.strip()] = value.strip()
        if fields.get("processor", "").isdigit() and int(fields["processor"]) in allowed:
            cores.add((fields.get("physical id"), fields.get("core id", fields["processor"])))
    count = max(1, len(cores) or len(allowed))
    reason = "physical cores that this process may use"
    if quota is not None and quota < count:
        count = max(1, int(quota))
        reason = f"the container's CPU limit is {quota:g} cores"
    if limit is not None and limit.isdigit() and 0 < int(limit) < count:
        count = int(limit)
        reason = "OMP_NUM_THREADS is set"
    return count, reason


def cgroup_cpus(
    membership: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> float | None:
    """Return the least CPU quota, in cores, of this process's control groups; None without a limit.

    Reads control groups of version 1 and 2.
    """
    limits = []
    for line in read_or_empty(membership).splitlines():
        # Version 1: `4:cpu,cpuacct:/user.slice`. Version 2: `0::/user.slice`.
        controllers, _, group = line.partition(":")[2].partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = _find_hierarchy(root, controllers)
        folder = base / group.strip("/")
        for level in (folder, *folder.parents):
            if not level.is_relative_to(base):
                break
            if controllers:
                quota = read_or_empty(level / "cpu.cfs_quota_us")
                period = read_or_empty(level / "cpu.cfs_period_us")
            else:
                quota, _, period = read_or_empty(level / "cpu.max").partition(" ")
            # Without a limit the quota is `max` (version 2) or -1.
            if quota.strip().isdigit() and period.strip().isdigit() and int(period) > 0:
                limits.append(int(quota) / int(period))
    return min(limits, default=None)


def _find_hierarchy(root: Path, controllers: str) -> Path:
    """Return the folder of a cgroup hierarchy; version 2, without controllers, has only one."""
    if controllers:
        for name in (controllers, "cpu"):
            if (root / name).is_dir():
                return root / name
    return root


def available_cores() -> tuple[int, str]:
    """Return `usable_cores` for this machine."""
    if hasattr(os, "sched_getaffinity"):
        allowed = frozenset(os.sched_getaffinity(0))
    else:
        allowed = frozenset(range(os.cpu_count() or 1))
    cpuinfo = read_or_empty(Path("/proc/cpuinfo"))
    return usable_cores(
        cpuinfo,
        allowed,
        cgroup_cpus(),
        os.environ.get("OMP_NUM_THREADS"),
    )


def read_or_empty(path: Path) -> str:
    """Read a file of /proc or /sys; empty if it cannot be read."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
