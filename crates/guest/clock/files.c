/* The guest's kernel and the files of the host.
 *
 * Its file system of the host's files (hostfs) keeps a descriptor for each inode that is in its cache, which may be any number; the host allows a process 1024, by
 * default. So what it holds are numbers of our own: at most SLOTS files are really open, the others are opened again when they are used, if they are still the same
 * files. What could not be opened again (removed, or closed to its owner) stays open.
 *
 * What changes from run to run although the files do not is kept from it: times of access and of the inode. Its memory is a file that needs no file system;
 * what it writes to the terminals of the script waits for whoever reads them, in no time of the guest.
 */
#define _GNU_SOURCE
#include "clock.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Numbers from here on are ours; no host gives as many. */
#define FIRST (1 << 28)
#define MOST (1 << 20)
#define SLOTS 256
/* What the kernel and the drives need beside these. */
#define SPARE 64
/* The script's output, the console, the script's errors: what would be standard input and outputs. */
#define LAST_TERMINAL 2

struct file {
	char *path; /* NULL: this number is free */
	uint64_t hash;
	dev_t device;
	ino_t inode;
	int flags;
	int descriptor; /* -1: not open at present */
	int slot;       /* -1: stays open, or is not */
	int next_free;
};

static struct file *files;
static int file_count, first_free = -1;
static int slots[SLOTS], slot_limit = SLOTS, hand; /* which file has it; -1 for none */
static char was_used[SLOTS];
static int random_descriptor = -1;

__attribute__((constructor)) static void start(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
		if (limit.rlim_cur < SLOTS + SPARE)
			slot_limit = limit.rlim_cur > SPARE + 8 ? (int)limit.rlim_cur - SPARE : 8;
	}
	for (int slot = 0; slot < SLOTS; slot++)
		slots[slot] = -1;
	files = mmap(NULL, MOST * sizeof *files, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (files == MAP_FAILED)
		give_up("no memory for the table of files");
}

/* --- files that are open now and then ----------------------------------------------------------------------------- */

static struct file *file_of(int fd)
{
	return fd >= FIRST && fd < FIRST + file_count && files[fd - FIRST].path ? &files[fd - FIRST] : NULL;
}

static uint64_t hash_of(const char *path)
{
	uint64_t hash = 0xcbf29ce484222325;
	for (; *path; path++)
		hash = (hash ^ (unsigned char)*path) * 0x100000001b3;
	return hash;
}

/* Whether what is there can be opened again: a file that is only read, or one that its owner may read and write. */
static int can_reopen(const struct file *file)
{
	struct stat status;
	if ((file->flags & O_ACCMODE) == O_RDONLY || geteuid() == 0)
		return 1;
	return fstat(file->descriptor, &status) == 0 && status.st_uid == geteuid() && (status.st_mode & 0600) == 0600;
}

static void release_slot(struct file *file)
{
	if (file->slot >= 0)
		slots[file->slot] = -1;
	file->slot = -1;
}

static void close_now(struct file *file)
{
	release_slot(file);
	if (file->descriptor >= 0)
		syscall(SYS_close, file->descriptor);
	file->descriptor = -1;
}

/* Gives the file one of the slots; where all are taken by files that have to stay open, it stays open as well. */
static void take_slot(struct file *file)
{
	for (int tries = 0; tries < 2 * slot_limit; tries++, hand = (hand + 1) % slot_limit) {
		struct file *other = slots[hand] < 0 ? NULL : &files[slots[hand]];
		if (other && was_used[hand]) {
			was_used[hand] = 0;
			continue;
		}
		if (other && !can_reopen(other))
			continue;
		if (other)
			close_now(other);
		slots[hand] = file - files;
		was_used[hand] = 1;
		file->slot = hand;
		return;
	}
	file->slot = -1;
}

static int open_host(const char *path, int flags, mode_t mode)
{
	int fd = syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, mode);
	if (fd < 0 && errno == EMFILE)
		give_up("too many open files");
	return fd;
}

int host_descriptor(int fd)
{
	if (fd < FIRST)
		return fd;
	struct file *file = file_of(fd);
	if (!file) {
		errno = EBADF;
		return -1;
	}
	if (file->slot >= 0)
		was_used[file->slot] = 1;
	if (file->descriptor >= 0)
		return file->descriptor;
	int descriptor = open_host(file->path, file->flags, 0);
	struct stat status;
	if (descriptor < 0)
		return -1;
	if (fstat(descriptor, &status) != 0 || status.st_dev != file->device || status.st_ino != file->inode) {
		syscall(SYS_close, descriptor);
		errno = ESTALE; /* somebody has put another file there */
		return -1;
	}
	file->descriptor = descriptor;
	take_slot(file);
	return descriptor;
}

