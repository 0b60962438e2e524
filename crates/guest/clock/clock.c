/* Preloaded into User-Mode Linux: owns the guest's time.
 *
 * The guest's clock stands still unless it is moved here, and it is moved in two ways only: by a fixed charge for each thing that the
 * guest does, and, when the guest is idle, by a jump to whatever comes next: the timer that the guest has set, or a completion of a drive.
 * The drives are in another process; each message to it is answered before the guest goes on. So a run depends on nothing but
 * its input: not on the speed of the host, nor on what else runs there.
 *
 * Interrupts come out at the moments when time moves, and nowhere else. All signals that the guest takes for interrupts are blocked
 * while a message is under way: the interrupt is pending before the answer is here, and its handler may send the next message.
 */
#define _GNU_SOURCE
#include "clock.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NEVER UINT64_MAX
#define SECOND 1000000000ull
/* What the guest takes for the year 2030: later than any file of the host, so that nothing is from the future. */
#define EPOCH 1900000000ull
/* The guest's timer is at this moment when it starts; plus what the seed adds. */
#define POWER_ON SECOND
#define MOST_FDS 1024

enum { KICK = 1, ADVANCE = 2, WAIT = 3, REPORT = 4 };

/* Both ways, little-endian, as src/link.rs reads and writes them. */
struct message {
	uint64_t kind, at;
};
struct answer {
	uint64_t now, next, raised;
};

static uint64_t now = POWER_ON, deadline = NEVER, interval, next_completion = NEVER;
static uint64_t charge_clock = 100, charge_stop = 2000, charge_kick = 3000, charge_compute = 100;
static struct report report;
static pid_t owner;
static int link_fd = -1;
static int raised; /* an interrupt went out that the guest may have put off */
static char is_kick[MOST_FDS];
static uint64_t random_state, limit = NEVER;

/* --- the link to the drives ------------------------------------------------------------------------------------- */

static const uint64_t interrupts = 1ull << (SIGIO - 1) | 1ull << (SIGALRM - 1) | 1ull << (SIGWINCH - 1) | 1ull << (WATCHDOG_SIGNAL - 1);

static uint64_t block(void)
{
	uint64_t before;
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &interrupts, &before, sizeof before);
	return before;
}

static void unblock(uint64_t before)
{
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
}

static void give_up(const char *what)
{
	dprintf(2, "straddle-clock: %s\n", what);
	syscall(SYS_exit_group, 97);
}

static void transfer(int writing, void *data, size_t length)
{
	for (size_t done = 0; done < length;) {
		ssize_t n = syscall(writing ? SYS_write : SYS_read, link_fd, (char *)data + done, length - done);
		if (n > 0)
			done += n;
		else if (n == 0 || errno != EINTR)
			give_up("the drives are gone");
	}
}

/* To be called with the interrupts blocked. */
static void exchange(uint64_t kind, uint64_t at)
{
	struct message message = { kind, at };
	struct answer answer;
	report.exchanges++;
	transfer(1, &message, sizeof message);
	transfer(0, &answer, sizeof answer);
	if (answer.now > now)
		now = answer.now;
	next_completion = answer.next;
	if (answer.raised)
		raised = 1;
}

static void connect_link(void)
{
	const char *path = getenv("STRADDLE_CLOCK");
	if (!path)
		return;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof address.sun_path)
		give_up("the path of the socket is too long");
	strcpy(address.sun_path, path);
	link_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (link_fd < 0 || connect(link_fd, (void *)&address, sizeof address) != 0)
		give_up("cannot connect to the drives");
}

/* --- time moves ------------------------------------------------------------------------------------------------- */

static void fire(void)
{
	deadline = interval ? deadline + interval : NEVER;
	raised = 1;
	syscall(SYS_kill, owner, SIGALRM);
}

/* The guest has done something that costs so many nanoseconds; what has become due meanwhile happens. */
static void charge(uint64_t cost)
{
	report.events++;
	now += cost;
	if (now >= next_completion) {
		uint64_t before = block();
		while (now >= next_completion)
			exchange(ADVANCE, now);
		unblock(before);
	}
	if (now >= deadline)
		fire();
}

/* --- a guest that computes -------------------------------------------------------------------------------------- */

