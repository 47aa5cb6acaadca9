// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * A TCG plugin that counts guest instructions: at each executed mark (an eight-byte nop with a
 * number nobody else uses) it writes how many instructions that CPU has executed so far.
 *
 *	-plugin icount.so,out=FILE
 *
 * Debian 12 does not package qemu-plugin.h; what is used of it is declared here, for version 1
 * of the interface, which QEMU refuses to load if it no longer speaks it. Each vCPU runs in a
 * thread of its own and only touches its own counter; guests that count have one vCPU.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef struct qemu_info_t qemu_info_t;
typedef void (*tb_cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*vcpu_cb)(unsigned int vcpu, void *arg);
typedef void (*exit_cb)(qemu_plugin_id_t id, void *arg);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, tb_cb cb);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, vcpu_cb cb, int flags,
					  void *arg);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, vcpu_cb cb, int flags,
					    void *arg);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, exit_cb cb, void *arg);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t i);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);

EXPORT int qemu_plugin_version = 1;
EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv);

#define MAX_VCPUS 64

static struct {
	uint64_t n;
	char pad[56];
} counted[MAX_VCPUS];
static FILE *out;
static const unsigned char mark[8] = {0x0f, 0x1f, 0x84, 0x00, 0x78, 0x56, 0x34, 0x12};

static void on_block(unsigned int vcpu, void *n)
{
	counted[vcpu % MAX_VCPUS].n += (uintptr_t)n;
}

static void on_mark(unsigned int vcpu, void *arg)
{
	(void)arg;
	fprintf(out, "%lu\n", counted[vcpu % MAX_VCPUS].n);
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);

	(void)id;
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, 0, (void *)n);
	for (size_t i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		if (qemu_plugin_insn_size(insn) == sizeof(mark) &&
		    !memcmp(qemu_plugin_insn_data(insn), mark, sizeof(mark)))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_mark, 0, NULL);
	}
}

static void on_exit(qemu_plugin_id_t id, void *arg)
{
	(void)id;
	(void)arg;
	fclose(out);
}

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	(void)info;
	if (argc != 1 || strncmp(argv[0], "out=", 4))
		return -1;
	out = fopen(argv[0] + 4, "w");
	if (!out)
		return -1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	qemu_plugin_register_atexit_cb(id, on_exit, NULL);
	return 0;
}
