/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A program that was written for LiMIC2: two processes, one announces, the other takes its bytes
 * and gives it others. It knows the original's header only. tests/limic/unchanged.py compiles it,
 * links it in two ways and runs it; "all bytes are right" and 0 is what it wants to see.
 */
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "original.h"

_Static_assert(sizeof(limic_user) == 48, "48 bytes travel");

#define LEN 300007

static unsigned char buf[LEN];

static unsigned char byte_at(size_t i, unsigned char seed)
{
	return (unsigned char)(i * 11 + i / 509 + seed);
}

static void fill(unsigned char seed)
{
	for (size_t i = 0; i < LEN; i++)
		buf[i] = byte_at(i, seed);
}

static int is(size_t len, unsigned char seed)
{
	for (size_t i = 0; i < len; i++)
		if (buf[i] != byte_at(i, seed))
			return 0;
	return 1;
}

static int fail(const char *what)
{
	fprintf(stderr, "%s\n", what);
	return 1;
}

static int announcer(int sock)
{
	int fd = limic_open();
	unsigned char packet[48], done;
	limic_user lu;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	fill(1);
	if (fd < 0)
		return fail("limic_open");
	if (limic_tx_init(fd, buf, LEN, &lu) != LEN || lu.length != LEN)
		return fail("limic_tx_init");
	memcpy(packet, &lu, sizeof packet);
	if (write(sock, packet, sizeof packet) != sizeof packet || read(sock, &done, 1) != 1)
		return fail("the peer is gone");
	if (!is(LEN, 2))
		return fail("limic_tx_comp left wrong bytes");
	limic_close(fd);
	return 0;
}

static int receiver(int sock)
{
	int fd = limic_open();
	unsigned char packet[48];
	limic_user lu, again;

	if (fd < 0)
		return fail("limic_open");
	if (read(sock, packet, sizeof packet) != sizeof packet)
		return fail("the peer is gone");
	memcpy(&lu, packet, sizeof lu);
	again = lu;
	if (limic_rx_comp(fd, buf, LEN, &lu) != LEN || lu.length != LEN || !is(LEN, 1))
		return fail("limic_rx_comp of all");
	/* In two parts, as one who has two buffers. */
	memset(buf, 0, sizeof buf);
	lu = again;
	if (limic_rx_comp(fd, buf, 5000, &lu) != 5000 || lu.length != 5000)
		return fail("limic_rx_comp of a part");
	lu.va += 5000;
	lu.offset = lu.va % 4096;
	lu.length = LEN - 5000;
	lu.nr_pages = (int)((lu.va + lu.length + 4095) / 4096 - lu.va / 4096);
	if (limic_rx_comp(fd, buf + 5000, LEN - 5000, &lu) != LEN - 5000 || !is(LEN, 1))
		return fail("limic_rx_comp of the rest");
	fill(2);
	if (limic_tx_comp(fd, buf, LEN, &again) != LEN)
		return fail("limic_tx_comp");
	limic_close(fd);
	return write(sock, "", 1) == 1 ? 0 : fail("the peer is gone");
}

int main(void)
{
	int pair[2], status, mine;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return fail("socketpair");
	child = fork();
	if (child < 0)
		return fail("fork");
	if (!child) {
		close(pair[0]);
		return announcer(pair[1]);
	}
	close(pair[1]);
	mine = receiver(pair[0]);
	close(pair[0]);
	if (waitpid(child, &status, 0) != child || status || mine)
		return 1;
	puts("all bytes are right");
	return 0;
}
