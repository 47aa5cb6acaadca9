/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The interface of LiMIC2, for programs written for it (MVAPICH2 among them): one process copies
 * straight from or to a buffer that another has announced. liblimic2 serves it by beeline.ko, or
 * without the module by process_vm_readv() and process_vm_writev(); the results are the same.
 * Programs compiled against the original header run unchanged.
 *
 *	process A				process B
 *	limic_tx_init(fd, buf, len, &lu)
 *	    lu travels to B by whatever means A and B have
 *						limic_rx_comp(fd, to, n, &lu)	B gets A's bytes
 *					or	limic_tx_comp(fd, from, n, &lu)	A gets B's bytes
 *
 * limic_open	A descriptor for the other calls, or -1 with errno. Needs nothing: where
 *		/dev/beeline is missing or may not be opened, the descriptor stands for
 *		process_vm_readv(). The processes of one job may differ in that: what one of them
 *		announced through the module, another copies without it, and the other way round,
 *		if process_vm_readv() is permitted between the two.
 * limic_close	Ends it. What was announced by it can no longer be copied. It must not be ended by
 *		close(): which way it goes is remembered by its number.
 * limic_tx_init  Announces len bytes at buf and fills in lu. Returns len, or 0 with errno.
 *		Announcing the same range again costs no system call. There is no call that takes
 *		it back: it lasts until limic_close(), exit, or execve(); or until LIMIC_MOST
 *		other ranges have been announced after it.
 * limic_rx_comp  Copies min(len, lu->length) bytes from what lu announces to buf, sets lu->length
 *		to the number copied and returns it. 0 with errno and lu unchanged: none could be.
 *		(buf may be cleared then, if what lu announces has ended since an earlier copy.)
 *		Fewer than that minimum: the announced memory ends there (unmapped, truncated).
 *		One system call, but for the first from an announcement, which also verifies it.
 * limic_tx_comp  The same, from buf to what lu announces.
 *
 * All may be called by several threads at once, and after a fork by both processes.
 *
 * The holder of a limic_user may work on a part of what was announced, as MVAPICH2 does: the
 * first byte is the one at lu->offset from the page of lu->va, so moving offset, or va with
 * offset, moves on; length bounds the bytes. nr_pages holds no number that means anything to the
 * caller, who may change it once a copy from that limic_user has been made. Whatever the
 * fields say, nothing outside the announced range is reached: that is ERANGE, and a limic_user
 * that limic_tx_init() did not fill in, or whose announcement has ended, is ENOENT or ESRCH.
 * EPERM: there is no module here, and process_vm_readv() is not permitted.
 *
 * What is trusted: with the module on both sides, the kernel alone. Otherwise the kernel says
 * which processes may be reached at all, as for any process_vm_readv(), and the announcing process,
 * by its own memory, what it has announced. A limic_user that was tampered with may name another
 * process; nothing of that is copied unless it has itself announced the very 128 bits (without the
 * module: 48 bits, at the very address) that the limic_user bears. Who can write to the memory of a
 * process decides what that process announces, as it decides all else that it does.
 */
#ifndef LIMIC_H
#define LIMIC_H

#include <stddef.h>
#include <sys/types.h> /* as the original does: programs rely on it */

#define LIMIC_MOST 262144

/* The values that LiMIC2's header has; its functions never returned them. */
#define LIMIC_TX_DONE	 1
#define LIMIC_RX_DONE	 2
#define LIMIC_VERSION_OK 3
#define LIMIC_TXW_DONE	 4

/*
 * 48 bytes to be handed to the peer as they are. mm and tsk hold no addresses. nr_pages tells a
 * peer without the module where it finds an announcement that was made with it; where that is lost
 * on the way, this one case is an error and nothing else changes.
 */
typedef struct limic_user {
	int nr_pages;
	size_t offset; /* of the first byte in its page */
	size_t length; /* bytes */
	unsigned long va;
	void *mm;
	void *tsk;
} limic_user;

#ifdef __cplusplus
extern "C" {
#endif

int limic_open(void);
void limic_close(int fd);
size_t limic_tx_init(int fd, void *buf, size_t len, limic_user *lu);
size_t limic_rx_comp(int fd, void *buf, size_t len, limic_user *lu);
size_t limic_tx_comp(int fd, void *buf, size_t len, limic_user *lu);

#ifdef __cplusplus
}
#endif

#endif
