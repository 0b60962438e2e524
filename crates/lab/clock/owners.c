/* In a user namespace, root's files on the host, among them set-user-ID programs, would appear to be nobody's. */
#define _GNU_SOURCE
#include "clock.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOBODY 65534

static int is_mapped; /* the host shows root's files as those of NOBODY */

/* The initial namespace maps all numbers to themselves, in one line. */
static int in_user_namespace(void)
{
	char map[64] = "";
	int fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/uid_map", O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return 0;
	if (syscall(SYS_read, fd, map, sizeof map - 1) < 0)
		map[0] = 0;
	syscall(SYS_close, fd);
	return map[0] && !strstr(map, "4294967295");
}

__attribute__((constructor)) static void start(void)
{
	is_mapped = in_user_namespace();
}

void map_owners(struct stat64 *status)
{
	if (is_mapped && status->st_uid == NOBODY)
		status->st_uid = 0;
	if (is_mapped && status->st_gid == NOBODY)
		status->st_gid = 0;
}