/* A number of our own for what was opened; the host's where it is neither a file nor a folder. */
static int keep(int descriptor, const char *path, int flags)
{
	struct stat status;
	if (descriptor < 0 || !owner || path[0] != '/' || fstat(descriptor, &status) != 0)
		return descriptor;
	if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
		return descriptor;
	int number = first_free;
	char *copy = strdup(path);
	if (!copy || (number < 0 && file_count == MOST))
		give_up("no room for another file");
	if (number >= 0)
		first_free = files[number].next_free;
	else
		number = file_count++;
	struct file *file = &files[number];
	*file = (struct file){
		.path = copy, .hash = hash_of(copy), .device = status.st_dev, .inode = status.st_ino,
		.flags = flags & ~(O_CREAT | O_EXCL | O_TRUNC), .descriptor = descriptor, .slot = -1,
	};
	take_slot(file);
	return FIRST + number;
}

/* What is known by this path stays open from now on. */
static void hold(const char *path)
{
	uint64_t hash = hash_of(path);
	for (int number = 0; number < file_count; number++) {
		struct file *file = &files[number];
		if (file->path && file->hash == hash && strcmp(file->path, path) == 0 && host_descriptor(FIRST + number) >= 0)
			release_slot(file);
	}
}

static void renamed(const char *from, const char *to)
{
	size_t length = strlen(from);
	for (int number = 0; number < file_count; number++) {
		struct file *file = &files[number];
		if (!file->path || strncmp(file->path, from, length) != 0 || (file->path[length] && file->path[length] != '/'))
			continue;
		char *path = malloc(strlen(to) + strlen(file->path + length) + 1);
		if (!path)
			give_up("no memory for a path");
		strcat(strcpy(path, to), file->path + length);
		free(file->path);
		file->path = path;
		file->hash = hash_of(path);
	}
}

/* --- what the guest's kernel calls -------------------------------------------------------------------------------- */

static int open_file(const char *name, int flags, mode_t mode)
{
	if ((flags & O_TMPFILE) == O_TMPFILE)
		return memfd_create("guest", MFD_CLOEXEC);
	if (strcmp(name, "/dev/random") == 0 || strcmp(name, "/dev/urandom") == 0)
		return random_descriptor = open_host("/dev/null", O_RDWR, 0);
	return keep(open_host(name, flags, mode), name, flags);
}

int open(const char *name, int flags, ...)
{
	va_list arguments;
	va_start(arguments, flags);
	mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
	va_end(arguments);
	return open_file(name, flags, mode);
}

int open64(const char *name, int flags, ...)
{
	va_list arguments;
	va_start(arguments, flags);
	mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
	va_end(arguments);
	return open_file(name, flags, mode);
}

/* A temporary file with a name: the file of that name stays empty, and is unlinked by the caller. */
static int make_temporary(char *name, const char *function)
{
	int (*next)(char *) = (int (*)(char *))dlsym(RTLD_NEXT, function);
	int fd = next(name), memory = fd < 0 ? -1 : memfd_create("guest", MFD_CLOEXEC);
	if (memory >= 0) {
		dup2(memory, fd);
		syscall(SYS_close, memory);
	}
	return fd;
}

int mkstemp(char *name)
{
	return make_temporary(name, "mkstemp");
}

int mkstemp64(char *name)
{
	return make_temporary(name, "mkstemp64");
}

int close_file(int fd)
{
	struct file *file = file_of(fd);
	if (!file)
		return syscall(SYS_close, fd);
	close_now(file);
	free(file->path);
	file->path = NULL;
	file->next_free = first_free;
	first_free = file - files;
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
	/* The file is opened for more than before: the number goes on to stand for what has just been opened. */
	int descriptor = host_descriptor(from);
	char *path = descriptor < 0 ? NULL : strdup(source->path);
	if (!path)
		return -1;
	close_now(target);
	free(target->path);
	target->path = path;
	target->hash = source->hash;
	target->flags = source->flags;
	target->device = source->device;
	target->inode = source->inode;
	target->descriptor = descriptor;
	source->descriptor = -1;
	target->slot = source->slot;
	source->slot = -1;
	if (target->slot >= 0)
		slots[target->slot] = target - files;
	return to;
}

