from __future__ import annotations

from pathlib import Path

import pytest

from engine.core.errors import UsageError
from engine.core.processors import cgroup_cpus, usable_cores
from engine.encoders import hardware
from engine.encoders.hardware import Machine, bf16_flag, choose_hardware, decide

PLAIN = Machine(4, "cores")
FAST_CPU = Machine(
    4,
    "cores",
    cpu_bf16="AMX-BF16",
)
AMD_CPU = Machine(
    4,
    "cores",
    cpu_bf16="AMD's AVX512-BF16",
)
AMPERE = Machine(
    4,
    "cores",
    cuda="A100",
    cuda_bf16=True,
    cuda_count=2,
)
TURING = Machine(
    4,
    "cores",
    cuda="T4",
    cuda_count=1,
)

HYPERTHREADED = "\n\n".join(
    f"processor\t: {cpu}\nphysical id\t: 0\ncore id\t\t: {cpu % 2}\nflags\t\t: fpu sse2 avx512_bf16"
    " amx_bf16"
    for cpu in range(4)
)


@pytest.mark.parametrize(
    ("machine", "purpose", "device", "dtype"),
    [
        (PLAIN, "encode", "cpu", "float32"),
        (PLAIN, "train", "cpu", "float32"),
        (FAST_CPU, "encode", "cpu", "bfloat16"),
        (Machine(4, "cores", cpu_bf16="AVX512-BF16"), "encode", "cpu", "float32"),
        (FAST_CPU, "train", "cpu", "bfloat16"),
        (AMD_CPU, "encode", "cpu", "bfloat16"),
        (AMD_CPU, "train", "cpu", "bfloat16"),
        (AMPERE, "encode", "cuda", "bfloat16"),
        (AMPERE, "train", "cuda", "bfloat16"),
        (TURING, "encode", "cuda", "float16"),
        (TURING, "train", "cuda", "float32"),
    ],
)
def test_automatic_choice(
    machine: Machine, purpose: hardware.Purpose, device: str, dtype: str
) -> None:
    chosen = decide(
        machine,
        "auto",
        "auto",
        purpose,
    )
    assert (chosen.device, chosen.dtype, chosen.threads) == (device, dtype, 4)
    assert [choice.setting for choice in chosen.choices] == ["device", "dtype", "threads"]
    assert all(choice.reason for choice in chosen.choices)


@pytest.mark.parametrize(
    ("machine", "device", "dtype", "expected"),
    [
        (AMPERE, "cpu", "auto", ("cpu", "float32")),
        (AMPERE, "cuda:1", "float32", ("cuda:1", "float32")),
        (AMPERE, "cuda", "float16", ("cuda", "float16")),
        (FAST_CPU, "cpu", "float32", ("cpu", "float32")),
        (PLAIN, "auto", "bfloat16", ("cpu", "bfloat16")),
    ],
)
def test_wishes_are_respected(
    machine: Machine, device: str, dtype: str, expected: tuple[str, str]
) -> None:
    chosen = decide(
        machine,
        device,
        dtype,
        "encode",
    )
    assert (chosen.device, chosen.dtype) == expected


def test_slow_bfloat16_is_reported() -> None:
    assert "slow" in decide(PLAIN, "cpu", "bfloat16", "encode").choices[1].reason
    assert "slow" not in decide(FAST_CPU, "cpu", "bfloat16", "encode").choices[1].reason


@pytest.mark.parametrize(
    ("machine", "device", "dtype", "purpose"),
    [
        (PLAIN, "cuda", "auto", "encode"),
        (PLAIN, "cuda:0", "auto", "encode"),
        (AMPERE, "cuda:2", "auto", "encode"),
        (AMPERE, "cuda:", "auto", "encode"),
        (AMPERE, "mps", "auto", "encode"),
        (PLAIN, "cpu", "float16", "encode"),
        (TURING, "cuda", "bfloat16", "encode"),
        (TURING, "auto", "float16", "train"),
        (PLAIN, "auto", "int8", "encode"),
    ],
)
def test_impossible_wishes_are_refused(
    machine: Machine, device: str, dtype: str, purpose: hardware.Purpose
) -> None:
    with pytest.raises(UsageError) as caught:
        decide(machine, device, dtype, purpose)
    assert caught.value.what
    assert caught.value.why
    assert caught.value.to_do


