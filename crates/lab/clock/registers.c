/* Two corrections of how User-Mode Linux traces its processes.
 *
 * On processors with AMX the host requires the whole register state, 11 KB, when it is set. User-Mode Linux before 6.13 has
 * room for 2696 bytes, gets an error and dies in put_fp_registers(). So complete what it sets with the part of AMX, which is
 * all zero, because no process in a guest is permitted to use it. Also, a guest's processes die with their tracer. */
#define _GNU_SOURCE
#include "clock.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <unistd.h>

enum {
	PEEK_FIRST = 1,
	PEEK_LAST = 3,
	OLD_SET_OPTIONS = 21,
	GET_REGISTERS = 12,
	SET_OPTIONS = 0x4200,
	GET_REGISTER_SET = 0x4204,
	SET_REGISTER_SET = 0x4205,
	EXTENDED_STATE = 0x202,
	EXIT_KILL = 1 << 20,
};

static long set_registers(long pid, struct iovec *part)
{
	static char whole[65536];
	static size_t needed; /* 0 as long as the host accepts what it gets */
	if (!needed) {
		if (syscall(SYS_ptrace, SET_REGISTER_SET, pid, EXTENDED_STATE, part) == 0)
			return 0;
		struct iovec present = { whole, sizeof whole };
		if (syscall(SYS_ptrace, GET_REGISTER_SET, pid, EXTENDED_STATE, &present) < 0 || present.iov_len <= part->iov_len)
			return -1;
		needed = present.iov_len;
		memset(whole, 0, sizeof whole);
	}
	memcpy(whole, part->iov_base, part->iov_len);
	return syscall(SYS_ptrace, SET_REGISTER_SET, pid, EXTENDED_STATE, &(struct iovec){ whole, needed });
}

struct start {
	int (*function)(void *);
	void *argument;
	pid_t parent;
};

static int start_child(void *data)
{
	struct start start = *(struct start *)data;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* If the parent is gone already, its death sends nothing, and PTRACE_TRACEME would make process 1 the tracer. */
	if (syscall(SYS_getppid) != start.parent)
		syscall(SYS_exit_group, 0);
	return start.function(start.argument);
}

/* The start argument is never freed: a child that shares our memory may still need it. */
int clone(int (*function)(void *), void *stack, int flags, void *argument, ...)
{
	static int (*next)(int (*)(void *), void *, int, void *, ...);
	if (!next)
		next = dlsym(RTLD_NEXT, "clone");
	struct start *start = malloc(sizeof *start);
	*start = (struct start){ function, argument, syscall(SYS_getpid) };
	return next(start_child, stack, flags, start);
}

long ptrace(int request, ...)
{
	va_list arguments;
	va_start(arguments, request);
	long pid = va_arg(arguments, long), address = va_arg(arguments, long), data = va_arg(arguments, long), word;
	va_end(arguments);

	if (request >= PEEK_FIRST && request <= PEEK_LAST) /* libc's convention, not the kernel's */
		return syscall(SYS_ptrace, request, pid, address, &word) < 0 ? -1 : word;
	if (request == SET_OPTIONS || request == OLD_SET_OPTIONS)
		return syscall(SYS_ptrace, SET_OPTIONS, pid, address, data | EXIT_KILL);
	if (request == SET_REGISTER_SET && address == EXTENDED_STATE)
		return set_registers(pid, (struct iovec *)data);
	if (request == GET_REGISTERS) {
		long result = syscall(SYS_ptrace, request, pid, address, data);
		const struct user_regs_struct *got = (const struct user_regs_struct *)data;
		if (result == 0)
			note('r', got->rip, got->rsp, got->orig_rax, 0);
		return result;
	}
	return syscall(SYS_ptrace, request, pid, address, data);
}
