#ifndef STRADDLE_CLOCK_H
#define STRADDLE_CLOCK_H

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

#define WATCHDOG_SIGNAL 41

#define SECOND 1000000000ull
/* What the guest sees as the year 2030: later than any file of the host, so that no file is from the future. */
#define EPOCH 1900000000ll
/* The guest's time when it starts, to which the seed adds a phase. */
#define POWER_ON SECOND

/* The clock's counters, in the order in which src/guest/link.rs reads them. */
struct report {
	uint64_t events;      /* everything that was charged for, and everything that moved time */
	uint64_t clock_reads; /* of the guest's kernel */
	uint64_t stops;       /* of the guest's processes: system calls, page faults */
	uint64_t kicks;       /* times that a queue was filled */
	uint64_t exchanges;   /* messages to the drives */
	uint64_t sleeps;      /* times that the guest was idle */
	uint64_t slept;       /* nanoseconds in all of those */
	uint64_t ticks;       /* given to a kernel that was spinning */
	uint64_t late_ticks;  /* ticks whose time depended on the host: the run does not repeat exactly */
	uint64_t computed;    /* nanoseconds charged to programs that computed, as measured: the run does not repeat exactly */
	uint64_t random_addresses; /* 1 where the host may give this process other addresses in each run */
	uint64_t digest;      /* of all events with their times: equal for runs that are equal in every respect */
};

extern volatile struct report report;

/* clock.c: the guest's time in nanoseconds, and the process whose time it is; 0 before the kernel has started. */
extern volatile uint64_t guest_now;
extern pid_t owner;
uint64_t next_random(void);
void give_up(const char *what) __attribute__((noreturn));

/* events.c */
void note(char kind, uint64_t one, uint64_t two, uint64_t three, uint64_t four);
void note_output(int fd, const void *data, size_t length);

/* owners.c */
struct stat64;
void map_owners(struct stat64 *status);

/* files.c, or real_time.c */
int open_file(const char *name, int flags, mode_t mode);

/* table.c: the host's descriptor for one that the guest's kernel holds; -1 with errno set where there is none. */
int host_descriptor(int fd);

/* files.c */
int close_file(int fd);
ssize_t write_file(int fd, const void *data, size_t length);

#endif