def test_bf16_flags() -> None:
    assert bf16_flag(HYPERTHREADED) == "AMX-BF16"
    without_amx = HYPERTHREADED.replace(" amx_bf16", "")
    assert bf16_flag(without_amx) == "AVX512-BF16"
    assert bf16_flag("vendor_id\t: GenuineIntel\n" + without_amx) == "AVX512-BF16"
    assert bf16_flag("vendor_id\t: AuthenticAMD\n" + without_amx) == "AMD's AVX512-BF16"
    assert bf16_flag("vendor_id\t: AuthenticAMD\nflags\t\t: fpu avx512f") is None
    assert bf16_flag("flags : fpu avx512f bf16_like") is None
    assert bf16_flag("") is None


def test_hyperthreads_count_once() -> None:
    assert usable_cores(HYPERTHREADED, frozenset(range(4)), None, None)[0] == 2
    assert usable_cores(HYPERTHREADED, frozenset({0, 2}), None, None)[0] == 1
    assert usable_cores("", frozenset(range(3)), None, None)[0] == 3


def test_arm_cpus_have_no_core_id() -> None:
    assert usable_cores("processor\t: 0\n\nprocessor\t: 1\n", frozenset({0, 1}), None, None)[0] == 2


@pytest.mark.parametrize(("quota", "cores"), [(0.5, 1), (1.9, 1), (2.0, 2), (8.0, 2)])
def test_quota(quota: float, cores: int) -> None:
    assert usable_cores(HYPERTHREADED, frozenset(range(4)), quota, None)[0] == cores


def test_omp_num_threads_lowers_but_never_raises() -> None:
    cores, reason = usable_cores(
        HYPERTHREADED,
        frozenset(range(4)),
        None,
        "1",
    )
    assert cores == 1
    assert "OMP_NUM_THREADS" in reason
    assert usable_cores(HYPERTHREADED, frozenset(range(4)), None, "9")[0] == 2
    assert usable_cores(HYPERTHREADED, frozenset(range(4)), None, "many")[0] == 2


def test_cgroup_version_2(tmp_path: Path) -> None:
    (tmp_path / "cg/a/b").mkdir(parents=True)
    (tmp_path / "self").write_text("0::/a/b\n")
    (tmp_path / "cg/a/b/cpu.max").write_text("max 100000\n")
    assert cgroup_cpus(tmp_path / "self", tmp_path / "cg") is None
    (tmp_path / "cg/a/cpu.max").write_text("150000 100000\n")
    assert cgroup_cpus(tmp_path / "self", tmp_path / "cg") == 1.5


def test_cgroup_version_1(tmp_path: Path) -> None:
    (tmp_path / "cg/cpu,cpuacct/job").mkdir(parents=True)
    (tmp_path / "self").write_text("4:memory:/job\n3:cpu,cpuacct:/job\n")
    (tmp_path / "cg/cpu,cpuacct/job/cpu.cfs_quota_us").write_text("300000")
    (tmp_path / "cg/cpu,cpuacct/job/cpu.cfs_period_us").write_text("100000")
    (tmp_path / "cg/cpu,cpuacct/cpu.cfs_quota_us").write_text("-1")
    assert cgroup_cpus(tmp_path / "self", tmp_path / "cg") == 3.0
    assert cgroup_cpus(tmp_path / "missing", tmp_path / "cg") is None


def test_the_cpu_of_this_machine_is_chosen() -> None:
    chosen = choose_hardware("cpu", "float32")
    assert (chosen.device, chosen.dtype) == ("cpu", "float32")
    assert chosen.threads >= 1
