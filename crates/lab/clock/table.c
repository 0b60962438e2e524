/* The table of the host files that the guest's kernel has open.
 *
 * The kernel's hostfs keeps a descriptor for each inode in its cache, without a limit, but the host by default allows a
 * process 1024. So the numbers that it holds are our own. At most SLOTS files are actually open; the others are opened again
 * when they are used, if they are still the same files. Files that cannot be opened again (removed, or closed to their owner)
 * stay open. */
#define _GNU_SOURCE
#include "table.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Numbers from here on are ours; no host assigns numbers as high. */
#define FIRST (1 << 28)
#define MOST (1 << 20)
#define SLOTS 256
/* Descriptors that the kernel and the drives need besides these. */
#define SPARE 64

static struct file *files;
static int file_count, first_free = -1;
static int slots[SLOTS], slot_limit = SLOTS, hand; /* the file in each slot; -1 for none */
static char was_used[SLOTS];

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

struct file *file_of(int fd)
{
	return fd >= FIRST && fd < FIRST + file_count && files[fd - FIRST].path ? &files[fd - FIRST] : NULL;
}

/* -1 where that is not possible, or the path now names another file. */
static int reopened(const struct file *file)
{
	struct stat status;
	int descriptor = syscall(SYS_openat, AT_FDCWD, file->path, file->flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
	if (descriptor < 0)
		return -1;
	if (fstat(descriptor, &status) == 0 && status.st_dev == file->device && status.st_ino == file->inode)
		return descriptor;
	syscall(SYS_close, descriptor);
	errno = ESTALE; /* another file is at this path */
	return -1;
}

static int can_reopen(const struct file *file)
{
	int descriptor = reopened(file);
	if (descriptor >= 0)
		syscall(SYS_close, descriptor);
	/* Too many open descriptors at the moment say nothing about the file. */
	return descriptor >= 0 || errno == EMFILE;
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

/* Gives the file one of the slots. Where files that have to stay open occupy all of them, it stays open as well. */
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

/* Closes all files that can be opened again. */
static int make_room(void)
{
	int closed = 0;
	for (int slot = 0; slot < slot_limit; slot++) {
		if (slots[slot] < 0 || !can_reopen(&files[slots[slot]]))
			continue;
		close_now(&files[slots[slot]]);
		closed = 1;
	}
	return closed;
}

/* The host's limit becomes the guest's: a program in it gets the error that too many files are open. */
static int too_many(void)
{
	static int reported;
	if (!reported)
		dprintf(2, "straddle-clock: too many open files\n");
	reported = 1;
	errno = ENFILE;
	return -1;
}

int open_host(const char *path, int flags, mode_t mode)
{
	int fd = syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, mode);
	if (fd < 0 && errno == EMFILE && make_room())
		fd = syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, mode);
	return fd < 0 && errno == EMFILE ? too_many() : fd;
}

int host_descriptor(int fd)
{
	struct file *file = file_of(fd);
	if (!file && fd >= 0 && fd < FIRST)
		return fd;
	if (!file) {
		errno = EBADF;
		return -1;
	}
	if (file->slot >= 0)
		was_used[file->slot] = 1;
	if (file->descriptor >= 0)
		return file->descriptor;
	int descriptor = reopened(file);
	if (descriptor < 0 && errno == EMFILE && make_room())
		descriptor = reopened(file);
	if (descriptor < 0)
		return errno == EMFILE ? too_many() : -1;
	file->descriptor = descriptor;
	take_slot(file);
	return descriptor;
}

/* Returns a number of our own for an opened file or folder, and the host's descriptor for anything else. */
int keep(int descriptor, const char *path, int flags)
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
		.path = copy, .device = status.st_dev, .inode = status.st_ino,
		.flags = flags & ~(O_CREAT | O_EXCL | O_TRUNC), .descriptor = descriptor, .slot = -1,
	};
	take_slot(file);
	return FIRST + number;
}

static int is_below(const struct file *file, const char *path, size_t length)
{
	return file->path && strncmp(file->path, path, length) == 0 && (!file->path[length] || file->path[length] == '/');
}

/* Opens the files known by this path before an operation changes what the path names, and keeps them open.
 * Returns 0, or -1 where the host's limit forbids it. */
int hold(const char *path)
{
	size_t length = strlen(path);
	for (int number = 0; number < file_count; number++) {
		if (!is_below(&files[number], path, length))
			continue;
		if (host_descriptor(FIRST + number) < 0 && errno == ENFILE)
			return -1;
		release_slot(&files[number]);
	}
	return 0;
}

/* Allows held files to be closed again, if they can be opened by this path. */
void let_go(const char *path)
{
	size_t length = strlen(path);
	int error = errno;
	for (int number = 0; number < file_count; number++)
		if (is_below(&files[number], path, length) && files[number].descriptor >= 0 && files[number].slot < 0)
			take_slot(&files[number]);
	errno = error;
}

void renamed(const char *from, const char *to)
{
	size_t length = strlen(from);
	for (int number = 0; number < file_count; number++) {
		struct file *file = &files[number];
		if (!is_below(file, from, length))
			continue;
		char *path = malloc(strlen(to) + strlen(file->path + length) + 1);
		if (!path)
			give_up("no memory for a path");
		strcat(strcpy(path, to), file->path + length);
		free(file->path);
		file->path = path;
	}
}

void exchanged(const char *one, const char *other)
{
	/* A temporary name that no file of a host has. */
	static const char between[] = "//straddle";
	renamed(one, between);
	renamed(other, one);
	renamed(between, other);
}

void free_number(struct file *file)
{
	close_now(file);
	free(file->path);
	file->path = NULL;
	file->next_free = first_free;
	first_free = file - files;
}

/* Afterwards the number of `target` stands for the open file of `source`. Takes over the memory of `path`. */
void replace_file(struct file *target, struct file *source, char *path, int descriptor)
{
	close_now(target);
	free(target->path);
	target->path = path;
	target->flags = source->flags;
	target->device = source->device;
	target->inode = source->inode;
	target->descriptor = descriptor;
	source->descriptor = -1;
	target->slot = source->slot;
	source->slot = -1;
	if (target->slot >= 0)
		slots[target->slot] = target - files;
}