ssize_t read(int fd, void *data, size_t length)
{
	if (fd >= 0 && fd == random_descriptor) {
		for (size_t at = 0; at < length; at++)
			((unsigned char *)data)[at] = next_random() >> 56;
		return length;
	}
	int descriptor = host_descriptor(fd);
	return descriptor < 0 && fd >= FIRST ? -1 : syscall(SYS_read, descriptor, data, length);
}

#define ON_HOST(type, name, number, parameters, ...)                                       \
	type name parameters                                                               \
	{                                                                                  \
		int descriptor = host_descriptor(fd);                                      \
		return descriptor < 0 && fd >= FIRST ? -1 : syscall(number, descriptor, ##__VA_ARGS__); \
	}

ON_HOST(ssize_t, pread64, SYS_pread64, (int fd, void *data, size_t length, off64_t at), data, length, at)
ON_HOST(ssize_t, pwrite64, SYS_pwrite64, (int fd, const void *data, size_t length, off64_t at), data, length, at)
ON_HOST(off64_t, lseek64, SYS_lseek, (int fd, off64_t at, int whence), at, whence)
ON_HOST(off_t, lseek, SYS_lseek, (int fd, off_t at, int whence), at, whence)
ON_HOST(int, fsync, SYS_fsync, (int fd))
ON_HOST(int, fdatasync, SYS_fdatasync, (int fd))
ON_HOST(int, ftruncate64, SYS_ftruncate, (int fd, off64_t length), length)
ON_HOST(int, fallocate64, SYS_fallocate, (int fd, int mode, off64_t at, off64_t length), mode, at, length)
ON_HOST(int, fchown, SYS_fchown, (int fd, uid_t user, gid_t group), user, group)

int fchmod(int fd, mode_t mode)
{
	struct file *file = file_of(fd);
	int descriptor = host_descriptor(fd);
	if (file && descriptor >= 0)
		release_slot(file);
	return descriptor < 0 ? -1 : syscall(SYS_fchmod, descriptor, mode);
}

int chmod(const char *path, mode_t mode)
{
	hold(path);
	return syscall(SYS_chmod, path, mode);
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
	hold(path);
	return syscall(SYS_unlink, path);
}

int rename(const char *from, const char *to)
{
	hold(to);
	int result = syscall(SYS_rename, from, to);
	if (result == 0)
		renamed(from, to);
	return result;
}

/* --- what changes although the file does not ---------------------------------------------------------------------- */

static int settled(int result, struct stat64 *status)
{
	if (result == 0)
		status->st_atim = status->st_ctim = status->st_mtim;
	return result;
}

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

/* Their readers must not decide what the guest does: a write waits, and nobody is interrupted because there is room again. */
static int control(int fd, int command, void *argument)
{
	int descriptor = host_descriptor(fd);
	if (descriptor >= 0 && descriptor <= LAST_TERMINAL && command == F_SETFL)
		argument = (void *)((long)argument & ~(O_ASYNC | O_NONBLOCK));
	return descriptor < 0 ? -1 : syscall(SYS_fcntl, descriptor, command, argument);
}

int fcntl(int fd, int command, ...)
{
	va_list arguments;
	va_start(arguments, command);
	void *argument = va_arg(arguments, void *);
	va_end(arguments);
	return control(fd, command, argument);
}

int fcntl64(int fd, int command, ...)
{
	va_list arguments;
	va_start(arguments, command);
	void *argument = va_arg(arguments, void *);
	va_end(arguments);
	return control(fd, command, argument);
}

int epoll_ctl(int set, int operation, int fd, struct epoll_event *event)
{
	if (fd >= 0 && fd <= LAST_TERMINAL)
		return 0;
	return syscall(SYS_epoll_ctl, set, operation, fd, event);
}

ssize_t write_file(int fd, const void *data, size_t length)
{
	int descriptor = host_descriptor(fd);
	size_t done = 0;
	while (descriptor >= 0 && done < length) {
		ssize_t n = syscall(SYS_write, descriptor, (const char *)data + done, length - done);
		if (n > 0)
			done += n;
		else if (descriptor > LAST_TERMINAL || n == 0 || errno != EINTR)
			return done ? (ssize_t)done : n;
		if (descriptor > LAST_TERMINAL)
			break;
	}
	return descriptor < 0 ? -1 : (ssize_t)done;
}
