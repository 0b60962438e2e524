/* The record of a run. Every event of the guest's kernel goes into a digest and, if the run's folder has a file
 * `events`, into that file, one per line: its number, the guest's time in nanoseconds, its kind, and four numbers
 * in hexadecimal. The first line in which two records differ is where their runs diverged.
 *
 *     c  the kernel has read its clock           k  a queue of a drive was filled
 *     s  a process has stopped (wait status)     x  the drives have answered (time, next completion, interrupted)
 *     r  its registers (rip, rsp, orig_rax)      d  the timer was set (deadline, interval)
 *     i  an interrupt (signal)                   a  the timer has fired
 *     z  the kernel sleeps                       w  it wakes
 *     t  a tick for a kernel that spins          p  a program has computed (nanoseconds)
 *     o  the script or the console has written (descriptor, bytes, hash)
 */
#define _GNU_SOURCE
#include "clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GOLDEN 0x9e3779b97f4a7c15ull

static int file = -1;
static uint64_t count;

__attribute__((constructor)) static void start(void)
{
	file = syscall(SYS_openat, AT_FDCWD, "events", O_WRONLY | O_TRUNC | O_CLOEXEC, 0);
}

static uint64_t mix(uint64_t state, uint64_t value)
{
	state = (state ^ value) * GOLDEN;
	return state ^ state >> 29;
}

void note(char kind, uint64_t one, uint64_t two, uint64_t three, uint64_t four)
{
	uint64_t numbers[] = { kind, guest_now, one, two, three, four };
	uint64_t digest = report.digest;
	for (unsigned at = 0; at < sizeof numbers / sizeof *numbers; at++)
		digest = mix(digest, numbers[at]);
	report.digest = digest;
	count++;
	if (file < 0)
		return;
	char line[160];
	int length = snprintf(line, sizeof line, "%lu %lu %c %lx %lx %lx %lx\n", count, guest_now, kind, one, two, three, four);
	if (syscall(SYS_write, file, line, length) != length)
		give_up("cannot write the record of events");
}

void note_output(int fd, const void *data, size_t length)
{
	uint64_t hash = 0;
	for (size_t at = 0; at < length; at++)
		hash = mix(hash, ((const unsigned char *)data)[at]);
	note('o', fd, length, hash, 0);
}
