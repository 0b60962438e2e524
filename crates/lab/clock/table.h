/* The table of the host files that the guest's kernel has open (table.c), and its use by files.c. */
#ifndef TABLE_H
#define TABLE_H

#include "clock.h"

#include <sys/stat.h>
#include <sys/types.h>

struct file {
	char *path; /* NULL: this number is free */
	dev_t device;
	ino_t inode;
	int flags;
	int descriptor; /* -1: not open at present */
	int slot;       /* -1: stays open, or is not open */
	int next_free;
};

/* The kernel may have functions of the same names. */
#pragma GCC visibility push(hidden)

/* The file with this number; NULL for a descriptor of the host. */
struct file *file_of(int fd);
/* Opens a file on the host. */
int open_host(const char *path, int flags, mode_t mode);
/* Returns a number of our own for an opened file or folder, and the host's descriptor for anything else. */
int keep(int descriptor, const char *path, int flags);
/* Closes the file and frees its number. */
void free_number(struct file *file);
/* Gives the number of `target` to the open file of `source`. */
void replace_file(struct file *target, struct file *source, char *path, int descriptor);
/* Before and after an operation that changes what a path names. */
int hold(const char *path);
void let_go(const char *path);
/* After an operation that gave files another path. */
void renamed(const char *from, const char *to);
void exchanged(const char *one, const char *other);

#pragma GCC visibility pop

#endif
