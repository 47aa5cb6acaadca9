/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * frugal.c: how many system calls liblimic2 makes where there is no module (limic.h says it). All
 * calls of the thread are counted, whatever they are. Linked with liblimic2.a.
 */
#include "harness.h"
#include "limic.h"
#include "spy.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define LEN  (300ul << 10)
#define PART 1000

static unsigned char buf[LEN];
static limic_user lu; /* the announcer's */

/* Calls since spy_begin(). */
static unsigned long calls(void)
{
	struct spy_report r = {0};

	spy_end(&r);
	return r.calls;
}

/* How many `what` makes. */
#define T_CALLS(what, expected)                                                                    \
	do {                                                                                       \
		unsigned long n_;                                                                  \
		spy_begin();                                                                       \
		what;                                                                              \
		n_ = calls();                                                                      \
		T_CHECK(n_ == (expected), "%s: %lu system calls, not %d", #what, n_, expected);    \
	} while (0)

static void watch(void)
{
	const char *why;

	if (!access("/dev/beeline", R_OK | W_OK))
		t_skip("the module is loaded: its way makes other calls");
	why = spy_open();
	if (why)
		t_skip("%s", why);
}

/* The announcer's limic_user reaches the other process; each waits for the other. */
static void hand_over(void)
{
	limic_user all[2];

	t_allgather(&lu, sizeof lu, all, NULL);
	lu = all[0];
}

static int fd;

static void open_it(void)
{
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	watch();
	fd = limic_open();
	T_CHECK(fd >= 0, "limic_open");
}

static bool is_all(size_t from, size_t len, unsigned char value)
{
	for (size_t i = 0; i < len; i++)
		if (buf[from + i] != value)
			return false;
	return true;
}

static size_t got;

static void announcing(void)
{
	limic_user first;

	open_it();
	T_CHECK(limic_tx_init(fd, buf, LEN, &first) == LEN, "limic_tx_init");
	T_CALLS(got = limic_tx_init(fd, buf, LEN, &lu), 0);
	T_CHECK(got == LEN && !memcmp(&first, &lu, sizeof lu), "announced otherwise: %zu", got);
	/* Another range needs a random number. */
	T_CALLS(got = limic_tx_init(fd, buf, PART, &lu), 1);
	T_EQ(got, PART);
	limic_close(fd);
}

static void announce_and_wait(void)
{
	memset(buf, 7, LEN);
	T_CHECK(limic_tx_init(fd, buf, LEN, &lu) == LEN, "limic_tx_init");
	hand_over();
	hand_over();
	T_CHECK(is_all(0, PART, 9) && is_all(PART, LEN - PART, 7), "limic_tx_comp");
}

static void receive(void)
{
	limic_user part;

	hand_over();
	part = lu;
	/* The first one verifies; with the slot's 56 bytes there is one call less from then on. */
	T_CALLS(got = limic_rx_comp(fd, buf, LEN, &part), 2);
	T_CHECK(got == LEN && is_all(0, LEN, 7), "received %zu", got);
	memset(buf, 0, LEN);
	part = lu;
	T_CALLS(got = limic_rx_comp(fd, buf, LEN, &part), 1);
	T_CHECK(got == LEN && is_all(0, LEN, 7), "received again %zu", got);
	memset(buf, 0, LEN);
	part = lu;
	part.va += PART;
	part.offset = part.va % (size_t)sysconf(_SC_PAGESIZE);
	T_CALLS(got = limic_rx_comp(fd, buf, PART, &part), 1);
	T_CHECK(got == PART && is_all(0, PART, 7), "received a part %zu", got);
	/* Verified first, each time. */
	memset(buf, 9, PART);
	part = lu;
	T_CALLS(got = limic_tx_comp(fd, buf, PART, &part), 2);
	T_EQ(got, PART);
	hand_over();
}

static void receiving(void)
{
	open_it();
	if (t_rank)
		receive();
	else
		announce_and_wait();
	limic_close(fd);
}

static void announce_no_longer(void)
{
	memset(buf, 7, LEN);
	T_CHECK(limic_tx_init(fd, buf, LEN, &lu) == LEN, "limic_tx_init");
	hand_over();
	hand_over();
	limic_close(fd);
	fd = limic_open();
	memset(buf, 8, LEN); /* a secret by now */
	hand_over();
	hand_over();
}

static void receive_too_late(void)
{
	limic_user again;

	hand_over();
	again = lu;
	T_EQ(limic_rx_comp(fd, buf, LEN, &again), LEN);
	hand_over();
	hand_over();
	errno = 0;
	T_EQ(limic_rx_comp(fd, buf, LEN, &lu), 0);
	T_EQ(errno, ENOENT);
	T_CHECK(is_all(0, LEN, 0), "what is no longer announced was left in the buffer");
	hand_over();
}

static void ended(void)
{
	open_it();
	if (t_rank)
		receive_too_late();
	else
		announce_no_longer();
	limic_close(fd);
}

static const struct t_case cases[] = {
	{"announcing", 1, announcing, "the same range again costs no system call", 0},
	{"receiving", 2, receiving, "an ioctl and a read of the slot for each message", 0},
	{"ended", 2, ended, "what is no longer announced can be read", 0},
};

int main(int argc, char **argv)
{
	static const struct t_group groups[] = {T_GROUP("limic-frugal", cases)};

	return t_main(argc, argv, groups, 1);
}
