// SPDX-License-Identifier: GPL-2.0
/*
 * How many contexts this module has made, and how many of them are alive, for
 * debugfs. Counted per CPU.
 *
 * Contexts cross from one side to the other while tasks are being switched, so
 * each one that is made here is marked, in the bytes that the structure leaves
 * between its tag and its union.
 */
#include "takeover.h"

#include <linux/debugfs.h>
#include <linux/percpu.h>
#include <linux/random.h>
#include <linux/seq_file.h>
#include <linux/time64.h>
#include <linux/timekeeping.h>
#include <linux/unaligned.h>

/* By the tags of struct rdma_rw_ctx. */
static const char * const paths[] = { "single", "multi", "mr", "signature", "iova" };

struct tally {
	u64 made[ARRAY_SIZE(paths)];
	u64 adopted[ARRAY_SIZE(paths)];
	/* May be below zero on one CPU, and is right over all of them. */
	s64 alive[ARRAY_SIZE(paths)];
};

static DEFINE_PER_CPU(struct tally, tally);
static struct dentry *dir;

#define MARK_AT		offsetofend(struct rdma_rw_ctx, type)
static_assert(offsetof(struct rdma_rw_ctx, single) - MARK_AT == 3);

/*
 * Marks of contexts that were made while some tasks still ran C, and since:
 * the former may be released by either side, the latter only by this one. The
 * bytes that C leaves there are not its own; they are one of these by chance
 * in one case of eight million.
 */
static u32 mark_early, mark_settled;
static time64_t settled_at;
static bool counting, settled;

static u32 mark_of(struct rdma_rw_ctx *ctx)
{
	return get_unaligned_le24((u8 *)ctx + MARK_AT);
}

static void set_mark(struct rdma_rw_ctx *ctx, u32 mark)
{
	put_unaligned_le24(mark, (u8 *)ctx + MARK_AT);
}

void rdma_rw_c_count_made(struct rdma_rw_ctx *ctx)
{
	if (unlikely(!READ_ONCE(counting)))
		return;
	this_cpu_inc(tally.made[ctx->type]);
	if (likely(READ_ONCE(settled))) {
		this_cpu_inc(tally.alive[ctx->type]);
		set_mark(ctx, mark_settled);
	} else {
		set_mark(ctx, mark_early);
	}
}

void rdma_rw_c_count_released(struct rdma_rw_ctx *ctx)
{
	u32 mark = mark_of(ctx);

	if (unlikely(!READ_ONCE(counting)))
		return;
	if (likely(mark == mark_settled))
		this_cpu_dec(tally.alive[ctx->type]);
	else if (mark != mark_early)
		this_cpu_inc(tally.adopted[ctx->type]);
	set_mark(ctx, 0);
}

/* The first task is about to run this side. */
void takeover_counters_start(void)
{
	/* Neither is 0. */
	mark_settled = get_random_u32_below(1 << 23) << 1 | 1;
	mark_early = mark_settled ^ (1 << 23);
	WRITE_ONCE(counting, true);
}

/* The last task has come over. */
void takeover_counters_settled(void)
{
	WRITE_ONCE(settled_at, ktime_get_real_seconds());
	WRITE_ONCE(settled, true);
}

/* What all CPUs have counted. */
static struct tally total(void)
{
	struct tally sum = { };
	int cpu, i;

	for_each_possible_cpu(cpu) {
		const struct tally *part = per_cpu_ptr(&tally, cpu);

		for (i = 0; i < ARRAY_SIZE(paths); i++) {
			sum.made[i] += READ_ONCE(part->made[i]);
			sum.adopted[i] += READ_ONCE(part->adopted[i]);
			sum.alive[i] += READ_ONCE(part->alive[i]);
		}
	}
	return sum;
}

void takeover_counters_read(u64 *made, s64 *alive)
{
	const struct tally sum = total();
	int i;

	*made = 0;
	*alive = 0;
	for (i = 0; i < ARRAY_SIZE(paths); i++) {
		*made += sum.made[i];
		*alive += sum.alive[i];
	}
}

static int contexts_show(struct seq_file *file, void *unused)
{
	time64_t since = READ_ONCE(settled_at);
	const struct tally sum = total();
	int i;

	if (since)
		seq_printf(file, "since %ptTs\n", &since);
	else
		seq_puts(file, "since -\n");
	seq_printf(file, "%-10s %12s %8s %8s\n", "path", "made", "alive", "adopted");
	for (i = 0; i < ARRAY_SIZE(paths); i++)
		seq_printf(file, "%-10s %12llu %8lld %8llu\n",
			   paths[i], sum.made[i], sum.alive[i], sum.adopted[i]);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(contexts);

/* A kernel without debugfs does without. */
void takeover_counters_init(void)
{
	dir = debugfs_create_dir(KBUILD_MODNAME, NULL);
	debugfs_create_file("contexts", 0444, dir, NULL, &contexts_fops);
}

void takeover_counters_exit(void)
{
	debugfs_remove(dir);
}