/* Who computes does nothing that is charged for, and would stop the clock. So look from time to time how much processor time has gone
 * by since something was last charged. The guest's kernel gets its next tick (it may be waiting for one: its RAID code measures itself by
 * counting what it can do in a tick); a program is charged for what it has used. Both depend on the host, so both are counted. */
enum { LOOK_EVERY = 5000000, KERNEL_TICK = 10000000, KERNEL_TICK_LATER = 100000000, PROGRAM_SLICE = 10000000 };

static pid_t running; /* the process whose stop is waited for */

static uint64_t cpu_time(pid_t pid)
{
	struct timespec time;
	clockid_t clock = (clockid_t)(~(unsigned)pid << 3 | 2); /* MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED) */
	return syscall(SYS_clock_gettime, clock, &time) == 0 ? time.tv_sec * SECOND + time.tv_nsec : 0;
}

/* Grows with whatever the guest does but spinning: what is charged for, and touching memory for the first time. */
static uint64_t activity(void)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return report.events + usage.ru_minflt;
}

static void look(int signal)
{
	static uint64_t seen = NEVER, kernel_since, program_since;
	static pid_t program;
	int error = errno;
	(void)signal;
	if (activity() != seen || program != running) {
		seen = activity();
		program = running;
		kernel_since = cpu_time(0);
		program_since = program ? cpu_time(program) : 0;
	} else if (program) {
		uint64_t used = cpu_time(program);
		while (used >= program_since + PROGRAM_SLICE) {
			program_since += PROGRAM_SLICE;
			report.computed += PROGRAM_SLICE / 100 * charge_compute;
			charge(PROGRAM_SLICE / 100 * charge_compute);
		}
		seen = activity();
	} else if (deadline != NEVER && cpu_time(0) >= kernel_since + (report.kicks ? KERNEL_TICK_LATER : KERNEL_TICK)) {
		report.ticks++;
		if (report.kicks)
			report.late_ticks++;
		charge(deadline > now ? deadline - now : 0);
	}
	errno = error;
}

static void start_looking(void)
{
	struct sigaction action = { .sa_handler = look, .sa_flags = SA_RESTART | SA_ONSTACK };
	sigaddset(&action.sa_mask, SIGALRM);
	sigaddset(&action.sa_mask, SIGIO);
	sigaction(WATCHDOG_SIGNAL, &action, NULL);
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = WATCHDOG_SIGNAL };
	struct itimerspec often = { { 0, LOOK_EVERY }, { 0, LOOK_EVERY } };
	int timer;
	syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer);
	syscall(SYS_timer_settime, timer, 0, &often, NULL);
}

/* --- what the guest's kernel calls ------------------------------------------------------------------------------ */

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *value = getenv(name);
	return value ? strtoull(value, NULL, 10) : otherwise;
}

static uint64_t next_random(void) /* splitmix64 */
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

__attribute__((constructor)) static void start(void)
{
	charge_clock = number("STRADDLE_CHARGE_CLOCK", charge_clock);
	charge_stop = number("STRADDLE_CHARGE_STOP", charge_stop);
	charge_kick = number("STRADDLE_CHARGE_KICK", charge_kick);
	charge_compute = number("STRADDLE_CHARGE_COMPUTE", charge_compute);
	limit = number("STRADDLE_LIMIT", limit);
	random_state = number("STRADDLE_SEED", 0);
	now = POWER_ON + number("STRADDLE_PHASE", 0);
}

static struct timespec timespec(uint64_t nanoseconds)
{
	return (struct timespec){ nanoseconds / SECOND, nanoseconds % SECOND };
}

static uint64_t nanoseconds(const struct timespec *time)
{
	return time->tv_sec * SECOND + time->tv_nsec;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
	if (clock == CLOCK_REALTIME)
		*time = timespec(EPOCH * SECOND + now);
	else if (clock == CLOCK_MONOTONIC && owner) {
		report.clock_reads++;
		charge(charge_clock);
		*time = timespec(now);
	} else
		return syscall(SYS_clock_gettime, clock, time);
	return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
	(void)zone;
	struct timespec virtual = timespec(EPOCH * SECOND + now);
	*time = (struct timeval){ virtual.tv_sec, virtual.tv_nsec / 1000 };
	return 0;
}

ssize_t getrandom(void *data, size_t length, unsigned flags)
{
	(void)flags;
	for (size_t at = 0; at < length; at++)
		((unsigned char *)data)[at] = next_random() >> 56;
	return length;
}

