/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rebind.c: see rebind.h. What is read is what the dynamic linker has read: an object's program
 * headers, its dynamic section, the relocations named there; in dl_iterate_phdr, so that the object
 * can't go meanwhile, and no more of the linker than that, for constructors run with its lock held.
 */
#include "base/rebind.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/log.h"

#if defined(__x86_64__) && defined(__LP64__)
#define JUMP_SLOT R_X86_64_JUMP_SLOT
#define GLOB_DAT  R_X86_64_GLOB_DAT
#elif defined(__aarch64__) && defined(__LP64__)
#define JUMP_SLOT R_AARCH64_JUMP_SLOT
#define GLOB_DAT  R_AARCH64_GLOB_DAT
#endif

#ifdef JUMP_SLOT

struct rebind {
	uintptr_t inside;
	const char *name;
	bl_function was, by;
	const char *object;
	int result;
};

struct object {
	const struct dl_phdr_info *info;
	const ElfW(Sym) * symbols;
	const char *strings;
	const ElfW(Rela) * relas[2]; /* by DT_JMPREL and DT_RELA */
	size_t bytes[2];
};

/* --- what is loaded ---------------------------------------------------------------- */

/* The segment that it is loaded in; NULL: it lies elsewhere. */
static const ElfW(Phdr) * segment_of(const struct dl_phdr_info *info, uintptr_t at)
{
	for (ElfW(Half) i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type == PT_LOAD && at - (info->dlpi_addr + ph->p_vaddr) < ph->p_memsz)
			return ph;
	}
	return NULL;
}

static const ElfW(Dyn) * dynamic_of(const struct dl_phdr_info *info)
{
	for (ElfW(Half) i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			return (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	return NULL;
}

/* glibc writes addresses over what the file says, others leave it alone. */
static const void *address(const struct dl_phdr_info *info, ElfW(Addr) value)
{
	return (const void *)(segment_of(info, value) ? value : info->dlpi_addr + value);
}

static bool read_dynamic(const struct dl_phdr_info *info, struct object *o)
{
	bool by_rela = false;

	*o = (struct object){.info = info};
	for (const ElfW(Dyn) *d = dynamic_of(info); d && d->d_tag != DT_NULL; d++)
		switch (d->d_tag) {
		case DT_SYMTAB:
			o->symbols = address(info, d->d_un.d_ptr);
			break;
		case DT_STRTAB:
			o->strings = address(info, d->d_un.d_ptr);
			break;
		case DT_JMPREL:
			o->relas[0] = address(info, d->d_un.d_ptr);
			break;
		case DT_PLTRELSZ:
			o->bytes[0] = d->d_un.d_val;
			break;
		case DT_PLTREL:
			by_rela = d->d_un.d_val == DT_RELA;
			break;
		case DT_RELA:
			o->relas[1] = address(info, d->d_un.d_ptr);
			break;
		case DT_RELASZ:
			o->bytes[1] = d->d_un.d_val;
			break;
		default:
			break;
		}
	if (!by_rela)
		o->relas[0] = NULL;
	return o->symbols && o->strings;
}

/* --- a word ------------------------------------------------------------------------ */

/* What a page may be used for now: as it was loaded, or by whoever has changed that since. */
static int rights_of(uintptr_t at)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	int rights = maps ? -EFAULT : -errno;
	char *line = NULL;
	size_t room = 0;

	while (maps && rights == -EFAULT && getline(&line, &room, maps) > 0) {
		unsigned long begin, end;
		char may[5];

		if (sscanf(line, "%lx-%lx %4s", &begin, &end, may) == 3 && at - begin < end - begin)
			rights = (may[0] == 'r' ? PROT_READ : 0) |
				 (may[1] == 'w' ? PROT_WRITE : 0) | (may[2] == 'x' ? PROT_EXEC : 0);
	}
	free(line);
	if (maps)
		fclose(maps);
	return rights;
}

static int put(bl_function *word, bl_function by)
{
	uintptr_t size = (uintptr_t)getpagesize();
	void *page = (void *)((uintptr_t)word & ~(size - 1));
	int rights = rights_of((uintptr_t)word);
	bool sealed = !(rights & PROT_WRITE);

	if (rights < 0)
		return rights;
	if (sealed && mprotect(page, size, rights | PROT_WRITE))
		return -errno;
	__atomic_store_n(word, by, __ATOMIC_RELEASE);
	if (sealed && mprotect(page, size, rights))
		bl_info("a page that was read-only stays writable: %s", strerror(errno));
	return 1;
}

/* A word that hasn't been bound yet leads back into its own object. */
static int rebind_word(const struct object *o, const struct rebind *r, uintptr_t at)
{
	bl_function *word = (bl_function *)at;
	bl_function now;

	if (!segment_of(o->info, at) || at % sizeof *word)
		return 0;
	now = __atomic_load_n(word, __ATOMIC_RELAXED);
	if (now == r->by)
		return 1;
	if (now != r->was && !segment_of(o->info, (uintptr_t)now))
		return -EBUSY;
	return put(word, r->by);
}

/* By name; a function of the object's own isn't meant. */
static bool calls(const struct object *o, const ElfW(Rela) * rela, const char *name)
{
	const ElfW(Sym) *symbol = &o->symbols[ELF64_R_SYM(rela->r_info)];
	ElfW(Xword) type = ELF64_R_TYPE(rela->r_info);

	return (type == JUMP_SLOT || type == GLOB_DAT) && symbol->st_shndx == SHN_UNDEF &&
	       !strcmp(o->strings + symbol->st_name, name);
}

/* --- all of them ------------------------------------------------------------------- */

static int rebind_object(const struct object *o, const struct rebind *r)
{
	int n = 0;

	for (size_t t = 0; t < bl_countof(o->relas); t++)
		for (size_t i = 0; o->relas[t] && i < o->bytes[t] / sizeof(ElfW(Rela)); i++) {
			const ElfW(Rela) *rela = &o->relas[t][i];
			int ret;

			if (!calls(o, rela, r->name))
				continue;
			ret = rebind_word(o, r, o->info->dlpi_addr + rela->r_offset);
			if (ret < 0)
				return ret;
			n += ret;
		}
	return n;
}

static int look(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct rebind *r = arg;
	struct object o;

	(void)size;
	if (!segment_of(info, r->inside))
		return 0;
	r->object = info->dlpi_name ? info->dlpi_name : "";
	if (segment_of(info, (uintptr_t)r->was) || segment_of(info, (uintptr_t)r->by))
		r->result = -EINVAL;
	else
		r->result = read_dynamic(info, &o) ? rebind_object(&o, r) : 0;
	return 1;
}

int bl_rebind(const void *inside, const char *name, bl_function was, bl_function by,
	      const char **object)
{
	/* Of two, the first to seal a page would do so before the second has written to it. */
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct rebind r = {(uintptr_t)inside, name, was, by, NULL, -ENOENT};

	pthread_mutex_lock(&lock);
	dl_iterate_phdr(look, &r);
	pthread_mutex_unlock(&lock);
	if (object)
		*object = r.object;
	return r.result;
}

#else

int bl_rebind(const void *inside, const char *name, bl_function was, bl_function by,
	      const char **object)
{
	(void)inside;
	(void)name;
	(void)was;
	(void)by;
	(void)object;
	return -ENOSYS;
}

#endif
