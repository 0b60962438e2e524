/* Every open by the kernel, under both names of the function. */
#define _GNU_SOURCE
#include "clock.h"

#include <fcntl.h>
#include <stdarg.h>

int open(const char *name, int flags, ...)
{
	va_list arguments;
	va_start(arguments, flags);
	mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
	va_end(arguments);
	return open_file(name, flags, mode);
}

int open64(const char *name, int flags, ...) __attribute__((alias("open")));
