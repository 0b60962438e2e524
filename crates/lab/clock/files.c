/* The guest's kernel and the files of the host. The numbers of files are those of the table (table.c).
 *
 * What changes from run to run although the files do not is hidden from the kernel: the times of access and of inode
 * changes, and the host's time at which the guest itself modified a file. Writes to the script's terminals wait for their
 * readers, which takes none of the guest's time. */
#define _GNU_SOURCE
#include "table.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* The script's output, the console and the script's errors, on the descriptors 0 to 2. */
#define LAST_TERMINAL 2

static int random_descriptor = -1;
static time_t start_of_run; /* in the host's time */

__attribute__((constructor)) static void start(void)
{
	struct timespec time;
	syscall(SYS_clock_gettime, CLOCK_REALTIME, &time);
	start_of_run = time.tv_sec;
}

/* --- when files were modified ------------------------------------------------------------------------------------- */

/* The guest's own times of modification, by inode; where there is no room, the time of power-on is shown. */
#define MODIFIED (1 << 16)

static struct {
	ino_t inode;
	uint64_t at;
} modifications[MODIFIED];

static uint64_t *modification(ino_t inode)
{
	size_t at = inode * 0x9e3779b97f4a7c15ull >> 48;
	for (int tries = 0; tries < 64; tries++, at = (at + 1) % MODIFIED)
		if (modifications[at].inode == inode || !modifications[at].inode) {
			modifications[at].inode = inode;
			return &modifications[at].at;
		}
	return NULL;
}

/* The host may assign the inode number to another file. */
static void forget_modification(ino_t inode)
{
	uint64_t *at = modification(inode);
	if (at)
		*at = 0;
}

static void modified(int fd)
{
	struct file *file = file_of(fd);
	uint64_t *at = file ? modification(file->inode) : NULL;
	if (at)
		*at = guest_now;
}

static int settled(int result, struct stat64 *status)
{
	if (result != 0)
		return result;
	if (owner && status->st_mtim.tv_sec >= start_of_run && status->st_mtim.tv_sec < EPOCH) {
		uint64_t *found = modification(status->st_ino), at = found && *found ? *found : POWER_ON;
		status->st_mtim = (struct timespec){ EPOCH + at / SECOND, at % SECOND };
	}
	status->st_atim = status->st_ctim = status->st_mtim;
	map_owners(status);
	return 0;
}

/* --- what the guest's kernel calls -------------------------------------------------------------------------------- */

int open_file(const char *name, int flags, mode_t mode)
{
	if ((flags & O_TMPFILE) == O_TMPFILE)
		return memfd_create("guest", MFD_CLOEXEC);
	if (strcmp(name, "/dev/random") == 0 || strcmp(name, "/dev/urandom") == 0)
		return random_descriptor = open_host("/dev/null", O_RDWR, 0);
	int fd = keep(open_host(name, flags, mode), name, flags);
	if (flags & O_CREAT)
		modified(fd);
	return fd;
}

/* The file of that name stays empty, and the caller unlinks it. */
int mkstemp(char *name)
{
	int (*next)(char *) = (int (*)(char *))dlsym(RTLD_NEXT, "mkstemp");
	int fd = next(name), memory = fd < 0 ? -1 : memfd_create("guest", MFD_CLOEXEC);
	if (memory >= 0) {
		dup2(memory, fd);
		syscall(SYS_close, memory);
	}
	return fd;
}

int mkstemp64(char *name) __attribute__((alias("mkstemp")));

int close_file(int fd)
{
	struct file *file = file_of(fd);
	if (fd >= 0 && fd == random_descriptor)
		random_descriptor = -1;
	if (!file)
		return syscall(SYS_close, fd);
	free_number(file);
	return 0;
}

int dup2(int from, int to)
{
	struct file *source = file_of(from), *target = file_of(to);
	if (!target) {
		int descriptor = host_descriptor(from);
		return descriptor < 0 ? -1 : syscall(SYS_dup2, descriptor, to);
	}
	if (!source) {
		errno = EBADF;
		return -1;
	}
	/* The file is reopened with more rights: the number now stands for the newly opened file. */
	int descriptor = host_descriptor(from);
	char *path = descriptor < 0 ? NULL : strdup(source->path);
	if (!path)
		return -1;
	replace_file(target, source, path, descriptor);
	return to;
}

ssize_t read(int fd, void *data, size_t length)
{
	if (fd >= 0 && fd == random_descriptor)
		return getrandom(data, length, 0);
	int descriptor = host_descriptor(fd);
	return descriptor < 0 ? -1 : syscall(SYS_read, descriptor, data, length);
}

#define ON_HOST(type, name, number, parameters, ...)                                       \
	type name parameters                                                               \
	{                                                                                  \
		int descriptor = host_descriptor(fd);                                      \
		return descriptor < 0 ? -1 : syscall(number, descriptor, ##__VA_ARGS__);  \
	}

ON_HOST(ssize_t, pread64, SYS_pread64, (int fd, void *data, size_t length, off64_t at), data, length, at)
ON_HOST(off64_t, lseek64, SYS_lseek, (int fd, off64_t at, int whence), at, whence)
off_t lseek(int fd, off_t at, int whence) __attribute__((alias("lseek64")));
ON_HOST(int, fsync, SYS_fsync, (int fd))
ON_HOST(int, fdatasync, SYS_fdatasync, (int fd))
ON_HOST(int, fallocate64, SYS_fallocate, (int fd, int mode, off64_t at, off64_t length), mode, at, length)

int fchmod(int fd, mode_t mode)
{
	int descriptor = host_descriptor(fd);
	if (!owner) /* the guest's memory, which has no name and needs no mode */
		return 0;
	return descriptor < 0 ? -1 : syscall(SYS_fchmod, descriptor, mode);
}

ON_HOST(int, fchown, SYS_fchown, (int fd, uid_t user, gid_t group), user, group)

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t at)
{
	int descriptor = host_descriptor(fd);
	modified(fd);
	return descriptor < 0 ? -1 : syscall(SYS_pwrite64, descriptor, data, length, at);
}

