#ifndef STRADDLE_CLOCK_H
#define STRADDLE_CLOCK_H

#include <signal.h>
#include <stdint.h>

#define WATCHDOG_SIGNAL 41

/* What the clock has counted, in the order in which src/link.rs reads it. */
struct report {
	uint64_t events;      /* everything that was charged for, and everything that moved time */
	uint64_t clock_reads; /* of the guest's kernel */
	uint64_t stops;       /* of the guest's processes: system calls, page faults */
	uint64_t kicks;       /* times that a queue was filled */
	uint64_t exchanges;   /* messages to the drives */
	uint64_t sleeps;      /* times that the guest was idle */
	uint64_t slept;       /* nanoseconds in all of those */
	uint64_t ticks;       /* given to a kernel that spun */
	uint64_t late_ticks;  /* those after the first request to a drive: this run will not repeat exactly */
	uint64_t computed;    /* nanoseconds charged to programs that computed: measured, so this run will not repeat exactly */
};

#endif
