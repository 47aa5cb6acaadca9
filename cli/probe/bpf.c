/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * bpf.c: see bpf.h. The smallest programs and maps of the kinds with which messages from
 * the network can be received inside the kernel; the verifier and the permissions judge
 * them as they would judge real ones. No socket is touched. No state; one thread, in a
 * process of its own for each attempt.
 */
#include "bpf.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE	    4096
#define INSNS(code) (sizeof(code) / sizeof(code)[0])

static int bpf(int command, union bpf_attr *attr)
{
	return (int)syscall(SYS_bpf, command, attr, sizeof *attr);
}

static int map_of(unsigned type, unsigned value_size, unsigned flags)
{
	union bpf_attr attr = {.map_type = type,
			       .key_size = 4,
			       .value_size = value_size,
			       .max_entries = 1,
			       .map_flags = flags};

	return bpf(BPF_MAP_CREATE, &attr);
}

static int program_of(const struct bpf_insn *insns, size_t count)
{
	union bpf_attr attr = {.prog_type = BPF_PROG_TYPE_SK_SKB,
			       .expected_attach_type = BPF_SK_SKB_STREAM_VERDICT,
			       .insns = (uintptr_t)insns,
			       .insn_cnt = (uint32_t)count,
			       .license = (uintptr_t) "Dual BSD/GPL"};

	return bpf(BPF_PROG_LOAD, &attr);
}

int try_bpf_memory(void)
{
	int map = map_of(BPF_MAP_TYPE_ARRAY, PAGE, BPF_F_MMAPABLE);

	if (map < 0)
		return errno;
	return mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, map, 0) == MAP_FAILED ? errno
											  : 0;
}

int try_bpf_receive(void)
{
	static const struct bpf_insn drop[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = SK_DROP},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int program = program_of(drop, INSNS(drop));
	int sockets = program < 0 ? -1 : map_of(BPF_MAP_TYPE_SOCKMAP, 4, 0);
	union bpf_attr attr = {.target_fd = (uint32_t)sockets,
			       .attach_bpf_fd = (uint32_t)program,
			       .attach_type = BPF_SK_SKB_STREAM_VERDICT};

	if (sockets < 0)
		return errno;
	return bpf(BPF_PROG_ATTACH, &attr) ? errno : 0;
}

int try_bpf_read(void)
{
	/* bpf_probe_read_kernel(fp - 8, 8, NULL): an error when it runs, which it never does */
	static const struct bpf_insn reads[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = BPF_REG_1, .src_reg = BPF_REG_10},
		{.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = BPF_REG_1, .imm = -8},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_2, .imm = 8},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_3, .imm = 0},
		{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_probe_read_kernel},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = SK_DROP},
		{.code = BPF_JMP | BPF_EXIT},
	};

	return program_of(reads, INSNS(reads)) < 0 ? errno : 0;
}
