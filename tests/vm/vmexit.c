// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Ends the virtual machine with an exit status: QEMU's isa-debug-exit device at port 0xf4 makes
 * (value << 1) | 1 of it. Exit status 0 is sent as 0x10, so that QEMU's own 0 and 1 (power off,
 * error) can be told from ours. Waits until the serial ports have sent what they hold.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/io.h>
#include <termios.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int status = argc > 1 ? atoi(argv[1]) : 0;

	for (int i = 0; i < 2; i++) {
		char path[] = "/dev/ttyS0";
		int fd;

		path[9] += i;
		fd = open(path, O_WRONLY | O_NOCTTY | O_NONBLOCK);
		if (fd >= 0)
			tcdrain(fd);
	}
	if (ioperm(0xf4, 1, 1)) {
		perror("ioperm");
		return 1;
	}
	outb(0x10 + (status & 0x3f), 0xf4);
	return 1;
}
