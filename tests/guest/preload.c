// Preloaded into linux.uml by `run`.
//
// On processors with AMX the host demands the whole of the register state, 11 KB, when it is set; UML before 6.13 has room for 2696 bytes, is
// refused and dies in put_fp_registers(). So complete what it sets: the part that it does not know is AMX's, all zero as nobody in a guest is
// permitted to use that.
//
// And the guest's memory is a file in /dev/shm or TMPDIR, which may be small, or mounted noexec. So make it one that needs neither.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PEEK_FIRST = 1, PEEK_LAST = 3, GETREGSET = 0x4204, SETREGSET = 0x4205, XSTATE = 0x202 };

long ptrace(int request, ...)
{
	static char whole[65536];
	static size_t needed; // 0 as long as the host takes what it gets
	va_list ap;
	va_start(ap, request);
	long pid = va_arg(ap, long), addr = va_arg(ap, long), data = va_arg(ap, long), word;
	va_end(ap);

	if (request >= PEEK_FIRST && request <= PEEK_LAST) // libc's convention, not the kernel's
		return syscall(SYS_ptrace, request, pid, addr, &word) < 0 ? -1 : word;
	struct iovec *part = (struct iovec *)data;
	if (request != SETREGSET || addr != XSTATE)
		return syscall(SYS_ptrace, request, pid, addr, data);
	if (!needed) {
		struct iovec now = { whole, sizeof whole };
		if (syscall(SYS_ptrace, request, pid, addr, data) == 0)
			return 0;
		if (syscall(SYS_ptrace, GETREGSET, pid, XSTATE, &now) < 0 || now.iov_len <= part->iov_len)
			return -1;
		needed = now.iov_len;
		memset(whole, 0, sizeof whole);
	}
	memcpy(whole, part->iov_base, part->iov_len);
	return syscall(SYS_ptrace, SETREGSET, pid, XSTATE, &(struct iovec){ whole, needed });
}

static int open_file(const char *name, int flags, mode_t mode)
{
	if ((flags & O_TMPFILE) == O_TMPFILE)
		return memfd_create("guest", MFD_CLOEXEC);
	return syscall(SYS_openat, AT_FDCWD, name, flags, mode);
}

int open(const char *name, int flags, ...)
{
	va_list ap;
	va_start(ap, flags);
	mode_t mode = va_arg(ap, int);
	va_end(ap);
	return open_file(name, flags, mode);
}

int open64(const char *name, int flags, ...)
{
	va_list ap;
	va_start(ap, flags);
	mode_t mode = va_arg(ap, int);
	va_end(ap);
	return open_file(name, flags, mode);
}
