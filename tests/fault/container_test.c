/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * container_test.c: two ranks, one of them in namespaces of its own, as container
 * engines make them. Where they can reach each other, the same bytes arrive, by
 * whatever way the kernel permits, and the log says once what it doesn't; where
 * they can't, both hear so at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fault/traffic.h"
#include "transport/local/link/prove_access.h"

enum meeting { MEET, REFUSE };

struct container_row {
	struct row row;
	int unshare;
	bool map; /* our user into the new user namespace */
	bool undumpable;
	enum meeting meeting;
	unsigned refusals; /* lines about process_vm_* that each may log, at most */
};

static const struct container_row rows[] = {
	{{"none", "what the others are compared to"}, 0, false, false, MEET, 0},
	{{"user", "no right to the other's memory, one way"}, CLONE_NEWUSER, true, false, MEET, 2},
	{{"user, not mapped", "all users look alike from there"},
	 CLONE_NEWUSER,
	 false,
	 false,
	 REFUSE,
	 0},
	{{"PID", "one doesn't see the other"}, CLONE_NEWPID, false, false, MEET, 2},
	{{"mount", "nothing is looked for in files"}, CLONE_NEWNS, false, false, MEET, 0},
	{{"user, PID and mount", "a rootless container on the host's network"},
	 CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS,
	 true,
	 false,
	 MEET,
	 2},
	{{"IPC and UTS", "neither matters"}, CLONE_NEWIPC | CLONE_NEWUTS, false, false, MEET, 0},
	{{"network", "the address is not local, whatever files both see"},
	 CLONE_NEWNET,
	 false,
	 false,
	 REFUSE,
	 0},
	{{"network and mount", "the same without a directory that both can write in"},
	 CLONE_NEWNET | CLONE_NEWNS,
	 false,
	 false,
	 REFUSE,
	 0},
	{{"not dumpable", "as Yama refuses, or a setuid program"}, 0, false, true, MEET, 2},
};

static const struct container_row *row;

static void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		rank_fail(1, "%s: %s", path, strerror(errno));
	close(fd);
}

/* No directory where the other could leave a file, or find one. */
static void share_no_directory(void)
{
	static const char *const places[] = {"/dev/shm", "/tmp",  "/var/tmp",
					     "/run",	 "/home", "/root"};

	RANK_CHECK(1, !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
	for (size_t i = 0; i < bl_countof(places); i++)
		if (mount("none", places[i], "tmpfs", 0, "size=1m") && errno != ENOENT)
			rank_fail(1, "a tmpfs over %s: %s", places[i], strerror(errno));
	RANK_CHECK(1, !mount("none", "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL));
	RANK_CHECK(1, open("/beeline-of-both", O_CREAT | O_WRONLY, 0600) < 0 && errno == EROFS);
}

static void enter(void)
{
	char map[64];
	uid_t uid = geteuid();

	if (unshare(row->unshare))
		rank_fail(1, "unshare: %s", strerror(errno));
	if (row->unshare == (CLONE_NEWNET | CLONE_NEWNS))
		share_no_directory();
	if (row->map) {
		snprintf(map, sizeof map, "%u %u 1", uid, uid);
		write_text("/proc/self/setgroups", "deny");
		write_text("/proc/self/uid_map", map);
	}
	if (row->unshare & CLONE_NEWPID) { /* it is our children that live there */
		pid_t pid = fork();
		int status = 1;

		RANK_CHECK(1, pid >= 0);
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			return;
		}
		waitpid(pid, &status, 0);
		_exit(status != 0);
	}
}

static void must_be_refused(int rank)
{
	struct deadline late = deadline_in(TOLERATED_NS);
	unsigned tries = 1;
	int err;

	while ((err = bl_inject(ep, "x", 1, world_index[!rank], 1, 0, BL_TAGGED)) == -EAGAIN) {
		bl_ep_progress(ep);
		if (deadline_over(&late))
			rank_fail(rank, "neither a connection nor an error");
		tries++;
	}
	if (!err)
		rank_fail(rank, "a message went where none may");
	/* By the address alone: nobody is called. */
	if (row->unshare & CLONE_NEWNET && (tries > 1 || err != -ENETUNREACH))
		rank_fail(rank, "try %u to an address that isn't local: %s", tries, strerror(-err));
	if (row->unshare == CLONE_NEWUSER && !rank_logged("unshare --map-current-user"))
		rank_fail(rank, "not a word about how to map the user");
	atomic_store(&world->mark[rank], 1);
	while (!atomic_load(&world->mark[!rank]))
		bl_ep_progress(ep);
}

/* The lock of the other's memory is for who may change that memory anyway. */
static void has_what_it_may(int rank)
{
	struct bl_peer *other = world_peer(!rank);
	uint64_t word;
	struct iovec mine = {&word, sizeof word}, theirs = {&row, sizeof word};
	bool may = other->copy.pid &&
		   process_vm_readv(other->copy.pid, &mine, 1, &theirs, 1, 0) == sizeof word;
	struct deadline late = deadline_in(TOLERATED_NS);
	struct bl_atomics_page *atomics_page;

	while (bl_peer_atomics_page(other, &atomics_page) == -EAGAIN)
		if (deadline_over(&late))
			rank_fail(rank, "no answer to whether it may have the lock");
	if (may != (atomics_page != NULL))
		rank_fail(rank, "it may %sread the other's memory, and has %s lock of it",
			  may ? "" : "not ", atomics_page ? "the" : "no");
	atomic_store(&world->mark[rank], 1);
	while (!atomic_load(&world->mark[!rank]))
		bl_ep_progress(ep);
}

static void contained(int rank)
{
	struct traffic t = {
		.rank = rank, .count = 2, .victim = -1, .least = 1, .most = 1500000, .limit = 40};

	rank_keep_log();
	if (row->undumpable && !geteuid()) /* root may read everybody */
		RANK_CHECK(rank, !setgid(65534) && !setuid(65534));
	if (row->undumpable)
		prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (rank)
		enter();
	rank_open(rank, 2);
	if (row->meeting == REFUSE)
		must_be_refused(rank);
	else
		traffic_run(&t);
	if (row->meeting == MEET)
		has_what_it_may(rank);
	if (rank_logged("take another way") > row->refusals)
		rank_fail(rank, "%u lines about another way", rank_logged("take another way"));
	atomic_fetch_add(&world->mark[2], rank_logged("take another way"));
	if (!(row->unshare & CLONE_NEWPID))
		rank_close(rank);
}

static void container(void **state)
{
	row = TABLE_ROW(struct container_row, state);
	setenv("FI_BEELINE_LOG", "info", 1);
	if (row->unshare && geteuid() && !(row->unshare & CLONE_NEWUSER))
		skip(); /* an ordinary user may only make user namespaces */
	world_start(2, contained);
	world_end(-1);
	if (row->unshare & CLONE_NEWUSER && row->meeting == MEET && !(row->unshare & CLONE_NEWPID))
		assert_true(atomic_load(&world->mark[2])); /* it is a refusal that we tested */
	if (row->undumpable)
		assert_true(atomic_load(&world->mark[2]));
}

int main(void)
{
	TABLE_ROWS("container", container, rows);
	return table_run("container");
}
