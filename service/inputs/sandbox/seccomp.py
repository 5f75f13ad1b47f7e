"""The seccomp filter of decoder processes: the system calls that decoding needs, and no others (seccomp(2)).

A call that is not needed fails with EPERM, as libraries expect of one that a system does not allow. Calls that only a
decoder under an attacker's control would make end the process by SIGSYS: reading or stopping other processes, starting
one, connecting, changing the names of files.
"""

import ctypes
import errno
import os
import platform
import struct
import sys

from service.child_processes import prctl

SET_SECCOMP, MODE_FILTER = 22, 2  # an option of prctl and its value
KILL_PROCESS, ERRNO, ALLOW = 0x80000000, 0x00050000, 0x7FFF0000  # what a filter returns
LOAD, JUMP_IF_EQUAL, JUMP_IF_SET, RETURN = 0x20, 0x15, 0x45, 0x06  # of classic BPF
INSTRUCTION = struct.Struct("=HBBI")
"""Code, instructions to jump over if the comparison holds, and if it does not, operand."""
NUMBER_OFFSET, ARCHITECTURE_OFFSET, ARGUMENTS_OFFSET = 0, 4, 16  # in `struct seccomp_data`
PROT_EXEC = 4

ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""By `platform.machine()`: the column in the tables below, and the kernel's word for the architecture (audit.h)."""
ALLOWED: dict[str, tuple[int, int]] = {
    "read": (0, 63), "write": (1, 64), "recvfrom": (45, 207), "sendto": (44, 206), "readv": (19, 65),
    "writev": (20, 66), "close": (3, 57), "fstat": (5, 80), "lseek": (8, 62), "brk": (12, 214), "munmap": (11, 215),
    "mremap": (25, 216), "madvise": (28, 233), "futex": (202, 98), "sched_yield": (24, 124), "getpid": (39, 172),
    "gettid": (186, 178), "getrandom": (318, 278), "getrusage": (98, 165), "clock_gettime": (228, 113),
    "clock_getres": (229, 114), "gettimeofday": (96, 169), "clock_nanosleep": (230, 115), "nanosleep": (35, 101),
    "setitimer": (38, 103), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132), "restart_syscall": (219, 128), "exit": (60, 93), "exit_group": (231, 94),
}  # fmt: skip
"""Numbers of calls by name, on x86_64 and aarch64."""
ALLOWED_UNLESS_EXECUTABLE = {"mmap": (9, 222), "mprotect": (10, 226)}
"""Memory may be had, but not such that code can be run in it."""
ALLOWED_TO_SELF = {"kill": (62, 129), "tgkill": (234, 131)}
"""A process may send itself a signal, as `abort` does."""
ENDING: dict[str, tuple[int, int | None]] = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "tkill": (200, 130), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424), "fork": (57, None), "vfork": (58, None), "clone": (56, 220),
    "clone3": (435, 435), "execve": (59, 221), "execveat": (322, 281), "socket": (41, 198), "connect": (42, 203),
    "unlink": (87, None), "unlinkat": (263, 35), "rmdir": (84, None), "rename": (82, None), "renameat": (264, 38),
    "renameat2": (316, 276), "link": (86, None), "linkat": (265, 37), "symlink": (88, None), "symlinkat": (266, 36),
    "chmod": (90, None), "fchmodat": (268, 53), "mount": (165, 40), "bpf": (321, 280),
}  # fmt: skip


def why_unavailable() -> str | None:
    """Return why a process cannot be confined by a filter here; None if it can."""
    machine = platform.machine()
    if sys.platform != "linux":
        return f"{sys.platform} has no seccomp"
    if machine not in ARCHITECTURES or sys.byteorder != "little" or sys.maxsize < 2**32:
        return f"the filter is not written for {machine}"
    try:
        prctl(SET_SECCOMP, MODE_FILTER, 0)  # without a filter, so that it always fails: with EFAULT if it is known
    except OSError as error:
        if error.errno != errno.EFAULT:
            return f"the kernel or the container does not allow seccomp: {error.strerror}"
    return None


def confine() -> None:
    """Confine this process for good. It must have given up new privileges before. Raises OSError."""
    instructions = _program(platform.machine(), os.getpid())
    code = ctypes.create_string_buffer(b"".join(INSTRUCTION.pack(*one) for one in instructions))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(instructions), ctypes.addressof(code)))
    prctl(SET_SECCOMP, MODE_FILTER, ctypes.addressof(program))


def _program(machine: str, pid: int) -> list[tuple[int, int, int, int]]:
    """Return the instructions of the filter for an architecture and a process."""
    column, word = ARCHITECTURES[machine]
    program = [
        (LOAD, 0, 0, ARCHITECTURE_OFFSET),
        (JUMP_IF_EQUAL, 1, 0, word),
        (RETURN, 0, 0, KILL_PROCESS),  # another architecture numbers its calls differently
        (LOAD, 0, 0, NUMBER_OFFSET),
    ]
    for calls, answer in ((ALLOWED, ALLOW), (ENDING, KILL_PROCESS)):
        for numbers in calls.values():
            if (number := numbers[column]) is not None:
                program += [(JUMP_IF_EQUAL, 0, 1, number), (RETURN, 0, 0, answer)]
    denied = ERRNO | errno.EPERM
    for checked, argument, comparison, operand, if_so, if_not in (
        (ALLOWED_UNLESS_EXECUTABLE, 2, JUMP_IF_SET, PROT_EXEC, denied, ALLOW),
        (ALLOWED_TO_SELF, 0, JUMP_IF_EQUAL, pid, ALLOW, KILL_PROCESS),
    ):
        for pair in checked.values():
            program += [
                (JUMP_IF_EQUAL, 0, 4, pair[column]),
                (LOAD, 0, 0, ARGUMENTS_OFFSET + 8 * argument),  # its lower half
                (comparison, 0, 1, operand),
                (RETURN, 0, 0, if_so),
                (RETURN, 0, 0, if_not),
            ]
    return [*program, (RETURN, 0, 0, denied)]
