/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * atomics_page.c: see atomics_page.h. `own.lock` guards what belongs to this process; it is
 * taken when endpoints open and close.
 */
#include "transport/local/link/atomics_page.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "transport/local/local.h"

static struct {
	pthread_mutex_t lock;
	unsigned users;
	int fd;
	struct bl_atomics_page *page;
	uint64_t secret; /* random; 0: there is none */
} own = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

int bl_atomics_page_get(void)
{
	int err = 0;

	pthread_mutex_lock(&own.lock);
	if (!own.users) {
		void *page;

		own.fd = bl_segment_page(BL_ATOMICS_PAGE_SIZE, &page);
		err = own.fd < 0 ? own.fd : 0;
		if (!err) {
			own.page = page;
			own.page->magic = BL_ATOMICS_PAGE_MAGIC;
			own.page->version = BL_ATOMICS_PAGE_VERSION;
		}
		if (getrandom(&own.secret, sizeof own.secret, GRND_NONBLOCK) != sizeof own.secret)
			own.secret = 0;
	}
	own.users += !err;
	pthread_mutex_unlock(&own.lock);
	return err;
}

void bl_atomics_page_put(void)
{
	pthread_mutex_lock(&own.lock);
	if (!--own.users) {
		munmap(own.page, BL_ATOMICS_PAGE_SIZE);
		close(own.fd);
		own.page = NULL;
		own.fd = -1;
		own.secret = 0;
		bl_atomics_token_forget();
	}
	pthread_mutex_unlock(&own.lock);
}

struct bl_atomics_page *bl_atomics_page_own(void)
{
	return own.page;
}

int bl_atomics_page_fd(void)
{
	return own.fd;
}

uint64_t bl_atomics_page_secret_at(void)
{
	return own.secret ? (uintptr_t)&own.secret : 0;
}

bool bl_atomics_page_is_secret(uint64_t word)
{
	return word && word == own.secret;
}

void bl_atomics_page_orphan(void)
{
	pthread_mutex_init(&own.lock, NULL);
	if (own.fd >= 0)
		close(own.fd);
	own.fd = -1;
	own.page = NULL;
	own.secret = 0;
	own.users = 0;
	bl_atomics_token_orphan();
}

struct bl_atomics_page *bl_atomics_page_map(int fd)
{
	struct bl_atomics_page *page =
		fd < 0 ? NULL : bl_segment_map_page(fd, BL_ATOMICS_PAGE_SIZE);

	if (page &&
	    (page->magic != BL_ATOMICS_PAGE_MAGIC || page->version != BL_ATOMICS_PAGE_VERSION)) {
		bl_atomics_page_unmap(page);
		page = NULL;
	}
	return page;
}

void bl_atomics_page_unmap(struct bl_atomics_page *atomics_page)
{
	if (atomics_page)
		munmap(atomics_page, BL_ATOMICS_PAGE_SIZE);
}
