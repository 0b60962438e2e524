/* What the guest's kernel learns from an interrupt: only that it came.
 *
 * The kernel mixes the instruction at which an interrupt found it into its random numbers. For the timer it takes that from
 * the signal's context: somewhere in a spinning loop or a library of the host. For other interrupts it takes it from a
 * structure on the stack that it does not fill in (arch/um/os-Linux/signal.c, sig_handler_common(), Linux 6.1), so from
 * process numbers and times of the host, and registers of the last signal. Therefore its handlers get an empty context, and
 * a cleared stack.
 *
 * Fault handlers run on the same stack, and deferred interrupts are delivered in them: their stack is cleared as well, but
 * they keep the context of the fault. The watchdog, whose moment depends on the host, interrupts no handler. */
#define _GNU_SOURCE
#include "clock.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* The kernel keeps a struct thread_info at the low end of its interrupt stack. */
#define THREAD_INFO 1024

static struct sigaction actions[WATCHDOG_SIGNAL];
static stack_t stack;

static int is_interrupt(int signal)
{
	return signal == SIGALRM || signal == SIGIO || signal == SIGWINCH;
}

static void enter(int signal, siginfo_t *info, void *context)
{
	static ucontext_t nowhere;
	siginfo_t plain;
	if (is_interrupt(signal)) {
		memset(&plain, 0, sizeof plain);
		plain.si_signo = signal;
		info = &plain;
		context = &nowhere;
	}
	note('i', signal, 0, 0, 0);
	/* Up to where the handler's frames begin. This function calls others, so it keeps nothing below the stack pointer. */
	register char *high __asm__("rsp");
	char *low = (char *)stack.ss_sp + THREAD_INFO;
	if (stack.ss_sp && high > low && high <= (char *)stack.ss_sp + stack.ss_size) {
		size_t length = high - low;
		__asm__ volatile("rep stosb" : "+D"(low), "+c"(length) : "a"(0) : "memory");
	}
	if (actions[signal].sa_flags & SA_SIGINFO)
		actions[signal].sa_sigaction(signal, info, context);
	else
		actions[signal].sa_handler(signal);
}

int sigaltstack(const stack_t *restrict new, stack_t *restrict old)
{
	int result = syscall(SYS_sigaltstack, new, old);
	if (result == 0 && new)
		stack = *new;
	return result;
}

/* The kernel saves an action and later restores it, so it must get back its own. */
int sigaction(int signal, const struct sigaction *restrict new, struct sigaction *restrict old)
{
	static int (*next)(int, const struct sigaction *, struct sigaction *);
	if (!next)
		next = (int (*)(int, const struct sigaction *, struct sigaction *))dlsym(RTLD_NEXT, "sigaction");
	int is_kernel = !owner || getpid() == owner; /* its processes have handlers of their own */
	if (signal < 1 || signal >= WATCHDOG_SIGNAL || !is_kernel)
		return next(signal, new, old);
	struct sigaction before = actions[signal], wrapped, host;
	int is_handled = new && new->sa_flags & SA_ONSTACK && new->sa_handler != SIG_DFL && new->sa_handler != SIG_IGN;
	if (is_handled) {
		wrapped = *new;
		wrapped.sa_sigaction = enter;
		wrapped.sa_flags |= SA_SIGINFO;
		sigaddset(&wrapped.sa_mask, WATCHDOG_SIGNAL); /* its frame would overwrite what was cleared */
		actions[signal] = *new;
	}
	int result = next(signal, is_handled ? &wrapped : new, &host);
	if (old)
		*old = host.sa_handler == (void *)enter ? before : host;
	return result;
}
