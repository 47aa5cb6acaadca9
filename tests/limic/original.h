/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * LiMIC2's interface as a program sees it that was written for the original: the names and types
 * alone, written anew from what is known of them. Of no use to programs: include/limic.h is. It is
 * here so that the tests do not compile against the header of the library that they test.
 */
#ifndef TEST_ORIGINAL_LIMIC_H
#define TEST_ORIGINAL_LIMIC_H

#include <stdlib.h>

typedef struct limic_user {
	int nr_pages;
	size_t offset;
	size_t length;
	unsigned long va;
	void *mm;
	void *tsk;
} limic_user;

int limic_open(void);
void limic_close(int fd);
size_t limic_tx_init(int fd, void *buf, size_t len, limic_user *lu);
size_t limic_rx_comp(int fd, void *buf, size_t len, limic_user *lu);
size_t limic_tx_comp(int fd, void *buf, size_t len, limic_user *lu);

#endif
