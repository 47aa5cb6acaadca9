// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * What later tests take for granted of a guest: NUMA nodes on which pages can be placed, and TCP
 * that carries bytes across namespaces and between guests.
 *
 *	t_net numa NODES
 *	t_net serve ADDRESS BYTES NAME	receives and checks
 *	t_net send ADDRESS BYTES
 */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "vmtest.h"

enum { PORT = 5000, MPOL_MF_MOVE_ = 2 };
static char **args;

static void numa(void)
{
	int nodes = atoi(args[2]);
	char *p = mem_map(4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);

	memset(p, 1, 4 * PAGE);
	for (int n = 0; n < nodes; n++) {
		void *pages[4];
		int to[4], is[4];

		for (int i = 0; i < 4; i++) {
			pages[i] = p + i * PAGE;
			to[i] = n;
		}
		EQ(syscall(SYS_move_pages, 0, 4, pages, to, is, MPOL_MF_MOVE_), 0);
		EQ(syscall(SYS_move_pages, 0, 4, pages, NULL, is, 0), 0);
		for (int i = 0; i < 4; i++)
			EQ(is[i], n);
	}
}

static struct sockaddr_in address(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(PORT)};

	CHECK(inet_pton(AF_INET, args[2], &a.sin_addr) == 1);
	return a;
}

static void serve(void)
{
	struct sockaddr_in a = address();
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1, c;
	size_t total = strtoul(args[3], NULL, 0), at = 0;
	static unsigned char buf[65536];
	ssize_t n;

	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	CHECK(!bind(s, (struct sockaddr *)&a, sizeof(a)) && !listen(s, 1));
	c = accept(s, NULL, NULL);
	CHECK(c >= 0);
	while ((n = recv(c, buf, sizeof(buf), 0)) > 0)
		for (ssize_t i = 0; i < n; i++)
			if (buf[i] != mem_byte(at++, 1))
				vt_fail("wrong byte at %zu", at - 1);
	EQ(at, total);
	/* Only now may the other side go: the wire between two guests ends with one of them. */
	CHECK(send(c, "", 1, 0) == 1);
	close(c);
}

static void send_all(void)
{
	struct sockaddr_in a = address();
	size_t total = strtoul(args[3], NULL, 0), at = 0;
	double until = vt_now() + 90;
	static unsigned char buf[65536];
	int s;

	for (;;) {
		s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (!connect(s, (struct sockaddr *)&a, sizeof(a)))
			break;
		if (vt_now() > until)
			vt_fail("no connection: errno %d", errno);
		close(s);
		usleep(100000); /* the peer is another guest, perhaps still booting */
	}
	while (at < total) {
		size_t n = total - at < sizeof(buf) ? total - at : sizeof(buf);

		for (size_t i = 0; i < n; i++)
			buf[i] = mem_byte(at + i, 1);
		for (size_t sent = 0; sent < n;) {
			ssize_t k = send(s, buf + sent, n - sent, 0);

			CHECK(k > 0);
			sent += (size_t)k;
		}
		at += n;
	}
	shutdown(s, SHUT_WR);
	CHECK(recv(s, buf, 1, 0) == 1);
}

int main(int argc, char **argv)
{
	struct test t = {argc > 4 ? argv[4] : argv[1], numa, 150};

	if (argc < 3)
		return 2;
	args = argv;
	if (!strcmp(argv[1], "serve"))
		t.run = serve;
	else if (!strcmp(argv[1], "send"))
		t.run = send_all;
	return vt_main(&t, 1, 1, argv);
}
