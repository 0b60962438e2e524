/* The clock's library under AddressSanitizer and UndefinedBehaviorSanitizer, doing what the guest's kernel makes
 * it do: a table of files far larger than its slots, renamed and removed while they are open; events, the
 * terminals, times, random numbers; the timer, and the link to drives that answer from a thread. Its output does
 * not matter: the sanitizers end it where something is wrong, and the checks where something is lost. */
#define _GNU_SOURCE
#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what)                                                            \
	do {                                                                   \
		if (!(what)) {                                                 \
			dprintf(2, "%d: %s: %s\n", __LINE__, #what, strerror(errno)); \
			_exit(1);                                              \
		}                                                              \
	} while (0)

enum { FILES = 700 };

static char here[1024];
/* The first letter of the files' names. Files of an earlier round are closed to their owner. */
static char files_of = 'a';

static const char *path(const char *folder, int number)
{
	static char buffer[2048];
	snprintf(buffer, sizeof buffer, "%s/%c%s%d", here, files_of, folder, number);
	return buffer;
}

static void many_files(void)
{
	static int open_files[FILES];
	for (int number = 0; number < FILES; number++) {
		open_files[number] = open64(path("", number), O_RDWR | O_CREAT, 0644);
		CHECK(open_files[number] >= 1 << 28);
		CHECK(write(open_files[number], &number, sizeof number) == sizeof number);
	}
	/* Renamed, removed, exchanged and closed to their owner, while most of them are not actually open. */
	for (int number = 0; number < FILES; number += 7) {
		char from[2048];
		strcpy(from, path("", number));
		CHECK(rename(from, path("moved", number)) == 0);
	}
	for (int number = 1; number < FILES; number += 7)
		CHECK(unlink(path("", number)) == 0);
	for (int number = 2; number < FILES; number += 7)
		CHECK(chmod(path("", number), 0) == 0);
	for (int number = 3; number + 1 < FILES; number += 7) {
		char from[2048];
		strcpy(from, path("", number));
		CHECK(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, path("", number + 1), 2) == 0);
	}
	for (int number = 0; number < FILES; number++) {
		int value = -1;
		struct stat64 status;
		CHECK(pread64(open_files[number], &value, sizeof value, 0) == sizeof value && value == number);
		CHECK(fstat64(open_files[number], &status) == 0 && status.st_size == sizeof value);
	}
	for (int number = 0; number + 1 < FILES; number += 2) {
		CHECK(dup2(open_files[number], open_files[number + 1]) == open_files[number + 1]);
		CHECK(close(open_files[number]) == 0);
		CHECK(ftruncate64(open_files[number + 1], 3) == 0);
	}
	for (int number = 1; number < FILES; number += 2)
		CHECK(close(open_files[number]) == 0);
	CHECK(close(open_files[5]) == -1 && errno == EBADF);
	int fd = open("/dev/urandom", O_RDONLY);
	char bytes[100];
	CHECK(fd >= 0 && read(fd, bytes, sizeof bytes) == sizeof bytes && close(fd) == 0);
	struct timeval times[2] = { { 1000000000, 0 }, { 1000000000, 0 } };
	fd = open(path("", FILES), O_RDWR | O_CREAT, 0600);
	CHECK(futimes(fd, times) == 0 && fsync(fd) == 0 && fchmod(fd, 0640) == 0 && close(fd) == 0);
	files_of++;
}

/* Drives that answer everything at once. */
static void *drives(void *data)
{
	int listener = *(int *)data, peer = accept(listener, NULL, NULL);
	uint64_t message[2], now = 0;
	while (syscall(SYS_read, peer, message, sizeof message) == sizeof message && message[0] != 4) {
		now = message[1] == UINT64_MAX ? now + SECOND : message[1] > now ? message[1] : now;
		uint64_t answer[3] = { now, now + SECOND / 10, message[0] == 3 };
		CHECK(syscall(SYS_write, peer, answer, sizeof answer) == sizeof answer);
	}
	return NULL;
}

static void handler(int signal)
{
	(void)signal;
}

static void time_and_drives(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "clock" };
	int listener = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK(bind(listener, (void *)&address, sizeof address) == 0 && listen(listener, 1) == 0);
	pthread_t thread;
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	CHECK(pthread_create(&thread, NULL, drives, &listener) == 0);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	struct sigaction action = { .sa_handler = handler };
	sigaction(SIGALRM, &action, NULL);
	timer_t timer;
	CHECK(timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0 && owner == getpid());
	int kick = eventfd(0, 0);
	uint64_t one = 1;
	struct timespec last = { 0, 0 };
	for (int round = 0; round < 2000; round++) {
		struct itimerspec often = { { 0, round % 3 ? 0 : 10000000 }, { 0, 1000000 + round } }, left;
		CHECK(timer_settime(timer, 0, &often, NULL) == 0 && timer_gettime(timer, &left) == 0);
		CHECK(write(kick, &one, sizeof one) == sizeof one);
		struct timespec now;
		CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
		CHECK(now.tv_sec > last.tv_sec || (now.tv_sec == last.tv_sec && now.tv_nsec >= last.tv_nsec));
		last = now;
		sigset_t none;
		sigemptyset(&none);
		CHECK(sigsuspend(&none) == -1 && errno == EINTR);
	}
	CHECK(close(kick) == 0);
}

int main(void)
{
	CHECK(getcwd(here, sizeof here));
#ifdef PLANTED /* an error that the sanitizers must find */
	volatile int behind = sizeof here;
	here[behind] = 0;
#endif
	owner = getpid();
	many_files();
	time_and_drives();
	many_files();
	CHECK(report.digest != 0 && report.kicks == 2000 && report.sleeps > 0);
	return 0;
}