/* The kernel has one timer, and makes it once, when it is about to start. */
int timer_create(clockid_t clock, struct sigevent *restrict event, timer_t *restrict timer)
{
	(void)clock;
	(void)event;
	owner = getpid();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	connect_link();
	start_looking();
	*timer = (timer_t)1;
	return 0;
}

int timer_settime(timer_t timer, int flags, const struct itimerspec *restrict value, struct itimerspec *restrict old)
{
	(void)timer;
	(void)flags;
	(void)old;
	report.events++;
	interval = nanoseconds(&value->it_interval);
	uint64_t distance = nanoseconds(&value->it_value);
	deadline = distance ? now + distance : NEVER;
	return 0;
}

/* The kernel asks this before it sleeps, and does not if no timer is set; a completion is a reason to sleep as well. */
int timer_gettime(timer_t timer, struct itimerspec *value)
{
	(void)timer;
	memset(value, 0, sizeof *value);
	if (deadline != NEVER)
		value->it_value = timespec(deadline > now ? deadline - now : 1);
	else if (next_completion != NEVER)
		value->it_value.tv_nsec = 1;
	value->it_interval = timespec(interval);
	return 0;
}

/* The kernel is idle. */
int sigsuspend(const sigset_t *mask)
{
	report.events++;
	errno = EINTR;
	if (raised) { /* it came while the guest had its interrupts off: let it look again, and no time passes */
		raised = 0;
		return -1;
	}
	uint64_t before = block(), since = now;
	report.sleeps++;
	while (!raised && (next_completion != NEVER || deadline != NEVER)) {
		if (next_completion <= deadline)
			exchange(WAIT, deadline);
		else {
			now = deadline > now ? deadline : now;
			fire();
		}
	}
	report.slept += now - since;
	if (now > limit && link_fd >= 0)
		exchange(ADVANCE, now); /* where it will be noticed */
	syscall(SYS_rt_sigsuspend, mask, sizeof(uint64_t)); /* a signal is pending: this returns after its handler */
	raised = 0;
	unblock(before);
	errno = EINTR;
	return -1;
}

int eventfd(unsigned start, int flags)
{
	int fd = syscall(SYS_eventfd2, start, flags);
	if (fd >= 0 && fd < MOST_FDS)
		is_kick[fd] = 1;
	return fd;
}

/* A queue has requests: they are taken now, at this moment of the guest's time, and the eventfd is not needed. */
ssize_t write(int fd, const void *data, size_t length)
{
	if (link_fd < 0 || length != 8 || fd < 0 || fd >= MOST_FDS || !is_kick[fd])
		return syscall(SYS_write, fd, data, length);
	report.kicks++;
	report.events++;
	now += charge_kick;
	uint64_t before = block();
	exchange(KICK, now);
	unblock(before);
	charge(0);
	return length;
}

int close(int fd)
{
	if (fd >= 0 && fd < MOST_FDS)
		is_kick[fd] = 0;
	return syscall(SYS_close, fd);
}

/* The guest's memory is a temporary file, which this makes: one that needs no file system, whatever is mounted where. The named file stays
 * empty, and is unlinked by the caller. */
int mkstemp(char *name)
{
	static int (*next)(char *);
	if (!next)
		next = (int (*)(char *))dlsym(RTLD_NEXT, "mkstemp");
	int fd = next(name);
	int memory = fd < 0 ? -1 : memfd_create("guest", MFD_CLOEXEC);
	if (memory >= 0) {
		dup2(memory, fd);
		syscall(SYS_close, memory);
	}
	return fd;
}

/* Each stop of a guest's process is a system call, a page fault or the like. */
pid_t waitpid(pid_t pid, int *status, int options)
{
	if (!owner || getpid() != owner)
		return syscall(SYS_wait4, pid, status, options, NULL);
	running = pid > 0 ? pid : 0;
	pid_t stopped = syscall(SYS_wait4, pid, status, options, NULL);
	int error = errno;
	running = 0;
	if (stopped > 0) {
		report.stops++;
		charge(charge_stop);
	}
	errno = error;
	return stopped;
}

__attribute__((destructor)) static void finish(void)
{
	if (link_fd < 0 || getpid() != owner)
		return;
	struct message message = { REPORT, now };
	block();
	transfer(1, &message, sizeof message);
	transfer(1, &report, sizeof report);
}