int ftruncate64(int fd, off64_t length)
{
	int descriptor = host_descriptor(fd);
	modified(fd);
	return descriptor < 0 ? -1 : syscall(SYS_ftruncate, descriptor, length);
}

int chmod(const char *path, mode_t mode)
{
	if (hold(path) != 0)
		return -1;
	int result = syscall(SYS_chmod, path, mode);
	let_go(path);
	return result;
}

int futimes(int fd, const struct timeval times[2])
{
	int descriptor = host_descriptor(fd);
	struct timespec both[2];
	for (int at = 0; times && at < 2; at++)
		both[at] = (struct timespec){ times[at].tv_sec, times[at].tv_usec * 1000 };
	return descriptor < 0 ? -1 : syscall(SYS_utimensat, descriptor, NULL, times ? both : NULL, 0);
}

int unlink(const char *path)
{
	struct stat status;
	if (hold(path) != 0)
		return -1;
	int is_last = lstat(path, &status) == 0 && status.st_nlink == 1, result = syscall(SYS_unlink, path);
	if (result == 0 && is_last)
		forget_modification(status.st_ino);
	let_go(path);
	return result;
}

int rename(const char *from, const char *to)
{
	struct stat status;
	if (hold(to) != 0)
		return -1;
	int is_last = lstat(to, &status) == 0 && status.st_nlink == 1, result = syscall(SYS_rename, from, to);
	let_go(to);
	if (result == 0 && is_last)
		forget_modification(status.st_ino);
	if (result == 0)
		renamed(from, to);
	return result;
}

/* The kernel renames with flags by this function. All other calls, ours included, go straight to the host, with the maximum
 * number of arguments, because only the call itself knows how many there are. */
__attribute__((no_sanitize("address"))) long syscall(long number, ...)
{
	va_list arguments;
	long argument[6], result;
	va_start(arguments, number);
	for (int at = 0; at < 6; at++)
		argument[at] = va_arg(arguments, long);
	va_end(arguments);
	const char *from = (const char *)argument[1], *to = (const char *)argument[3];
	if (number == SYS_renameat2 && hold(to) != 0)
		return -1;
	register long fourth __asm__("r10") = argument[3], fifth __asm__("r8") = argument[4], sixth __asm__("r9") = argument[5];
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(argument[0]), "S"(argument[1]), "d"(argument[2]), "r"(fourth), "r"(fifth), "r"(sixth)
			 : "rcx", "r11", "memory");
	if (result < 0 && result > -4096) {
		errno = -result;
		return -1;
	}
	if (number != SYS_renameat2)
		return result;
	let_go(to);
	if (argument[4] & RENAME_EXCHANGE)
		exchanged(from, to);
	else
		renamed(from, to);
	return result;
}

/* --- what changes although the file does not ---------------------------------------------------------------------- */

int stat64(const char *restrict path, struct stat64 *restrict status)
{
	return settled(syscall(SYS_stat, path, status), status);
}

int lstat64(const char *restrict path, struct stat64 *restrict status)
{
	return settled(syscall(SYS_lstat, path, status), status);
}

int fstat64(int fd, struct stat64 *status)
{
	int descriptor = host_descriptor(fd);
	return descriptor < 0 ? -1 : settled(syscall(SYS_fstat, descriptor, status), status);
}

/* --- the script's terminals --------------------------------------------------------------------------------------- */

/* Readers must not influence what the guest does: writes block, and no interrupt reports that there is room again. */
int fcntl(int fd, int command, ...)
{
	va_list arguments;
	va_start(arguments, command);
	void *argument = va_arg(arguments, void *);
	va_end(arguments);
	int descriptor = host_descriptor(fd);
	if (descriptor >= 0 && descriptor <= LAST_TERMINAL && command == F_SETFL)
		argument = (void *)((long)argument & ~(O_ASYNC | O_NONBLOCK));
	return descriptor < 0 ? -1 : syscall(SYS_fcntl, descriptor, command, argument);
}

int fcntl64(int fd, int command, ...) __attribute__((alias("fcntl")));

int epoll_ctl(int set, int operation, int fd, struct epoll_event *event)
{
	if (fd >= 0 && fd <= LAST_TERMINAL)
		return 0;
	return syscall(SYS_epoll_ctl, set, operation, fd, event);
}

ssize_t write_file(int fd, const void *data, size_t length)
{
	int descriptor = host_descriptor(fd);
	if (descriptor < 0)
		return -1;
	if (descriptor > LAST_TERMINAL)
		return syscall(SYS_write, descriptor, data, length);
	if (owner)
		note_output(descriptor, data, length);
	for (size_t done = 0; done < length;) {
		ssize_t n = syscall(SYS_write, descriptor, (const char *)data + done, length - done);
		if (n > 0)
			done += n;
		else if (n == 0 || errno != EINTR)
			return done ? (ssize_t)done : n;
	}
	return length;
}
